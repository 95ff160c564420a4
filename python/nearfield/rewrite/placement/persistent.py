"""Persistent requests: a message whose arguments are the same whenever a loop begins it is set up once, at its first
execution, and later only started.

A message is set up and started at the call that began it. So its arguments are evaluated at the same place as before,
and neither the order in which messages match nor the memory accesses change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.program import MissedOptimization, NotMovable
from nearfield.rewrite.analysis.requests import RequestPlace
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, start_of_line
from nearfield.rewrite.placement.fixed_values import LoopInvarianceChecker
from nearfield.rewrite.placement.loop_exits import check_loop_exits, check_pragmas, directives_around
from nearfield.rewrite.placement.request_pairs import WaitMatcher

UNKNOWN_GAIN = "no scenario of a profile measures persistent requests"
# The calls that create the persistent requests of each call.
INIT_CALLS_BY_CALL = {
    "MPI_Isend": ("MPI_Send_init",), "MPI_Issend": ("MPI_Ssend_init",), "MPI_Irecv": ("MPI_Recv_init",),
    "MPI_Send": ("MPI_Send_init",), "MPI_Ssend": ("MPI_Ssend_init",), "MPI_Recv": ("MPI_Recv_init",),
    "MPI_Sendrecv": ("MPI_Recv_init", "MPI_Send_init"),
}  # fmt: skip
_STATUS_ARGUMENT_BY_CALL = {"MPI_Recv": 6, "MPI_Sendrecv": 11}
MAX_LINE_CHARS = 100  # maximum characters of a written line


@dataclass(frozen=True)
class PersistentMessage:
    """A call in a loop whose messages may have persistent requests. `requests` are the requests as C text, `init_calls`
    the calls that create them with all their arguments."""

    name: str
    offset: int
    end: int
    line: int
    requests: tuple[str, ...]
    init_calls: tuple[tuple[str, tuple[str, ...]], ...]
    is_in_block: bool = True

    @property
    def is_blocking(self) -> bool:
        """Returns whether the call waits for its messages itself."""
        return not self.name.startswith("MPI_I")

    @property
    def start_calls(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Returns the calls that start the messages, and wait for them if the call did, with their arguments."""
        first = f"&{self.requests[0]}"
        if len(self.requests) == 1:
            wait = ("MPI_Wait", (first, "MPI_STATUS_IGNORE"))
            return (("MPI_Start", (first,)), wait) if self.is_blocking else (("MPI_Start", (first,)),)
        count = str(len(self.requests))
        return ("MPI_Startall", (count, first)), ("MPI_Waitall", (count, first, "MPI_STATUSES_IGNORE"))


