"""Matches the MPI calls in emitted code with those of the region: unchanged, begun and completed separately, or one
message chunk at a time, each with the expected arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine
from nearfield.rewrite.analysis.loop_bounds import min_max_operands
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import CommunicationStatement, Loop
from nearfield.rewrite.check.equivalence import EmittedStatement
from nearfield.rewrite.check.translation import CodePosition
from nearfield.rewrite.codegen.chunk_code import ChunkCode, parenthesised
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.text import has_same_tokens, identifiers_in
from nearfield.rewrite.model.chunking import pointee_type_as_written
from nearfield.rewrite.model.polyhedral import Model
from nearfield.rewrite.model.schedule import CallStep

_REQUESTS = re.compile(r"MPI_Request (\w+)(\[.*\](?: = \{.*\})?);", re.DOTALL)
_SENT = ("sendbuf", "sendcount", "sendtype", "dest", "sendtag")
_RECEIVED = ("recvbuf", "recvcount", "recvtype", "source", "recvtag")
_CHUNK_BEGINS = (("MPI_Irecv", *_RECEIVED, "comm"), ("MPI_Isend", *_SENT, "comm"))


@dataclass
class EmittedCode:
    """The emitted code of a region, with the model, the original text and the expression reader that are needed to
    interpret it."""

    model: Model
    original: str
    unit: TranslationUnit
    reader: ExpressionReader

    def statement_text(self, node: Node) -> str:
        """Returns the source text of a statement."""
        return self.unit.text[node.offset : self.unit.statement_end(node)]

    def is_new_name(self, name: str) -> bool:
        """Returns whether a name does not occur in the original region, so that the emitted code may declare it."""
        return name not in self._original_identifiers

    @cached_property
    def _original_identifiers(self) -> set[str]:
        """Returns all identifiers in the original region."""
        return identifiers_in(self.model.region.source_text(self.original))


class CallMatcher:
    """Matches the statements of emitted code that begin and complete MPI calls, in textual order, and tracks the
    requests in flight."""

    def __init__(self, code: EmittedCode) -> None:
        self._code, self._items = code, code.model.region.items
        self._arrays: dict[str, str] = {}  # by name of a request array: its size and initialiser, as text
        self._in_flight: dict[str, list[int]] = {}  # by request array: item numbers of the calls in flight
        self._num_requests: Counter[str] = Counter()  # by request array: requests of unchunked calls
        self._num_begun = 0  # requests of the current call that have begun so far
        self._block: tuple[object, ...] | None = None  # the block in which the current call has begun
        self._conditional = False  # whether a call may not be executed, since it is in a branch

    def is_expected_declaration(self, node: Node, at: CodePosition) -> bool:
        """Returns whether a declaration in emitted code is that of a request array, or of the length of a message
        chunk."""
        variable = node.children[0]
        if len(node.children) != 1 or not self._code.is_new_name(variable.name):
            return False
        if match := _REQUESTS.fullmatch(self._code.statement_text(node)):
            self._arrays[match[1]] = match[2]
            return not at.loops and not at.tests
        return self._code.statement_text(node).startswith("const int ") and bool(self._minimum_operands(variable))

    def _minimum_operands(self, variable: Node) -> set[Poly]:
        """Returns the operands of the minimum that is a variable's initial value; empty if it is not affine."""
        try:
            return set(min_max_operands(variable.children[-1], self._code.reader, "<"))
        except NotAffine:
            return set()

    def match_begin(self, node: Node, step: CallStep, at: CodePosition) -> list[EmittedStatement] | None:
        """Returns the MPI call events that a statement executes, if it is the next statement of a step that begins a
        call. Of several statements that begin one call, only the last returns the events, the others an empty list.
        Returns None for any other statement."""
        call = self._items[step.call]
        assert isinstance(call, CommunicationStatement)
        continued = self._block
        if call.chunking:
            loop = next((one for one in at.loops if one.iterator.text == call.chunking.iterator_name), None)
            is_next = loop is not None and self._is_chunk_call(node, step, call, loop)
        elif step.completes:
            is_next = has_same_tokens(self._code.statement_text(node), self._original_text(call))
        else:
            is_next = self._is_begin_of(node, step, call)
        block = (at.time[:-1], at.loops, at.tests)
        if not is_next or continued not in (None, block):
            return None
        self._block = block if self._num_begun else None
        return [] if self._num_begun else self._call_events(step.call, at)[: 1 + step.completes]

    def match_completion(self, node: Node, at: CodePosition) -> list[EmittedStatement] | None:
        """Returns the call events of an MPI_Waitall that completes all requests in flight of a request array; None for
        any other statement. The array must be large enough, and initialised to MPI_REQUEST_NULL if some calls may not
        be executed."""
        if node.bare.kind != Kind.CALL_EXPR or node.bare.name != "MPI_Waitall" or self._num_begun:
            return None
        arguments = split_arguments(node.bare)
        array = re.sub(r"^&?(\w+).*", r"\1", arguments[1])
        calls = self._in_flight.get(array, [])
        code = self._chunk_code(calls[0], array) if calls else None
        count, size = self._num_requests[array], int(re.sub(r"\D.*", "", self._arrays.get(array, "")[1:]) or 0)
        declared = f"[{size}]" + (f" = {{{', '.join(['MPI_REQUEST_NULL'] * size)}}}" if self._conditional else "")
        wanted = ["2", code.request_address(0)] if code else [str(count), array]
        is_declared = bool(code) or self._arrays.get(array) == declared and size >= count
        if not calls or not is_declared or arguments != [*wanted, "MPI_STATUSES_IGNORE"]:
            return None
        self._in_flight[array] = calls if code else []
        return [self._call_events(number, at)[1] for number in calls]

    def _call_events(self, number: int, at: CodePosition) -> list[EmittedStatement]:
        """Returns the begin and the completion of an MPI call, as executed at a position in the emitted code."""
        names = {loop.iterator.text for loop in self._items[number].loops}
        loops = tuple(loop for loop in at.loops if loop.iterator.text in names)
        return [EmittedStatement(name, loops, at) for name in self._code.model.event_names(number)]

    def _original_text(self, call: CommunicationStatement) -> str:
        """Returns the source text of an MPI call in the original file."""
        return self._code.original[call.start : call.end]

    # ---- calls that begin and complete separately

    def _is_begin_of(self, node: Node, step: CallStep, call: CommunicationStatement) -> bool:
        """Returns whether a statement begins blocking calls, each with its original arguments and the next request. A
        single MPI_Sendrecv may become two statements. In a compound statement, all other tokens must be the original
        ones."""
        wanted = [begin_calls for one in call.blocking for begin_calls in one.begin_calls()][self._num_begun :]
        found = [one for one in node.walk() if one.kind == Kind.CALL_EXPR and one.name.startswith(("MPI_", "PMPI_"))]
        if call.is_single_blocking_call:
            wanted = wanted[:1] if node.bare.kind == Kind.CALL_EXPR else []
        if not wanted or len(found) != len(wanted):
            return False
        array = _request_array_of(found[0])
        for made, (name, arguments) in zip(found, wanted, strict=True):
            request = f"&{array}[{self._num_requests[array]}]"
            if made.name != name or split_arguments(made) != [*arguments, request]:
                return False
            self._num_requests[array] += 1
        if not call.is_single_blocking_call and not has_same_tokens(
            self._restore_blocking_calls(node, call, found), self._original_text(call)
        ):
            return False
        self._conditional = self._conditional or not call.is_single_blocking_call
        self._record_begun(array, step.call, len(wanted), call.request_count)
        return True

    def _record_begun(self, array: str, number: int, begun: int, of: int) -> None:
        """Records that `begun` further requests of an MPI call have begun. The call is in flight when all `of` its
        requests have."""
        self._num_begun = (self._num_begun + begun) % of
        if not self._num_begun:
            self._in_flight.setdefault(array, []).append(number)

    def _restore_blocking_calls(self, node: Node, call: CommunicationStatement, begin_calls: Sequence[Node]) -> str:
        """Returns the text of a statement with the original blocking calls in place of the nonblocking calls that begin
        them."""
        unit = self._code.unit
        text, last, rest = "", node.offset, list(begin_calls)
        for one in call.blocking:
            mine = [rest.pop(0) for _ in one.begin_calls()]
            text += unit.text[last : mine[0].offset]
            last = unit.statement_end(mine[-1])
            between = unit.text[unit.statement_end(mine[0]) : mine[-1].offset] if len(mine) > 1 else ""
            original = self._code.original[one.start : one.end]
            if not one.listed and len(mine) > 1 and text.rstrip().endswith("{"):
                text = text.rstrip()[:-1]
                last = unit.text.index("}", last) + 1
            text += between.strip() + original
        return text + unit.text[last : unit.statement_end(node)]

    # ---- chunks of messages

    def _is_chunk_call(self, node: Node, step: CallStep, call: CommunicationStatement, loop: Loop) -> bool:
        """Returns whether a statement is the next one for a message chunk of an MPI call: buffers offset by the start
        of the chunk, the count replaced, all other arguments unchanged."""
        node = node.bare
        if node.kind != Kind.CALL_EXPR or not self._code.is_new_name(loop.iterator.text):
            return False
        if step.completes:
            return self._has_chunk_arguments(node, call, loop, ("MPI_Sendrecv", *_SENT, *_RECEIVED, "comm", "status"))
        array, place = _request_array_of(node), self._num_begun
        code, calls = self._chunk_code(step.call, array), self._in_flight.get(array, [])
        is_own = code is not None and not calls and self._arrays.get(array) == code.requests_declaration[len(array) :]
        if not code or not is_own or not self._has_chunk_arguments(node, call, loop, _CHUNK_BEGINS[place]):
            return False
        self._record_begun(array, step.call, 1, len(_CHUNK_BEGINS))
        return split_arguments(node)[6:] == [code.request_address(place)]

    def _chunk_code(self, number: int, array: str) -> ChunkCode | None:
        """Returns the expected source text of the loop over an MPI call's message chunks; None if the call is not
        chunked."""
        call = self._items[number]
        assert isinstance(call, CommunicationStatement)
        return ChunkCode(call.chunking, call.exchange, array) if call.chunking else None

    def _has_chunk_arguments(
        self, node: Node, call: CommunicationStatement, loop: Loop, wanted: tuple[str, ...]
    ) -> bool:
        """Returns whether an MPI call has the given arguments of the original call, adjusted to the current message
        chunk."""
        arguments, texts = node.arguments, split_arguments(node)
        if node.name != wanted[0] or len(texts) < len(wanted) - 1:
            return False
        elements = [access.base.element for access in call.accesses if access.message]
        types = dict(zip(("sendbuf", "recvbuf"), elements, strict=True))
        for argument, text, name in zip(arguments, texts, wanted[1:], strict=False):
            if name in types:
                moved = f"{parenthesised(call.exchange[name])} + {loop.iterator.text}"
                is_same = text == moved and pointee_type_as_written(argument) == types[name]
            elif name in ("sendcount", "recvcount"):
                is_same = self._is_chunk_length(argument, call, loop)
            else:
                is_same = text == call.exchange[name]
            if not is_same:
                return False
        return True

    def _is_chunk_length(self, argument: Node, call: CommunicationStatement, loop: Loop) -> bool:
        """Returns whether an argument is a constant that holds the length of a message chunk: the minimum of the
        remaining elements and the chunk size."""
        declared = argument.bare.declaration
        if declared is None or declared.kind != Kind.VAR_DECL or not call.chunking:
            return False
        length = {loop.upper[0] - Poly.from_symbol(loop.iterator.key), Poly.from_constant(call.chunking.chunk_elements)}
        return bool(declared.type.spelling == "const int") and self._minimum_operands(declared) == length


def _request_array_of(call: Node) -> str:
    """Returns the name of the request array in the last argument of a nonblocking call; '' if there is none."""
    match = re.match(r"&(\w+)\[", split_arguments(call)[-1])
    return match[1] if match else ""
