"""Persistent requests: a message whose arguments are the same in all iterations of a loop is set up once, before the
loop, and only started in it.

The message is started where it was begun, so the order in which messages match and all accesses to memory stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.communication import split_arguments
from nearfield.rewrite.analysis.program import MissedOptimization, NotMovable
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, start_of_line
from nearfield.rewrite.placement.fixed_values import FixedValues
from nearfield.rewrite.placement.loop_exits import check_loop, check_pragmas, directives_around
from nearfield.rewrite.placement.request_pairs import Guard, RequestPairs, guards_between

NAME = "persistent"
SUMMARY = "sets messages up once in front of their loop, and only starts them in it"
UNKNOWN_GAIN = "no scenario of a profile measures persistent requests"
ASSUMPTION = "the arguments of these messages are valid even where the loop is not executed"
COMMENT = "/* These messages are the same in every iteration. Their arguments must be valid even if there is none. */"
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
    guards: tuple[tuple[str, bool], ...]
    requests: tuple[str, ...]
    creates: tuple[tuple[str, tuple[str, ...]], ...]
    status: str = ""  # status argument of a blocking call
    in_block: bool = True

    @property
    def is_blocking(self) -> bool:
        """Returns whether the call waits for its messages itself."""
        return not self.name.startswith("MPI_I")


@dataclass(frozen=True)
class Edit:
    """A replacement in a source file: the text between two offsets becomes another one."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class PersistentLoop:
    """A loop with messages that get persistent requests, and the edits of the source file that do so."""

    function: str
    loop: int  # source offset
    end: int
    messages: tuple[FixedMessage, ...]
    declared: int  # number of new requests
    array: str  # name of the new request array
    moved: tuple[tuple[int, int], ...]  # offsets of request declarations that move in front of the loop
    edits: tuple[Edit, ...]


class PersistentFinder:
    """Finds the loops of one function whose messages may have persistent requests."""

    def __init__(self, unit: TranslationUnit, functions: ProgramFunctions, function: FunctionFacts, array: str) -> None:
        self._unit, self._functions, self._function, self._array = unit, functions, function, array
        self.missed: list[MissedOptimization] = []

    def find_loops(self) -> Iterator[PersistentLoop]:
        """Yields each loop with messages that may have persistent requests, with the edits that give them some."""
        found: dict[int, tuple[Node, list[tuple[Node, FixedMessage]]]] = {}
        requests = 0
        for call in self._function.calls:
            loops = [above for above in self._function.ancestors(call) if above.kind in LOOPS]
            if call.name not in CREATES or not loops:
                continue
            reason = NotMovable("", call.line)
            for loop in reversed(loops):
                try:
                    message = self._read_message(call, loop, requests)
                except NotMovable as why:
                    reason = why
                    continue
                requests += len(message.requests) if message.is_blocking else 0
                found.setdefault(loop.offset, (loop, []))[1].append((call, message))
                break
            else:
                near = f" (line {reason.line})" if reason.line not in (0, call.line) else ""
                self.missed.append(MissedOptimization(call.line, f"{reason.reason}{near}", self._function.name))
        for loop, messages in found.values():
            yield self._with_edits(loop, messages)

    def _read_message(self, call: Node, loop: Node, number: int) -> FixedMessage:
        """Returns a call as a message with persistent requests that are created in front of a loop. Raises NotMovable
        with the reason if that is not allowed."""
        unit, function = self._unit, self._function
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
        fixed = FixedValues(self._functions, function, loop)
        words = tuple(split_arguments(call))
        blocking = not call.name.startswith("MPI_I")
        count = len(call.arguments) - (1 if not blocking or call.name in _STATUS else 0)
        for argument in call.arguments[:count]:
            fixed.require_fixed(argument)
        guards = guards_between(call, loop, function)
        for guard in guards:
            fixed.require_fixed(guard.test)
        status = words[_STATUS[call.name]] if call.name in _STATUS else "MPI_STATUS_IGNORE"
        names = CREATES[call.name]
        if not blocking:
            RequestPairs(function, loop, fixed).check_request(call, call.arguments[-1])
            requests: tuple[str, ...] = (words[-1],)
            sides = [words[:-1]]
        else:
            if call.name == "MPI_Sendrecv":
                if not is_status_unread(call.arguments[11], function):
                    raise NotMovable("its status is read", call.line)
                sides = [(*words[5:10], words[10]), (*words[:5], words[10])]
            else:
                sides = [words[:6]]
            requests = tuple(f"&{self._array}[{number + place}]" for place in range(len(names)))
        creates = tuple((name, (*side, one)) for name, side, one in zip(names, sides, requests, strict=True))
        return FixedMessage(
            call.name, call.offset, unit.statement_end(call), call.line,
            guard_texts(guards), requests, creates,
            status, above.kind == Kind.COMPOUND_STMT,
        )  # fmt: skip

    def _with_edits(self, loop: Node, found: Sequence[tuple[Node, FixedMessage]]) -> PersistentLoop:
        """Returns a loop with the edits that give its messages persistent requests."""
        text, messages = self._unit.text, tuple(message for _, message in found)
        indent, step = indent_at(text, loop.offset), indent_unit_of(text)
        moved = self._declarations_in_loop(loop, found)
        numbers = [message for message in messages if message.is_blocking]
        declared = sum(len(message.requests) for message in numbers)
        before = [COMMENT]
        before += [text[start:end] for start, end in moved]
        before += [f"MPI_Request {self._array}[{declared}];"] if declared else []
        allman = re.search(r"\)[ \t]*\n[ \t]*\{", text) is not None
        create = [(one.guards, [self._call(*made, indent) for made in one.creates]) for one in messages]
        free = [(one.guards, [f"MPI_Request_free({request});" for request in one.requests]) for one in messages]
        before += _guarded_lines(create, step, allman)
        behind = _guarded_lines(free, step, allman)
        end = _end_of_line_with_comment(text, self._unit.statement_end(loop))
        edits = [Edit(loop.offset, loop.offset, "".join(f"{_indented(line, indent)}\n{indent}" for line in before))]
        edits += [Edit(*_whole_line(text, start, stop), "") for start, stop in moved]
        edits += [self._start_edit(one) for one in messages]
        edits.append(Edit(end, end, "".join(f"\n{indent}{_indented(line, indent)}" for line in behind)))
        if "\r\n" in text:
            edits = [Edit(one.start, one.end, one.text.replace("\n", "\r\n")) for one in edits]
        return PersistentLoop(
            self._function.name, loop.offset, self._unit.statement_end(loop), messages, declared, self._array,
            tuple(moved), tuple(edits),
        )  # fmt: skip

    def _declarations_in_loop(self, loop: Node, found: Sequence[tuple[Node, FixedMessage]]) -> list[tuple[int, int]]:
        """Returns the offsets of the declarations inside the loop that declare the requests of the messages."""
        keys = set()
        for call, message in found:
            if not message.is_blocking:
                keys |= {one.declaration.key for one in call.arguments[-1].walk() if one.kind == Kind.DECL_REF_EXPR
                         and one.declaration is not None}  # fmt: skip
        statements = [node for node in loop.walk() if node.kind == Kind.DECL_STMT]
        mine = [one for one in statements if any(child.key in keys for child in one.children)]
        return [(one.offset, self._unit.statement_end(one)) for one in mine]

    def _start_edit(self, message: FixedMessage) -> Edit:
        """Returns the edit by which a message is started where it was begun, and waited for if its call waited."""
        text, first = self._unit.text, message.requests[0]
        if not message.is_blocking:
            return Edit(message.offset, message.end, f"MPI_Start({first});")
        words = [f"MPI_Start({first});", f"MPI_Wait({first}, {message.status});"]
        if len(message.requests) == 2:
            words = [f"MPI_Startall(2, {first});", f"MPI_Waitall(2, {first}, MPI_STATUSES_IGNORE);"]
        indent = indent_at(text, message.offset)
        if message.in_block:
            return Edit(message.offset, message.end, f"\n{indent}".join(words))
        start = len(text[: message.offset].rstrip())
        outer = indent_at(text, start - 1)
        if text[start - 1] != ")" or "\n" not in text[start : message.offset]:
            return Edit(message.offset, message.end, f"{{ {' '.join(words)} }}")
        lines = "".join(f"\n{indent}{word}" for word in words)
        return Edit(start, message.end, f" {{{lines}\n{outer}}}")

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


