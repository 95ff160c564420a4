"""Persistent requests: a message whose arguments are the same whenever a loop begins it is set up once, at its first
execution, and later only started.

The message is set up and started where it was begun, so its arguments are evaluated only where they were, and the order
in which messages match and all accesses to memory stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.program import MissedOptimization, NotMovable
from nearfield.rewrite.analysis.requests import RequestPlace
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, start_of_line
from nearfield.rewrite.placement.fixed_values import FixedValues
from nearfield.rewrite.placement.loop_exits import check_loop, check_pragmas, directives_around
from nearfield.rewrite.placement.request_pairs import RequestPairs

UNKNOWN_GAIN = "no scenario of a profile measures persistent requests"
# The calls that create the persistent requests of each call.
CREATES = {
    "MPI_Isend": ("MPI_Send_init",), "MPI_Issend": ("MPI_Ssend_init",), "MPI_Irecv": ("MPI_Recv_init",),
    "MPI_Send": ("MPI_Send_init",), "MPI_Ssend": ("MPI_Ssend_init",), "MPI_Recv": ("MPI_Recv_init",),
    "MPI_Sendrecv": ("MPI_Recv_init", "MPI_Send_init"),
}  # fmt: skip
_STATUS = {"MPI_Recv": 6, "MPI_Sendrecv": 11}
MAX_LINE = 100  # maximum characters of a written line


@dataclass(frozen=True)
class FixedMessage:
    """A call in a loop whose messages may have persistent requests. `requests` are the requests as C text, `creates`
    the calls that create them with all their arguments."""

    name: str
    offset: int
    end: int
    line: int
    requests: tuple[str, ...]
    creates: tuple[tuple[str, tuple[str, ...]], ...]
    in_block: bool = True

    @property
    def is_blocking(self) -> bool:
        """Returns whether the call waits for its messages itself."""
        return not self.name.startswith("MPI_I")

    @property
    def starts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Returns the calls that start the messages, and wait for them if the call did, with their arguments."""
        first = f"&{self.requests[0]}"
        if len(self.requests) == 1:
            wait = ("MPI_Wait", (first, "MPI_STATUS_IGNORE"))
            return (("MPI_Start", (first,)), wait) if self.is_blocking else (("MPI_Start", (first,)),)
        count = str(len(self.requests))
        return ("MPI_Startall", (count, first)), ("MPI_Waitall", (count, first, "MPI_STATUSES_IGNORE"))


