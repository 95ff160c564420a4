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
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import CommunicationStatement, Loop
from nearfield.rewrite.check.equivalence import EmittedStatement
from nearfield.rewrite.check.translation import CodePosition
from nearfield.rewrite.codegen.chunk_code import ChunkCode, parenthesize
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.text import has_same_tokens, identifiers_in
from nearfield.rewrite.model.chunking import written_pointee_type
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import CallStep

_REQUEST_DECLARATION = re.compile(r"MPI_Request (\w+)(\[.*\](?: = \{.*\})?);", re.DOTALL)
_SEND_PARAMETERS = ("sendbuf", "sendcount", "sendtype", "dest", "sendtag")
_RECEIVE_PARAMETERS = ("recvbuf", "recvcount", "recvtype", "source", "recvtag")
_CHUNK_BEGIN_CALLS = (("MPI_Irecv", *_RECEIVE_PARAMETERS, "comm"), ("MPI_Isend", *_SEND_PARAMETERS, "comm"))


@dataclass
class EmittedCode:
    """The emitted code of a region, with the model, the original text and the expression reader that are needed to
    interpret it."""

    model: PolyhedralModel
    original: str
    unit: TranslationUnit
    reader: ExpressionReader

    def statement_text(self, node: SyntaxNode) -> str:
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
        self._declaration_by_array: dict[str, str] = {}  # by name of a request array: its size and initialiser, as text
        # by request array: item numbers of the calls in flight
        self._calls_in_flight_by_array: dict[str, list[int]] = {}
        self._num_requests_by_array: Counter[str] = Counter()  # by request array: requests of unchunked calls
        self._num_begun_requests = 0  # requests of the current call that have begun so far
        self._begin_block: tuple[object, ...] | None = None  # the block in which the current call has begun
        self._is_conditional = False  # whether a call may not be executed, since it is in a branch

    def is_expected_declaration(self, node: SyntaxNode, position: CodePosition) -> bool:
        """Returns whether a declaration in emitted code is that of a request array, or of the length of a message
        chunk."""
        variable = node.children[0]
        if len(node.children) != 1 or not self._code.is_new_name(variable.name):
            return False
        if match := _REQUEST_DECLARATION.fullmatch(self._code.statement_text(node)):
            self._declaration_by_array[match[1]] = match[2]
            return not position.loops and not position.conditions
        return self._code.statement_text(node).startswith("const int ") and bool(self._minimum_operands(variable))

    def _minimum_operands(self, variable: SyntaxNode) -> set[Polynomial]:
        """Returns the operands of the minimum that is a variable's initial value; empty if it is not affine."""
        try:
            return set(min_max_operands(variable.children[-1], self._code.reader, "<"))
        except NotAffine:
            return set()

    def match_begin(self, node: SyntaxNode, step: CallStep, position: CodePosition) -> list[EmittedStatement] | None:
        """Returns the MPI call events that a statement executes, if it is the next statement of a step that begins a
        call. Of several statements that begin one call, only the last returns the events, the others an empty list.
        Returns None for any other statement."""
        call = self._items[step.call_number]
        assert isinstance(call, CommunicationStatement)
        begin_block = self._begin_block
        if call.chunking:
            loop = next((one for one in position.loops if one.iterator.text == call.chunking.iterator_name), None)
            is_next = loop is not None and self._is_chunk_call(node, step, call, loop)
        elif step.completes_call:
            is_next = has_same_tokens(self._code.statement_text(node), self._original_text(call))
        else:
            is_next = self._is_begin_of(node, step, call)
        block = (position.time_components[:-1], position.loops, position.conditions)
        if not is_next or begin_block not in (None, block):
            return None
        self._begin_block = block if self._num_begun_requests else None
        return (
            [] if self._num_begun_requests else self._call_events(step.call_number, position)[: 1 + step.completes_call]
        )

    def match_completion(self, node: SyntaxNode, position: CodePosition) -> list[EmittedStatement] | None:
        """Returns the call events of an MPI_Waitall that completes all requests in flight of a request array; None for
        any other statement. The array must be large enough, and initialised to MPI_REQUEST_NULL if some calls may not
        be executed."""
        if (
            node.without_casts.kind != Kind.CALL_EXPR
            or node.without_casts.name != "MPI_Waitall"
            or self._num_begun_requests
        ):
            return None
        arguments = split_arguments(node.without_casts)
        array = re.sub(r"^&?(\w+).*", r"\1", arguments[1])
        calls = self._calls_in_flight_by_array.get(array, [])
        code = self._chunk_code(calls[0], array) if calls else None
        num_requests, size = (
            self._num_requests_by_array[array],
            int(re.sub(r"\D.*", "", self._declaration_by_array.get(array, "")[1:]) or 0),
        )
        declaration = f"[{size}]" + (f" = {{{', '.join(['MPI_REQUEST_NULL'] * size)}}}" if self._is_conditional else "")
        expected_arguments = ["2", code.request_address(0)] if code else [str(num_requests), array]
        is_declared = bool(code) or self._declaration_by_array.get(array) == declaration and size >= num_requests
        if not calls or not is_declared or arguments != [*expected_arguments, "MPI_STATUSES_IGNORE"]:
            return None
        self._calls_in_flight_by_array[array] = calls if code else []
        return [self._call_events(number, position)[1] for number in calls]

    def _call_events(self, item_number: int, position: CodePosition) -> list[EmittedStatement]:
        """Returns the begin and the completion of an MPI call, as executed at a position in the emitted code."""
        names = {loop.iterator.text for loop in self._items[item_number].loops}
        loops = tuple(loop for loop in position.loops if loop.iterator.text in names)
        return [EmittedStatement(name, loops, position) for name in self._code.model.event_names(item_number)]

    def _original_text(self, call: CommunicationStatement) -> str:
        """Returns the source text of an MPI call in the original file."""
        return self._code.original[call.start : call.end]

    # ---- calls that begin and complete separately

    def _is_begin_of(self, node: SyntaxNode, step: CallStep, call: CommunicationStatement) -> bool:
        """Returns whether a statement begins blocking calls, each with its original arguments and the next request. A
        single MPI_Sendrecv may become two statements. In a compound statement, all other tokens must be the original
        ones."""
        expected_calls = [begin_calls for one in call.blocking_calls for begin_calls in one.begin_calls()][
            self._num_begun_requests :
        ]
        mpi_calls = [
            one for one in node.walk() if one.kind == Kind.CALL_EXPR and one.name.startswith(("MPI_", "PMPI_"))
        ]
        if call.is_single_blocking_call:
            expected_calls = expected_calls[:1] if node.without_casts.kind == Kind.CALL_EXPR else []
        if not expected_calls or len(mpi_calls) != len(expected_calls):
            return False
        array = _request_array_of(mpi_calls[0])
        for call_node, (name, arguments) in zip(mpi_calls, expected_calls, strict=True):
            request = f"&{array}[{self._num_requests_by_array[array]}]"
            if call_node.name != name or split_arguments(call_node) != [*arguments, request]:
                return False
            self._num_requests_by_array[array] += 1
        if not call.is_single_blocking_call and not has_same_tokens(
            self._restore_blocking_calls(node, call, mpi_calls), self._original_text(call)
        ):
            return False
        self._is_conditional = self._is_conditional or not call.is_single_blocking_call
        self._record_begun(array, step.call_number, len(expected_calls), call.num_requests)
        return True

    def _record_begun(self, array: str, item_number: int, num_begun: int, num_requests: int) -> None:
        """Records that `num_begun` further requests of an MPI call have begun. The call is in flight when all
        `num_requests` its requests have."""
        self._num_begun_requests = (self._num_begun_requests + num_begun) % num_requests
        if not self._num_begun_requests:
            self._calls_in_flight_by_array.setdefault(array, []).append(item_number)

    def _restore_blocking_calls(
        self, node: SyntaxNode, call: CommunicationStatement, begin_calls: Sequence[SyntaxNode]
    ) -> str:
        """Returns the text of a statement with the original blocking calls in place of the nonblocking calls that begin
        them."""
        unit = self._code.unit
        text, previous_end, remaining_calls = "", node.offset, list(begin_calls)
        for one in call.blocking_calls:
            nonblocking_calls = [remaining_calls.pop(0) for _ in one.begin_calls()]
            text += unit.text[previous_end : nonblocking_calls[0].offset]
            previous_end = unit.statement_end(nonblocking_calls[-1])
            between = (
                unit.text[unit.statement_end(nonblocking_calls[0]) : nonblocking_calls[-1].offset]
                if len(nonblocking_calls) > 1
                else ""
            )
            original = self._code.original[one.start : one.end]
            if not one.is_in_block and len(nonblocking_calls) > 1 and text.rstrip().endswith("{"):
                text = text.rstrip()[:-1]
                previous_end = unit.text.index("}", previous_end) + 1
            text += between.strip() + original
        return text + unit.text[previous_end : unit.statement_end(node)]

    # ---- chunks of messages

    def _is_chunk_call(self, node: SyntaxNode, step: CallStep, call: CommunicationStatement, loop: Loop) -> bool:
        """Returns whether a statement is the next one for a message chunk of an MPI call: buffers offset by the start
        of the chunk, the count replaced, all other arguments unchanged."""
        node = node.without_casts
        if node.kind != Kind.CALL_EXPR or not self._code.is_new_name(loop.iterator.text):
            return False
        if step.completes_call:
            return self._has_chunk_arguments(
                node, call, loop, ("MPI_Sendrecv", *_SEND_PARAMETERS, *_RECEIVE_PARAMETERS, "comm", "status")
            )
        array, begin_index = _request_array_of(node), self._num_begun_requests
        code, calls = self._chunk_code(step.call_number, array), self._calls_in_flight_by_array.get(array, [])
        has_own_array = (
            code is not None
            and not calls
            and self._declaration_by_array.get(array) == code.requests_declaration[len(array) :]
        )
        if (
            not code
            or not has_own_array
            or not self._has_chunk_arguments(node, call, loop, _CHUNK_BEGIN_CALLS[begin_index])
        ):
            return False
        self._record_begun(array, step.call_number, 1, len(_CHUNK_BEGIN_CALLS))
        return split_arguments(node)[6:] == [code.request_address(begin_index)]

    def _chunk_code(self, item_number: int, array: str) -> ChunkCode | None:
        """Returns the expected source text of the loop over an MPI call's message chunks; None if the call is not
        chunked."""
        call = self._items[item_number]
        assert isinstance(call, CommunicationStatement)
        return ChunkCode(call.chunking, call.sendrecv_arguments, array) if call.chunking else None

    def _has_chunk_arguments(
        self, node: SyntaxNode, call: CommunicationStatement, loop: Loop, name_and_parameters: tuple[str, ...]
    ) -> bool:
        """Returns whether an MPI call has the given arguments of the original call, adjusted to the current message
        chunk."""
        arguments, texts = node.arguments, split_arguments(node)
        if node.name != name_and_parameters[0] or len(texts) < len(name_and_parameters) - 1:
            return False
        element_types = [access.base.element_type for access in call.accesses if access.is_message]
        type_by_parameter = dict(zip(("sendbuf", "recvbuf"), element_types, strict=True))
        for argument, text, name in zip(arguments, texts, name_and_parameters[1:], strict=False):
            if name in type_by_parameter:
                shifted_buffer = f"{parenthesize(call.sendrecv_arguments[name])} + {loop.iterator.text}"
                is_same = text == shifted_buffer and written_pointee_type(argument) == type_by_parameter[name]
            elif name in ("sendcount", "recvcount"):
                is_same = self._is_chunk_length(argument, call, loop)
            else:
                is_same = text == call.sendrecv_arguments[name]
            if not is_same:
                return False
        return True

    def _is_chunk_length(self, argument: SyntaxNode, call: CommunicationStatement, loop: Loop) -> bool:
        """Returns whether an argument is a constant that holds the length of a message chunk: the minimum of the
        remaining elements and the chunk size."""
        declaration = argument.without_casts.declaration
        if declaration is None or declaration.kind != Kind.VAR_DECL or not call.chunking:
            return False
        operands = {
            loop.upper_bounds[0] - Polynomial.from_symbol(loop.iterator.key),
            Polynomial.from_constant(call.chunking.chunk_elements),
        }
        return bool(declaration.type.spelling == "const int") and self._minimum_operands(declaration) == operands


def _request_array_of(call: SyntaxNode) -> str:
    """Returns the name of the request array in the last argument of a nonblocking call; '' if there is none."""
    match = re.match(r"&(\w+)\[", split_arguments(call)[-1])
    return match[1] if match else ""