def guard_texts(guards: Sequence[Guard]) -> tuple[tuple[str, bool], ...]:
    """Returns the texts of guards, and whether each holds."""
    return tuple((" ".join(one.text.split()), one.holds) for one in guards)


def guard_condition(guards: Sequence[tuple[str, bool]]) -> str:
    """Returns the conjunction of guards as a C condition."""
    parts = [text if holds else f"!({text})" for text, holds in guards]
    if len(parts) > 1:
        parts = [f"({part})" if re.search(r"\|\||\?|=", part) else part for part in parts]
    return " && ".join(parts)


def _guarded_lines(
    pieces: Sequence[tuple[tuple[tuple[str, bool], ...], list[str]]], step: str, allman: bool
) -> list[str]:
    """Returns statements with an `if` around neighbours that have the same guards, in the brace style of the file."""
    made: list[str] = []
    for guards, some in groupby(pieces, key=lambda one: one[0]):
        statements = [line for _, lines in some for line in lines]
        if not guards:
            made += statements
            continue
        head = f"if ({guard_condition(guards)})"
        inner = [f"{step}{_indented(line, step)}" for line in statements]
        if len(statements) == 1:
            made += [head, *inner]
        else:
            made += [head, "{", *inner, "}"] if allman else [f"{head} {{", *inner, "}"]
    return made


def _indented(text: str, indent: str) -> str:
    """Returns a text with an indent in front of all lines but the first."""
    return text.replace("\n", f"\n{indent}")


def _end_of_line_with_comment(text: str, offset: int) -> int:
    """Returns the end of the line if only a comment follows an offset on it; otherwise the offset itself."""
    match = re.compile(r"[ \t]*(?://[^\n]*[^\n\r\\]|/\*(?:(?!\*/)[^\n])*\*/)[ \t]*(?=\r?\n)").match(text, offset)
    return match.end() if match else offset


def _whole_line(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the offsets of the whole line if nothing else stands on it; otherwise the given offsets."""
    first = start_of_line(text, start)
    match = re.compile(r"[ \t]*\r?\n").match(text, end)
    return (first, match.end()) if match and not text[first:start].strip() else (start, end)