@dataclass(frozen=True)
class Edit:
    """A replacement in a source file: the text between two offsets becomes another one."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class PersistentLoop:
    """A loop with messages that get persistent requests, and the edits of the source file that do so: one in front of
    the loop, those of declarations that move there, one for each message, and one behind the loop."""

    function: str
    loop: int  # source offset
    end: int
    messages: tuple[FixedMessage, ...]
    declared: int  # number of new requests
    array: str  # name of the new request array
    moved: tuple[tuple[int, int], ...]  # offsets of request declarations that move in front of the loop
    edits: tuple[Edit, ...]

    @property
    def requests(self) -> tuple[str, ...]:
        """Returns all requests as C text."""
        return tuple(request for message in self.messages for request in message.requests)


class PersistentFinder:
    """Finds the loops of one function whose messages may have persistent requests."""

    def __init__(
        self,
        unit: TranslationUnit,
        functions: ProgramFunctions,
        function: FunctionFacts,
        new_name: Callable[[int], str],
    ) -> None:
        self._unit, self._functions, self._function, self._new_name = unit, functions, function, new_name
        self.missed: list[MissedOptimization] = []

    def find_loops(self) -> Iterator[PersistentLoop]:
        """Yields each loop with messages that may have persistent requests, with the edits that give them some."""
        found: dict[int, tuple[Node, list[tuple[Node, FixedMessage]]]] = {}
        for call in self._function.calls:
            loops = [above for above in self._function.ancestors(call) if above.kind in LOOPS]
            if call.name not in CREATES or not loops:
                continue
            reason = NotMovable("", call.line)
            for loop in reversed(loops):
                try:
                    _, others = found.get(loop.offset, (loop, []))
                    number = sum(len(one.requests) for _, one in others if one.is_blocking)
                    message = self._read_message(call, loop, number)
                except NotMovable as why:
                    reason = why
                    continue
                found.setdefault(loop.offset, (loop, []))[1].append((call, message))
                break
            else:
                near = f" (line {reason.line})" if reason.line not in (0, call.line) else ""
                self.missed.append(MissedOptimization(call.line, f"{reason.reason}{near}", self._function.name))
        for loop, messages in found.values():
            yield self._with_edits(loop, messages)

    def _read_message(self, call: Node, loop: Node, number: int) -> FixedMessage:
        """Returns a call as a message with persistent requests that are created in a loop. Raises NotMovable with the
        reason if that is not allowed."""
        unit, function = self._unit, self._function
        fixed = FixedValues(function, loop)
        for argument in call.arguments[: 11 if call.name == "MPI_Sendrecv" else 6]:
            fixed.require_fixed(argument)
        check_loop(loop, function, self._functions, unit)
        check_pragmas(call, function, unit)
        above = function.parent(call)
        if not unit.text.startswith(call.name, call.offset) or unit.is_macro_use(call.offset):
            raise NotMovable("a macro hides the call", call.line)
        if (
            above is None
            or above.kind not in (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOPS)
            or (above.kind != Kind.COMPOUND_STMT and not any(one is call for one in above.children[1:]))
        ):
            raise NotMovable("its result is used", call.line)
        if above.kind in LOOPS and above.children[-1] is not call:
            raise NotMovable("it stands in the head of a loop", call.line)
        if directives_around(unit.text, call.offset) != directives_around(unit.text, loop.offset):
            raise NotMovable("a directive of the preprocessor decides whether it is compiled", call.line)
        words, names = tuple(split_arguments(call)), CREATES[call.name]
        if len(words) != len(call.arguments) or any("//" in one or "/*" in one for one in words):
            raise NotMovable("a macro or a comment hides its arguments", call.line)
        blocking = not call.name.startswith("MPI_I")
        if blocking:
            if call.name in _STATUS and not is_status_unread(call.arguments[_STATUS[call.name]], function):
                raise NotMovable("its status is read", call.line)
            is_exchange = call.name == "MPI_Sendrecv"
            sides = [(*words[5:10], words[10]), (*words[:5], words[10])] if is_exchange else [words[:6]]
            array = self._new_name(loop.offset)
            requests = tuple(f"{array}[{number + place}]" for place in range(len(names)))
        else:
            place = RequestPairs(function, loop).check_request(call)
            self._check_declared(place, loop)
            sides, requests = [words[:6]], place.texts
        creates = tuple((name, (*side, f"&{one}")) for name, side, one in zip(names, sides, requests, strict=True))
        return FixedMessage(
            call.name, call.offset, unit.statement_end(call), call.line, requests, creates,
            above.kind == Kind.COMPOUND_STMT,
        )  # fmt: skip

    def _check_declared(self, place: RequestPlace, loop: Node) -> None:
        """Raises NotMovable if a request is declared in the loop, and its declaration may not stand in front of it: the
        variable's name may denote something else there, or the declaration does more than declare requests that are
        all used in the same way."""
        function = self._function
        declared = function.declared[place.declaration.key]
        if not loop.offset < declared.offset < loop.end:
            return
        statement = function.parent(declared)
        text = self._unit.text[function.node.offset : function.node.end]
        named = len(re.findall(rf"\b{re.escape(declared.name)}\b", text))
        if statement is None or statement.kind != Kind.DECL_STMT or len(statement.children) != 1:
            raise NotMovable(f"{declared.name} is declared in the loop beside other variables", declared.line)
        if named != 1 + len(function.uses.get(declared.key, [])) or self._unit.is_macro_use(declared.offset):
            raise NotMovable(f"{declared.name} is declared in the loop, and its name occurs elsewhere", declared.line)

    def _with_edits(self, loop: Node, found: Sequence[tuple[Node, FixedMessage]]) -> PersistentLoop:
        """Returns a loop with the edits that give its messages persistent requests."""
        text, messages = self._unit.text, tuple(message for _, message in found)
        indent = indent_at(text, loop.offset)
        moved = self._declarations_in_loop(loop, found)
        declared = sum(len(message.requests) for message in messages if message.is_blocking)
        placed = PersistentLoop(
            self._function.name, loop.offset, self._unit.statement_end(loop), messages, declared,
            self._new_name(loop.offset) if declared else "",
            tuple(moved), (),
        )  # fmt: skip
        end = _end_of_line_with_comment(text, placed.end)
        before = "".join(f"{line}\n{indent}" for line in statements_before(placed, text))
        behind = "".join(f"\n{indent}{line}" for line in statements_behind(placed))
        edits = [Edit(loop.offset, loop.offset, before)]
        edits += [Edit(*_whole_line(text, start, stop), "") for start, stop in moved]
        edits += [self._start_edit(one) for one in messages]
        edits.append(Edit(end, end, behind))
        if "\r\n" in text:
            edits = [replace(one, text=one.text.replace("\n", "\r\n")) for one in edits]
        return replace(placed, edits=tuple(edits))

    def _declarations_in_loop(self, loop: Node, found: Sequence[tuple[Node, FixedMessage]]) -> list[tuple[int, int]]:
        """Returns the offsets of the declarations inside the loop that declare the requests of the messages."""
        keys = {
            one.declaration.key
            for call, message in found if not message.is_blocking
            for one in call.arguments[-1].walk() if one.kind == Kind.DECL_REF_EXPR and one.declaration is not None
        }  # fmt: skip
        statements = [node for node in loop.walk() if node.kind == Kind.DECL_STMT]
        mine = [one for one in statements if any(child.key in keys for child in one.children)]
        return [(one.offset, self._unit.statement_end(one)) for one in mine]

    def _start_edit(self, message: FixedMessage) -> Edit:
        """Returns the edit by which a message is created, if it is not yet, and started where it was begun, and waited
        for if its call waited."""
        text = self._unit.text
        indent, step = indent_at(text, message.offset), indent_unit_of(text)
        create = [self._call(*made, indent + step) for made in message.creates]
        test, last = f"if ({message.requests[0]} == MPI_REQUEST_NULL)", []
        if len(create) > 1:
            test, last = f"{test} {{", ["}"]
        lines = [test, *(f"{step}{one}" for one in create), *last]
        lines += [self._call(*made, indent) for made in message.starts]
        if message.in_block:
            return Edit(message.offset, message.end, f"\n{indent}".join(_indented(lines, indent)))
        inner = "".join(f"\n{indent}{step}{one}" for one in _indented(lines, indent + step))
        return Edit(message.offset, message.end, f"{{{inner}\n{indent}}}")

    @staticmethod
    def _call(name: str, arguments: Sequence[str], indent: str) -> str:
        """Returns a call as a C statement, with a line break between arguments where it would be too long."""
        lines = [f"{name}("]
        for number, word in enumerate(arguments):
            part = word + ("," if number + 1 < len(arguments) else ");")
            if number and len(indent) + len(lines[-1]) + len(part) + 1 > MAX_LINE:
                lines.append(" " * (len(name) + 1) + part)
            else:
                lines[-1] += f" {part}" if number else part
        return "\n".join(lines)


def statements_before(placed: PersistentLoop, original: str) -> list[str]:
    """Returns the statements in front of a loop that declare its requests, and set them to MPI_REQUEST_NULL."""
    made = [original[start:end] for start, end in placed.moved]
    made += [f"MPI_Request {placed.array}[{placed.declared}];"] if placed.declared else []
    return [*made, *(f"{request} = MPI_REQUEST_NULL;" for request in placed.requests)]


def statements_behind(placed: PersistentLoop) -> list[str]:
    """Returns the statements behind a loop that free its requests."""
    return [f"if ({one} != MPI_REQUEST_NULL) MPI_Request_free(&{one});" for one in placed.requests]


def _indented(lines: Sequence[str], indent: str) -> list[str]:
    """Returns statements with an indent in front of all their lines but the first."""
    return [one.replace("\n", f"\n{indent}") for one in lines]


def _end_of_line_with_comment(text: str, offset: int) -> int:
    """Returns the end of the line if only a comment follows an offset on it; otherwise the offset itself."""
    match = re.compile(r"[ \t]*(?://[^\n]*[^\n\r\\]|/\*(?:(?!\*/)[^\n])*\*/)[ \t]*(?=\r?\n)").match(text, offset)
    return match.end() if match else offset


def _whole_line(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the offsets of the whole line if nothing else stands on it; otherwise the given offsets."""
    first = start_of_line(text, start)
    match = re.compile(r"[ \t]*\r?\n").match(text, end)
    return (first, match.end()) if match and not text[first:start].strip() else (start, end)
