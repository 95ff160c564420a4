"""Reads MPI calls: the buffer elements that they send and receive, and the messages that they begin and complete."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from nearfield.rewrite.analysis.accesses import AccessCollector, is_structure_member
from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.completion import (
    COMPLETION_REFUSALS,
    Completion,
    PostedMessage,
    RequestPosition,
    request_position,
)
from nearfield.rewrite.analysis.datatypes import DatatypeLayout, bytes_of_element_type, layout_of_datatype
from nearfield.rewrite.analysis.expressions import NotAffine, Pointer, source_text_of
from nearfield.rewrite.analysis.message_elements import (
    bytes_to_elements,
    is_within_member,
    refused_call_reason,
    unknown_element,
)
from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Polynomial, Symbol
from nearfield.rewrite.analysis.program import BaseObject, Loop, MessageSide, NotMovable
from nearfield.rewrite.analysis.refusals import raise_first_refusal
from nearfield.rewrite.analysis.requests import other_request_reason
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGER_TYPES, UNSIGNED_TYPES, may_truncate
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS

# For each buffer of an MPI call: whether it is sent, and the positions of the arguments buffer, count and datatype.
_BUFFER_ARGUMENTS_BY_CALL: dict[str, list[tuple[bool, int, int, int]]] = {
    "MPI_Sendrecv": [(True, 0, 1, 2), (False, 5, 6, 7)],
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Bsend", "MPI_Isend", "MPI_Issend", "MPI_Irsend"),
                    [(True, 0, 1, 2)]),
    **dict.fromkeys(("MPI_Recv", "MPI_Irecv"), [(False, 0, 1, 2)]),
    "MPI_Sendrecv_replace": [(True, 0, 1, 2), (False, 0, 1, 2)],
}  # fmt: skip
# MPI calls that send nothing, but keep their order relative to other MPI calls.
_ORDERED_CALLS = ("MPI_Barrier", "MPI_Type_vector", "MPI_Type_contiguous", "MPI_Type_commit", "MPI_Type_free",
          "MPI_Request_free")  # fmt: skip
_QUERY_CALLS = ("MPI_Comm_rank", "MPI_Comm_size", "MPI_Get_count")
_NONBLOCKING_CALLS = ("MPI_Isend", "MPI_Issend", "MPI_Irsend", "MPI_Irecv")
_PERSISTENT_INIT_CALL = re.compile(r"P?MPI_(?:[bsr]?send|recv)_init", re.I)  # creates a persistent request
_STATUS_ARGUMENT_BY_CALL = {
    "MPI_Recv": 6,
    "MPI_Sendrecv": 11,
    "MPI_Sendrecv_replace": 8,
    "MPI_Wait": 1,
    "MPI_Waitall": 2,
}


@dataclass
class CommunicationCollector(AccessCollector):
    """Collects the memory accesses and the messages of a statement with MPI calls. `posted_messages` are messages in
    flight from earlier statements of the region; all statements of the region share that list."""

    posted_messages: list[PostedMessage] = field(default_factory=list)
    messages: list[MessageSide] = field(default_factory=list)
    call_names: list[str] = field(default_factory=list)
    begins_messages: bool = False
    completes_messages: bool = False
    # By the source offset of an MPI call that sends or receives: the numbers of its accesses in `accesses`.
    access_numbers_by_call: dict[int, range] = field(default_factory=dict)
    num_element_loops: int = 0  # loops over message elements so far; numbers their iterators
    region_start: int = 0  # source offset of the first statement of the region
    statement_end: int = 0  # source offset at which the current statement ends

    def __post_init__(self) -> None:
        self.region_function = self.reader.function  # callees are read with the same reader

    def collect_accesses(self, node: SyntaxNode) -> None:
        """Adds the accesses of a statement. A loop such as `while (!flag) MPI_Test(...)` counts as a wait for the
        message."""
        test, body = node.children if node.kind == Kind.WHILE_STMT and len(node.children) == 2 else (node, node)
        while body.kind == Kind.COMPOUND_STMT and len(body.children) == 1:
            body = body.children[0]
        if node is test or body.without_casts.name != "MPI_Test" or test.without_casts.operator != "!":
            super().collect_accesses(node)
            return
        request, flag, status = body.without_casts.arguments
        tested_variable = test.without_casts.children[0].without_casts.declaration
        flag_variable = (
            flag.without_casts.children[0].without_casts.declaration if flag.without_casts.operator == "&" else None
        )
        if tested_variable is None or flag_variable is None or tested_variable.key != flag_variable.key:
            raise NotMovable("it tests messages in a loop with another end", node.line)
        self.call_names.append("MPI_Test")
        self._add_lvalue_access(flag.without_casts.children[0], is_write=True)
        self._record_completion(node, request, None)
        self._add_request_accesses(node, request, ONE)
        self._add_status_write(status)

    def collect_special_call(self, node: SyntaxNode) -> bool:
        """Adds the accesses and messages of an MPI call. Returns whether it is an MPI call."""
        name = node.name.removeprefix("P") if node.name.startswith("PMPI_") else node.name
        if not name.startswith("MPI_"):
            return False
        arguments = node.arguments
        if name in _BUFFER_ARGUMENTS_BY_CALL:
            self.call_names.append(name)
            self._add_argument_reads(arguments, {buffer for _, buffer, _, _ in _BUFFER_ARGUMENTS_BY_CALL[name]})
            self._record_message_call(node, name, arguments)
        elif name in ("MPI_Wait", "MPI_Waitall"):
            self.call_names.append(name)
            is_all = name == "MPI_Waitall"
            self._record_completion(node, arguments[1] if is_all else arguments[0], arguments[0] if is_all else None)
            self._add_request_accesses(node, arguments[1] if is_all else arguments[0], arguments[0] if is_all else ONE)
        elif name in _QUERY_CALLS:
            self._add_argument_reads(arguments, {})
            self._collect_query_call(name, arguments)
        elif name in _ORDERED_CALLS:
            self._add_argument_reads(arguments, {})
            self.call_names.append(name)
            self.begins_messages = self.completes_messages = True
        elif name in ("MPI_Start", "MPI_Startall"):
            self.call_names.append(name)
            is_all = name == "MPI_Startall"
            self._record_persistent_start(node, arguments[-1], is_all)
            self._add_request_accesses(node, arguments[-1], arguments[0] if is_all else ONE)
        elif name == "MPI_Wtime":
            raise NotMovable("it takes the time", node.line)
        elif name != "MPI_Abort":  # correct programs do not call it
            raise NotMovable(refused_call_reason(name, arguments), node.line)
        if name in _STATUS_ARGUMENT_BY_CALL:
            self._add_status_write(arguments[_STATUS_ARGUMENT_BY_CALL[name]])
        return True

    def _add_status_write(self, node: SyntaxNode) -> None:
        """Adds the write to the status argument of an MPI call, unless nothing reads the status."""
        if not is_status_unread(node, self.reader.function):
            self._add_unknown_element_write(node)

    def _add_unknown_element_write(self, node: SyntaxNode) -> None:
        """Adds a write to an unknown element of the array that a pointer points into."""
        self._add_index_reads(node.without_casts)
        pointer = self.reader.pointer_value(node)
        if not self._is_in_declared_variable(pointer, node):
            self.add_access(
                replace(pointer, indices=(None,) * len(pointer.base.dimension_sizes)), is_write=True, line=node.line
            )

    def _collect_query_call(self, name: str, arguments: list[SyntaxNode]) -> None:
        """Adds the accesses of an MPI call that returns only process-local information, such as MPI_Comm_rank."""
        if name == "MPI_Get_count":
            self._add_whole_array_access(arguments[0], is_write=False)
        self._add_unknown_element_write(arguments[-1])

    def _record_persistent_start(self, node: SyntaxNode, request: SyntaxNode, is_startall: bool) -> None:
        """Records the messages that MPI_Start or MPI_Startall begins. Raises NotMovable if the calls that created the
        persistent requests are unknown, or if their arguments may have changed since."""
        pointer = self.reader.pointer_value(request)
        if reason := other_request_reason(pointer.base, self.reader.function):
            raise NotMovable(f"it may start another request than the one that was made: {reason}", node.line)
        init_calls = list(self._init_calls_of(request_position(pointer), is_startall))
        if not init_calls:
            raise NotMovable("it starts requests that were made elsewhere", node.line)
        for init_call, position in init_calls:
            arguments = init_call.arguments
            if changed := next(filter(self._may_have_changed, (one for a in arguments[:3] for one in a.walk())), None):
                reason = f"{changed.name} may have changed since line {init_call.line} gave it to {init_call.name}"
                raise NotMovable(reason, node.line)
            first_access = len(self.accesses)
            self._record_buffer(node, "Recv" not in init_call.name, *arguments[:3])
            accesses = self.accesses[first_access:]
            self.posted_messages.append(PostedMessage(position, accesses, self.context.is_unconditional))
        self.begins_messages = True

    def _init_calls_of(
        self, position: RequestPosition, is_startall: bool
    ) -> Iterator[tuple[SyntaxNode, RequestPosition]]:
        """Yields the calls of the function that may have created the persistent request at a position or, if
        `is_startall` is set, requests of its array; each with the position of its request."""
        for call in self.reader.function.calls:
            if _PERSISTENT_INIT_CALL.fullmatch(call.name):
                key, index = request_position(self.reader.pointer_value(call.arguments[6]))
                if key == position[0] and (is_startall or index == position[1] or None in (index, position[1])):
                    yield call, (key, index)

    def _may_have_changed(self, node: SyntaxNode) -> bool:
        """Returns whether a part of a persistent request's argument may have another value when the request is
        started."""
        if node.kind == Kind.MEMBER_REF_EXPR:
            return node.type.kind in (*INTEGER_TYPES, TypeKind.POINTER)
        declaration = node.declaration if node.kind == Kind.DECL_REF_EXPR else None
        return declaration is not None and not self._has_fixed_identity(declaration)

    def _record_message_call(self, node: SyntaxNode, name: str, arguments: list[SyntaxNode]) -> None:
        """Records the messages of a send or receive call, and the accesses to its buffers."""
        first_access = len(self.accesses)
        for is_send, buffer, count, datatype in _BUFFER_ARGUMENTS_BY_CALL[name]:
            self._record_buffer(node, is_send, arguments[buffer], arguments[count], arguments[datatype])
        accesses = self.accesses[first_access:]
        self.access_numbers_by_call[node.offset] = range(first_access, len(self.accesses))
        if name in _NONBLOCKING_CALLS:
            self.begins_messages = True
            self.posted_messages.append(
                PostedMessage(
                    request_position(self.reader.pointer_value(arguments[6])), accesses, self.context.is_unconditional
                )
            )
            self._add_request_accesses(node, arguments[6], ONE)
        else:
            self.begins_messages = self.completes_messages = True

    def _add_argument_reads(self, arguments: list[SyntaxNode], buffer_positions: Collection[int]) -> None:
        """Adds the reads in the arguments of an MPI call except buffers, requests and statuses: in counts, ranks, tags
        and expressions that compute handles."""
        for position, argument in enumerate(arguments):
            has_call = any(one.kind == Kind.CALL_EXPR for one in argument.walk())
            if any(one.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS) for one in argument.walk()):
                raise NotMovable(
                    f"an argument of its call changes something: {source_text_of(argument)}", argument.line
                )
            if position in buffer_positions:
                continue  # the buffer's own function adds its access
            if argument.type.kind in INTEGER_TYPES:
                self.collect_accesses(argument.without_casts)
            elif has_call:
                raise NotMovable(f"an argument of its call calls a function: {source_text_of(argument)}", argument.line)

    def _record_buffer(
        self, node: SyntaxNode, is_send: bool, buffer: SyntaxNode, count: SyntaxNode, datatype: SyntaxNode
    ) -> None:
        """Adds the access to one buffer of an MPI call, which is read (`is_send`) or written, and records the
        message."""
        buffer_text = source_text_of(buffer)
        if buffer_text in ("MPI_IN_PLACE", "MPI_BOTTOM"):
            raise NotMovable(f"its buffer is {buffer_text}", node.line)
        self._add_index_reads(buffer.without_casts)
        pointer = self.reader.pointer_value(buffer)
        if self._is_in_declared_variable(pointer, buffer):
            return
        num_missing_indices = len(pointer.base.dimension_sizes) - len(pointer.indices)
        missing_index = (None,) if pointer.base.object_kind == "rows" else (ZERO,)
        pointer = replace(pointer, indices=(*pointer.indices, *missing_index * num_missing_indices))
        element_count, is_exact = self._element_count(count)
        layout = layout_of_datatype(datatype, self.reader, self.functions)
        if layout is None:
            reason = f"the layout of {source_text_of(datatype)} is not known, so that it may be of any memory"
            raise NotMovable(reason, node.line)
        if is_structure_member(pointer) and not is_within_member(pointer, element_count, layout):
            raise NotMovable(
                f"the message at {source_text_of(buffer)} may be of several members of a structure", node.line
            )
        exact_count = element_count if is_exact else None
        self.messages.append(MessageSide(is_send, exact_count, layout.element_bytes, self.context.is_unconditional))
        self._add_buffer_access(node, *self._message_elements(pointer, element_count, layout), is_send)

    def _element_count(self, node: SyntaxNode) -> tuple[Polynomial | None, bool]:
        """Returns a count argument as a polynomial (None if it is unknown), and whether it is exact. For an unsigned
        number that is converted to a shorter int, returns the unsigned number, which is an upper bound."""
        inner = node
        while (
            inner.kind == Kind.UNEXPOSED_EXPR and may_truncate(inner) and inner.children[0].type.kind in UNSIGNED_TYPES
        ):
            inner = inner.children[0]
        try:
            return self.reader.to_polynomial(inner), inner is node
        except NotAffine:
            return None, False

    def _message_elements(
        self, pointer: Pointer, element_count: Polynomial | None, layout: DatatypeLayout
    ) -> tuple[Pointer, tuple[Loop, ...]]:
        """Returns the address of a message's elements as a function of loop iterators, and the loops of these
        iterators. If the elements cannot be described so, returns an element at an unknown index of the same array,
        and no loops."""
        element_bytes = bytes_of_element_type(pointer.base.element_type)
        if element_count is None or not element_bytes or not layout.element_bytes:
            return unknown_element(pointer), ()
        block_length = layout.block_length
        if layout.element_bytes != element_bytes:
            scaled = bytes_to_elements(element_count, block_length, layout.element_bytes, element_bytes)
            if scaled is None or layout.num_blocks.constant != 1:
                return unknown_element(pointer), ()
            element_count, block_length = scaled
        elif not pointer.base.dimension_sizes and element_count == block_length == layout.num_blocks == ONE:
            return pointer, ()
        if layout.num_blocks.constant == 1:
            loop = self._new_element_loop(element_count * block_length)
            return pointer.offset_by(Polynomial.from_symbol(loop.iterator.key)), (loop,)
        if element_count.constant == 1:
            loops = self._new_element_loop(layout.num_blocks), self._new_element_loop(block_length)
            block, element = (Polynomial.from_symbol(loop.iterator.key) for loop in loops)
            return pointer.offset_by(self.reader._multiply(block, layout.stride) + element), loops
        return unknown_element(pointer), ()

    def _add_buffer_access(self, node: SyntaxNode, pointer: Pointer, loops: tuple[Loop, ...], is_send: bool) -> None:
        with self.nested_context(loops=(*self.context.loops, *loops)):
            self.add_access(pointer, is_write=not is_send, line=node.line, is_message=True)

    def _new_element_loop(self, count: Polynomial) -> Loop:
        """Returns a new loop from 0 to `count` over the elements of a message."""
        self.num_element_loops += 1
        symbol = Symbol(f"message#{id(self)}.{self.num_element_loops}", "message", is_iterator=True)
        self.reader.symbols[symbol.key] = symbol
        return Loop(symbol, (ZERO,), (count,))

    # ---- requests of nonblocking messages

    def _add_request_accesses(self, node: SyntaxNode, request: SyntaxNode, count: SyntaxNode | Polynomial) -> None:
        """Adds a read and a write of `count` requests, so that a request is not reused before its message completes.
        All requests behind pointers count as the same memory."""
        self._add_index_reads(request.without_casts)
        pointer = self.reader.pointer_value(request)
        if pointer.base.declaration_key in self.private_variables:
            return
        if pointer.base.object_kind not in ("array", "scalar"):
            pointer = Pointer(BaseObject("requests", "requests", "scalar", "request"), ())
        loops: tuple[Loop, ...] = ()
        if pointer.indices:
            try:
                loops = (
                    self._new_element_loop(
                        count if isinstance(count, Polynomial) else self.reader.to_polynomial(count)
                    ),
                )
                pointer = pointer.offset_by(Polynomial.from_symbol(loops[0].iterator.key))
            except NotAffine:
                pointer = pointer.offset_by(None)
        with self.nested_context(loops=(*self.context.loops, *loops)):
            for write in (False, True):
                self.add_access(pointer, is_write=write, line=node.line)

    def _record_completion(self, node: SyntaxNode, request: SyntaxNode, count: SyntaxNode | None) -> None:
        """Records the completion of one request, or of `count` requests of an array. Raises NotMovable if a request may
        belong to a message that was begun outside of the region, or if a message may remain in flight."""
        self.completes_messages = True
        span = self.region_start, self.statement_end
        completion = Completion(request, count, self.posted_messages, self.reader, self.region_function, span)
        raise_first_refusal(COMPLETION_REFUSALS, completion, node.line)
        for one in completion.messages:
            self.accesses += [replace(access, line=node.line) for access in one.accesses]
        if count is not None:
            self.posted_messages[:] = [one for one in self.posted_messages if one not in completion.messages]
        elif len(completion.messages) == 1 and not completion.messages_of_unknown_requests:
            self.posted_messages.remove(completion.messages[0])

    def _has_fixed_identity(self, declaration: SyntaxNode) -> bool:
        """Returns whether a name denotes the same object throughout the function: an array, an MPI handle, or a
        variable that never changes."""
        is_handle = declaration.cursor.type.spelling.startswith(("MPI_", "struct ompi_"))
        if declaration.type.kind == TypeKind.RECORD and not is_handle:
            return False  # a vector may reallocate
        is_fixed = (
            is_handle or declaration.type.kind in ARRAY_TYPES or self.reader.function.is_never_changed(declaration.key)
        )
        return declaration.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or is_fixed