@dataclass(frozen=True)
class TextEdit:
    """An edit of a source file, which replaces the text between two offsets."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class PersistentLoop:
    """A loop with messages that get persistent requests, and the edits of the source file: one in front of the loop,
    one for each declaration that moves there, one for each message, and one behind the loop."""

    function: str
    start: int  # source offset
    end: int
    messages: tuple[PersistentMessage, ...]
    num_new_requests: int
    request_array_name: str
    # offsets of request declarations that move in front of the loop
    moved_declaration_spans: tuple[tuple[int, int], ...]
    edits: tuple[TextEdit, ...]

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
        make_array_name: Callable[[int], str],
    ) -> None:
        self._unit, self._functions, self._function, self._make_array_name = unit, functions, function, make_array_name
        self.missed: list[MissedOptimization] = []

    def find_loops(self) -> Iterator[PersistentLoop]:
        """Yields each loop with messages that may have persistent requests, with the edits that create, start and free
        these."""
        messages_by_loop: dict[int, tuple[SyntaxNode, list[tuple[SyntaxNode, PersistentMessage]]]] = {}
        for call in self._function.calls:
            loops = [above for above in self._function.ancestors_of(call) if above.kind in LOOP_KINDS]
            if call.name not in INIT_CALLS_BY_CALL or not loops:
                continue
            last_refusal = NotMovable("", call.line)
            for loop in reversed(loops):
                try:
                    _, other_messages = messages_by_loop.get(loop.offset, (loop, []))
                    num_new_requests = sum(len(one.requests) for _, one in other_messages if one.is_blocking)
                    message = self._read_message(call, loop, num_new_requests)
                except NotMovable as refusal:
                    last_refusal = refusal
                    continue
                messages_by_loop.setdefault(loop.offset, (loop, []))[1].append((call, message))
                break
            else:
                line_note = f" (line {last_refusal.line})" if last_refusal.line not in (0, call.line) else ""
                self.missed.append(
                    MissedOptimization(call.line, f"{last_refusal.reason}{line_note}", self._function.name)
                )
        for loop, messages in messages_by_loop.values():
            yield self._make_persistent_loop(loop, messages)

    def _read_message(self, call: SyntaxNode, loop: SyntaxNode, num_earlier_requests: int) -> PersistentMessage:
        """Returns a call as a message with persistent requests that are created in a loop. Raises NotMovable with the
        reason if that is not allowed."""
        unit, function = self._unit, self._function
        invariance = LoopInvarianceChecker(function, loop)
        for argument in call.arguments[: 11 if call.name == "MPI_Sendrecv" else 6]:
            invariance.require_invariant(argument)
        check_loop_exits(loop, function, self._functions, unit)
        check_pragmas(call, function, unit)
        above = function.parent_of(call)
        if not unit.text.startswith(call.name, call.offset) or unit.is_macro_use(call.offset):
            raise NotMovable("a macro hides the call", call.line)
        if (
            above is None
            or above.kind not in (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOP_KINDS)
            or (above.kind != Kind.COMPOUND_STMT and not any(one is call for one in above.children[1:]))
        ):
            raise NotMovable("its result is used", call.line)
        if above.kind in LOOP_KINDS and above.children[-1] is not call:
            raise NotMovable("it stands in the head of a loop", call.line)
        if directives_around(unit.text, call.offset) != directives_around(unit.text, loop.offset):
            raise NotMovable("a directive of the preprocessor decides whether it is compiled", call.line)
        argument_texts, init_call_names = tuple(split_arguments(call)), INIT_CALLS_BY_CALL[call.name]
        if len(argument_texts) != len(call.arguments) or any("//" in one or "/*" in one for one in argument_texts):
            raise NotMovable("a macro or a comment hides its arguments", call.line)
        is_blocking = not call.name.startswith("MPI_I")
        if is_blocking:
            if call.name in _STATUS_ARGUMENT_BY_CALL and not is_status_unread(
                call.arguments[_STATUS_ARGUMENT_BY_CALL[call.name]], function
            ):
                raise NotMovable("its status is read", call.line)
            is_exchange = call.name == "MPI_Sendrecv"
            side_arguments = (
                [(*argument_texts[5:10], argument_texts[10]), (*argument_texts[:5], argument_texts[10])]
                if is_exchange
                else [argument_texts[:6]]
            )
            array_name = self._make_array_name(loop.offset)
            requests = tuple(f"{array_name}[{num_earlier_requests + place}]" for place in range(len(init_call_names)))
        else:
            place = WaitMatcher(function, loop).check_request(call)
            self._check_movable_declaration(place, loop)
            side_arguments, requests = [argument_texts[:6]], place.request_texts
        init_calls = tuple(
            (name, (*side, f"&{one}"))
            for name, side, one in zip(init_call_names, side_arguments, requests, strict=True)
        )
        return PersistentMessage(
            call.name, call.offset, unit.statement_end(call), call.line, requests, init_calls,
            above.kind == Kind.COMPOUND_STMT,
        )  # fmt: skip

    def _check_movable_declaration(self, request_place: RequestPlace, loop: SyntaxNode) -> None:
        """Raises NotMovable if a request is declared in the loop, and its declaration may not stand in front of it: the
        variable's name may denote something else there, or the declaration does more than declare requests that are
        all used in the same way."""
        function = self._function
        declaration = function.declarations[request_place.declaration.key]
        if not loop.offset < declaration.offset < loop.end:
            return
        statement = function.parent_of(declaration)
        text = self._unit.text[function.node.offset : function.node.end]
        named = len(re.findall(rf"\b{re.escape(declaration.name)}\b", text))
        if statement is None or statement.kind != Kind.DECL_STMT or len(statement.children) != 1:
            raise NotMovable(f"{declaration.name} is declared in the loop beside other variables", declaration.line)
        if named != 1 + len(function.uses.get(declaration.key, [])) or self._unit.is_macro_use(declaration.offset):
            raise NotMovable(
                f"{declaration.name} is declared in the loop, and its name occurs elsewhere", declaration.line
            )

    def _make_persistent_loop(
        self, loop: SyntaxNode, calls_with_messages: Sequence[tuple[SyntaxNode, PersistentMessage]]
    ) -> PersistentLoop:
        """Returns a loop with the edits that make its messages persistent."""
        text, messages = self._unit.text, tuple(message for _, message in calls_with_messages)
        indent = indent_at(text, loop.offset)
        moved_declaration_spans = self._declarations_in_loop(loop, calls_with_messages)
        num_new_requests = sum(len(message.requests) for message in messages if message.is_blocking)
        persistent_loop = PersistentLoop(
            self._function.name, loop.offset, self._unit.statement_end(loop), messages, num_new_requests,
            self._make_array_name(loop.offset) if num_new_requests else "",
            tuple(moved_declaration_spans), (),
        )  # fmt: skip
        end = _end_of_line_with_comment(text, persistent_loop.end)
        lines_before = "".join(f"{line}\n{indent}" for line in statements_before(persistent_loop, text))
        lines_behind = "".join(f"\n{indent}{line}" for line in statements_behind(persistent_loop))
        edits = [TextEdit(loop.offset, loop.offset, lines_before)]
        edits += [TextEdit(*_extend_to_whole_line(text, start, stop), "") for start, stop in moved_declaration_spans]
        edits += [self._start_edit(one) for one in messages]
        edits.append(TextEdit(end, end, lines_behind))
        if "\r\n" in text:
            edits = [replace(one, text=one.text.replace("\n", "\r\n")) for one in edits]
        return replace(persistent_loop, edits=tuple(edits))

    def _declarations_in_loop(
        self, loop: SyntaxNode, calls_with_messages: Sequence[tuple[SyntaxNode, PersistentMessage]]
    ) -> list[tuple[int, int]]:
        """Returns the offsets of the declarations inside the loop that declare the requests of the messages."""
        keys = {
            one.declaration.key
            for call, message in calls_with_messages if not message.is_blocking
            for one in call.arguments[-1].walk() if one.kind == Kind.DECL_REF_EXPR and one.declaration is not None
        }  # fmt: skip
        statements = [node for node in loop.walk() if node.kind == Kind.DECL_STMT]
        request_declarations = [one for one in statements if any(child.key in keys for child in one.children)]
        return [(one.offset, self._unit.statement_end(one)) for one in request_declarations]

    def _start_edit(self, message: PersistentMessage) -> TextEdit:
        """Returns the edit that replaces the call of a message: the new code creates the request unless it exists,
        starts it, and waits for it if the call waited."""
        text = self._unit.text
        indent, step = indent_at(text, message.offset), indent_unit_of(text)
        init_lines = [self._format_call(*call, indent + step) for call in message.init_calls]
        opening, closing = f"if ({message.requests[0]} == MPI_REQUEST_NULL)", []
        if len(init_lines) > 1:
            opening, closing = f"{opening} {{", ["}"]
        lines = [opening, *(f"{step}{one}" for one in init_lines), *closing]
        lines += [self._format_call(*call, indent) for call in message.start_calls]
        if message.is_in_block:
            return TextEdit(message.offset, message.end, f"\n{indent}".join(_indent_lines(lines, indent)))
        inner = "".join(f"\n{indent}{step}{one}" for one in _indent_lines(lines, indent + step))
        return TextEdit(message.offset, message.end, f"{{{inner}\n{indent}}}")

    @staticmethod
    def _format_call(name: str, arguments: Sequence[str], indent: str) -> str:
        """Returns a call as a C statement, with a line break between arguments where it would be too long."""
        lines = [f"{name}("]
        for number, argument in enumerate(arguments):
            part = argument + ("," if number + 1 < len(arguments) else ");")
            if number and len(indent) + len(lines[-1]) + len(part) + 1 > MAX_LINE_CHARS:
                lines.append(" " * (len(name) + 1) + part)
            else:
                lines[-1] += f" {part}" if number else part
        return "\n".join(lines)


def statements_before(persistent_loop: PersistentLoop, original: str) -> list[str]:
    """Returns the statements in front of a loop that declare its requests, and set them to MPI_REQUEST_NULL."""
    declarations = [original[start:end] for start, end in persistent_loop.moved_declaration_spans]
    declarations += (
        [f"MPI_Request {persistent_loop.request_array_name}[{persistent_loop.num_new_requests}];"]
        if persistent_loop.num_new_requests
        else []
    )
    return [*declarations, *(f"{request} = MPI_REQUEST_NULL;" for request in persistent_loop.requests)]


def statements_behind(persistent_loop: PersistentLoop) -> list[str]:
    """Returns the statements behind a loop that free its requests."""
    return [f"if ({one} != MPI_REQUEST_NULL) MPI_Request_free(&{one});" for one in persistent_loop.requests]


def _indent_lines(lines: Sequence[str], indent: str) -> list[str]:
    """Returns statements with an indent in front of all their lines but the first."""
    return [one.replace("\n", f"\n{indent}") for one in lines]


def _end_of_line_with_comment(text: str, offset: int) -> int:
    """Returns the end of the line if only a comment follows an offset on it; otherwise the offset itself."""
    match = re.compile(r"[ \t]*(?://[^\n]*[^\n\r\\]|/\*(?:(?!\*/)[^\n])*\*/)[ \t]*(?=\r?\n)").match(text, offset)
    return match.end() if match else offset


def _extend_to_whole_line(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the offsets of the whole line if nothing else stands on it; otherwise the given offsets."""
    first = start_of_line(text, start)
    match = re.compile(r"[ \t]*\r?\n").match(text, end)
    return (first, match.end()) if match and not text[first:start].strip() else (start, end)
