"""Reads MPI calls: the buffer elements that they send and receive, and the messages that they begin and complete."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from nearfield.rewrite.analysis.accesses import AccessCollector, is_structure_member
from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.datatypes import DatatypeLayout, element_size_of, layout_of_datatype
from nearfield.rewrite.analysis.expressions import NotAffine, Pointer, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Poly, Symbol
from nearfield.rewrite.analysis.program import Access, BaseObject, Loop, MessageSide, NotMovable
from nearfield.rewrite.analysis.requests import (
    active_request_reason,
    changed_request_reason,
    is_pointer_to_own_allocation,
)
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind
from nearfield.rewrite.frontend.conversions import INTEGERS, UNSIGNED, is_mpi_handle_variable, may_truncate
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS

# Positions of the arguments for each buffer of an MPI call: whether it is sent, buffer, count and datatype.
_SIDES: dict[str, list[tuple[bool, int, int, int]]] = {
    "MPI_Sendrecv": [(True, 0, 1, 2), (False, 5, 6, 7)],
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Bsend", "MPI_Isend", "MPI_Issend", "MPI_Irsend"),
                    [(True, 0, 1, 2)]),
    **dict.fromkeys(("MPI_Recv", "MPI_Irecv"), [(False, 0, 1, 2)]),
    "MPI_Sendrecv_replace": [(True, 0, 1, 2), (False, 0, 1, 2)],
}  # fmt: skip
# MPI calls that send nothing, but keep their order relative to other MPI calls.
_STAYS = ("MPI_Barrier", "MPI_Type_vector", "MPI_Type_contiguous", "MPI_Type_commit", "MPI_Type_free",
          "MPI_Request_free")  # fmt: skip
_TELLS = ("MPI_Comm_rank", "MPI_Comm_size", "MPI_Get_count")
_BEGINS = ("MPI_Isend", "MPI_Issend", "MPI_Irsend", "MPI_Irecv")
_MAKES = re.compile(r"P?MPI_(?:[bsr]?send|recv)_init", re.I)  # creates a persistent request
_STATUS = {"MPI_Recv": 6, "MPI_Sendrecv": 11, "MPI_Sendrecv_replace": 8, "MPI_Wait": 1, "MPI_Waitall": 2}
# Reasons why nothing is moved across other MPI calls, by the name of the function.
_BARRIERS = (
    (r"MPI_I?(?:bcast|reduce\w*|allreduce|scan|exscan|gatherv?|allgatherv?|scatterv?|alltoall[vw]?|neighbor_\w+)",
     "a collective, across which nothing is moved"),
    (r"MPI_I?m?probe", "and which message it finds is known only when it runs"),
    (r"MPI_(?:Test\w*|Wait(?:any|some))", "whose outcome depends on when messages arrive; MPI_Wait and MPI_Waitall "
     "are understood"),
    (r"MPI_(?:R?put|R?get|R?accumulate|R?get_accumulate|Fetch_and_op|Compare_and_swap|Win_\w+)",
     "one-sided communication, which is not understood"),
    (r"MPI_\w+_init", "which makes a persistent request"),
)  # fmt: skip


@dataclass
class PostedMessage:
    """A message in flight: its request, and the accesses to its buffer."""

    request: tuple[str, int | None]
    accesses: list[Access]
    certain: bool  # begun by every execution of its statement, under no condition


@dataclass
class CommunicationCollector(AccessCollector):
    """Collects the memory accesses and the messages of a statement with MPI calls. `posted` are messages in flight from
    earlier statements of the region; all statements of the region share that list."""

    posted: list[PostedMessage] = field(default_factory=list)
    messages: list[MessageSide] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    begins: bool = False
    completes: bool = False
    # From the source offset of an MPI call that sends or receives to the numbers of its accesses in `accesses`.
    sides: dict[int, range] = field(default_factory=dict)
    number: int = 0  # loops over message elements so far, which makes their names unique
    since: int = 0  # source offset of the first statement of the region
    until: int = 0  # source offset at which the current statement ends

    def __post_init__(self) -> None:
        self.root = self.reader.function  # callees are read with the same reader

    def collect_accesses(self, node: Node) -> None:
        """Adds the accesses of a statement. A loop such as `while (!flag) MPI_Test(...)` counts as a wait for the
        message."""
        test, body = node.children if node.kind == Kind.WHILE_STMT and len(node.children) == 2 else (node, node)
        while body.kind == Kind.COMPOUND_STMT and len(body.children) == 1:
            body = body.children[0]
        if node is test or body.bare.name != "MPI_Test" or test.bare.operator != "!":
            super().collect_accesses(node)
            return
        request, flag, status = body.bare.arguments
        tested = test.bare.children[0].bare.declaration
        written = flag.bare.children[0].bare.declaration if flag.bare.operator == "&" else None
        if tested is None or written is None or tested.key != written.key:
            raise NotMovable("it tests messages in a loop with another end", node.line)
        self.names.append("MPI_Test")
        self._add_lvalue_access(flag.bare.children[0], write=True)
        self._record_completion(node, request, None)
        self._add_request_accesses(node, request, ONE)
        self._add_status_write(status)

    def collect_special_call(self, node: Node) -> bool:
        """Adds the accesses and messages of an MPI call. Returns whether the call is of MPI."""
        name = node.name.removeprefix("P") if node.name.startswith("PMPI_") else node.name
        if not name.startswith("MPI_"):
            return False
        arguments = node.arguments
        if name in _SIDES:
            self.names.append(name)
            self._add_argument_reads(arguments, {buffer for _, buffer, _, _ in _SIDES[name]})
            self._record_message_call(node, name, arguments)
        elif name in ("MPI_Wait", "MPI_Waitall"):
            self.names.append(name)
            several = name == "MPI_Waitall"
            self._record_completion(node, arguments[1] if several else arguments[0], arguments[0] if several else None)
            self._add_request_accesses(
                node, arguments[1] if several else arguments[0], arguments[0] if several else ONE
            )
        elif name in _TELLS:
            self._add_argument_reads(arguments, {})
            self._collect_query(name, arguments)
        elif name in _STAYS:
            self._add_argument_reads(arguments, {})
            self.names.append(name)
            self.begins = self.completes = True
        elif name in ("MPI_Start", "MPI_Startall"):
            self.names.append(name)
            several = name == "MPI_Startall"
            self._record_persistent_start(node, arguments[-1], several)
            self._add_request_accesses(node, arguments[-1], arguments[0] if several else ONE)
        elif name == "MPI_Wtime":
            raise NotMovable("it takes the time", node.line)
        elif name != "MPI_Abort":  # correct programs do not call it
            raise NotMovable(_barrier_reason(name, arguments), node.line)
        if name in _STATUS:
            self._add_status_write(arguments[_STATUS[name]])
        return True

    def _add_status_write(self, node: Node) -> None:
        """Adds the write to the status argument of an MPI call, unless nothing reads the status."""
        if not is_status_unread(node, self.reader.function):
            self._add_unknown_element_write(node)

    def _add_unknown_element_write(self, node: Node) -> None:
        """Adds a write to an unknown element of the array that a pointer points into."""
        self._add_index_reads(node.bare)
        pointer = self.reader.pointer_value(node)
        if not self._is_in_declared_variable(pointer, node):
            self.add_access(replace(pointer, index=(None,) * len(pointer.base.sizes)), write=True, line=node.line)

    def _collect_query(self, name: str, arguments: list[Node]) -> None:
        """Adds the accesses of an MPI call that returns only process-local information, such as MPI_Comm_rank."""
        if name == "MPI_Get_count":
            self._add_whole_array_access(arguments[0], write=False)
        self._add_unknown_element_write(arguments[-1])

    def _record_persistent_start(self, node: Node, request: Node, several: bool) -> None:
        """Records the messages that MPI_Start or MPI_Startall begins. Raises NotMovable if the calls that created the
        persistent requests are unknown, or if their arguments may have changed since."""
        base, place = self._request_position(request)
        function, begun = self.reader.function, 0
        if reason := self._other_request_reason(request):
            raise NotMovable(f"it may start another request than the one that was made: {reason}", node.line)
        for maker in function.calls:
            if not _MAKES.fullmatch(maker.name):
                continue
            arguments = maker.arguments
            mine = self._request_position(arguments[6])
            if mine[0] != base or not several and None not in (place, mine[1]) and mine[1] != place:
                continue
            for one in [one for argument in arguments[:3] for one in argument.walk()]:
                declared = one.declaration if one.kind == Kind.DECL_REF_EXPR else None
                member = one.kind == Kind.MEMBER_REF_EXPR and one.type.kind in (*INTEGERS, TypeKind.POINTER)
                if member or declared is not None and not self._has_fixed_identity(declared):
                    raise NotMovable(
                        f"{one.name} may have changed since line {maker.line} gave it to {maker.name}", node.line
                    )
            before = len(self.accesses)
            self._record_buffer(node, "Recv" not in maker.name, *arguments[:3])
            self.posted.append(PostedMessage(mine, self.accesses[before:], self.inside.certain))
            begun += 1
        if not begun:
            raise NotMovable("it starts requests that were made elsewhere", node.line)
        self.begins = True

    def _other_request_reason(self, request: Node) -> str:
        """Returns the reason why a persistent request may be another one than the calls of this function make; '' if it
        cannot be."""
        base, function = self.reader.pointer_value(request).base, self.reader.function
        declared = function.declared.get(base.declaration)
        if declared is None or declared.kind != Kind.VAR_DECL or declared.cursor.storage_class.name == "STATIC":
            return f"{base.text} is no variable of this function"
        is_pointer = base.kind == "pointer" and not is_mpi_handle_variable(declared)
        if is_pointer and not is_pointer_to_own_allocation(declared, function):
            return f"what else {base.text} stands for is not known"
        uses = function.uses.get(base.declaration, [])
        return next(filter(None, (changed_request_reason(use, function) for use in uses)), "")

    def _record_message_call(self, node: Node, name: str, arguments: list[Node]) -> None:
        """Records the messages of a send or receive call, and the accesses to its buffers."""
        before = len(self.accesses)
        for send, buffer, count, datatype in _SIDES[name]:
            self._record_buffer(node, send, arguments[buffer], arguments[count], arguments[datatype])
        made = self.accesses[before:]
        self.sides[node.offset] = range(before, len(self.accesses))
        if name in _BEGINS:
            self.begins = True
            self.posted.append(PostedMessage(self._request_position(arguments[6]), made, self.inside.certain))
            self._add_request_accesses(node, arguments[6], ONE)
        else:
            self.begins = self.completes = True

    def _add_argument_reads(self, arguments: list[Node], buffers: Collection[int]) -> None:
        """Adds the reads in all arguments of an MPI call but buffers, requests and statuses: in counts, ranks, tags and
        expressions that compute handles."""
        for place, argument in enumerate(arguments):
            computes = any(one.kind == Kind.CALL_EXPR for one in argument.walk())
            if any(one.operator in (*ASSIGNMENTS, *INCREMENTS) for one in argument.walk()):
                raise NotMovable(
                    f"an argument of its call changes something: {source_text_of(argument)}", argument.line
                )
            if place in buffers:
                continue  # the buffer's own function adds its access
            if argument.type.kind in INTEGERS:
                self.collect_accesses(argument.bare)
            elif computes:
                raise NotMovable(f"an argument of its call calls a function: {source_text_of(argument)}", argument.line)

    def _record_buffer(self, node: Node, send: bool, buffer: Node, count: Node, datatype: Node) -> None:
        """Adds the access to one buffer of an MPI call, which is read (`send`) or written, and records the message."""
        words = source_text_of(buffer)
        if words in ("MPI_IN_PLACE", "MPI_BOTTOM"):
            raise NotMovable(f"its buffer is {words}", node.line)
        self._add_index_reads(buffer.bare)
        pointer = self.reader.pointer_value(buffer)
        if self._is_in_declared_variable(pointer, buffer):
            return
        missing = len(pointer.base.sizes) - len(pointer.index)
        filled = (None,) if pointer.base.kind == "rows" else (ZERO,)
        pointer = replace(pointer, index=(*pointer.index, *filled * missing))
        number, is_exact = self._element_count(count)
        shape = layout_of_datatype(datatype, self.reader, self.functions)
        if shape is None:
            reason = f"the layout of {source_text_of(datatype)} is not known, so that it may be of any memory"
            raise NotMovable(reason, node.line)
        if is_structure_member(pointer) and not _is_within_member(pointer, number, shape):
            raise NotMovable(
                f"the message at {source_text_of(buffer)} may be of several members of a structure", node.line
            )
        exact = number if is_exact else None
        self.messages.append(MessageSide(send, exact, shape.element_bytes, self.inside.certain))
        self._add_buffer_access(node, *self._message_elements(pointer, number, shape), send)

    def _element_count(self, node: Node) -> tuple[Poly | None, bool]:
        """Returns a count argument as a polynomial (None if it is unknown), and whether it is exact. For an unsigned
        number that is converted to a shorter int, returns the unsigned number, which is an upper bound."""
        inner = node
        while inner.kind == Kind.UNEXPOSED_EXPR and may_truncate(inner) and inner.children[0].type.kind in UNSIGNED:
            inner = inner.children[0]
        try:
            return self.reader.to_polynomial(inner), inner is node
        except NotAffine:
            return None, False

    def _message_elements(
        self, pointer: Pointer, number: Poly | None, shape: DatatypeLayout
    ) -> tuple[Pointer, tuple[Loop, ...]]:
        """Returns the address of a message's elements in terms of loop iterators, and the loops over them. Returns all
        elements that the pointer may reach if the layout of the message is unknown."""
        element_bytes = element_size_of(pointer.base.element)
        if number is None or not element_bytes or not shape.element_bytes:
            return _unknown_element(pointer), ()
        length = shape.length
        if shape.element_bytes != element_bytes:
            scaled = _bytes_to_elements(number, length, shape.element_bytes, element_bytes)
            if scaled is None or shape.blocks.constant != 1:
                return _unknown_element(pointer), ()
            number, length = scaled
        elif not pointer.base.sizes and number == length == shape.blocks == ONE:
            return pointer, ()
        if shape.blocks.constant == 1:
            loop = self._new_element_loop(number * length)
            return pointer.offset_by(Poly.from_symbol(loop.iterator.key)), (loop,)
        if number.constant == 1:
            loops = self._new_element_loop(shape.blocks), self._new_element_loop(length)
            block, within = (Poly.from_symbol(loop.iterator.key) for loop in loops)
            return pointer.offset_by(self.reader._multiply(block, shape.stride) + within), loops
        return _unknown_element(pointer), ()

    def _add_buffer_access(self, node: Node, pointer: Pointer, loops: tuple[Loop, ...], send: bool) -> None:
        with self.nested_context(loops=(*self.inside.loops, *loops)):
            self.add_access(pointer, write=not send, line=node.line, message=True)

    def _new_element_loop(self, count: Poly) -> Loop:
        """Returns a new loop from 0 to `count` over the elements of a message."""
        self.number += 1
        symbol = Symbol(f"message#{id(self)}.{self.number}", "message", iterator=True)
        self.reader.symbols[symbol.key] = symbol
        return Loop(symbol, (ZERO,), (count,))

    # ---- requests of nonblocking messages

    def _request_position(self, node: Node) -> tuple[str, int | None]:
        """Returns the key of the variable or array that holds a request, and the index of the request in it; None if
        the index is unknown."""
        pointer = self.reader.pointer_value(node)
        places = [one.constant if one is not None else None for one in pointer.index]
        if not pointer.index:
            return pointer.base.key, 0
        return pointer.base.key, places[0] if len(places) == 1 else None

    def _add_request_accesses(self, node: Node, request: Node, count: Node | Poly) -> None:
        """Adds a read and a write of `count` requests, so that a request is not reused before its message completes.
        All requests behind pointers count as the same memory."""
        self._add_index_reads(request.bare)
        pointer = self.reader.pointer_value(request)
        if pointer.base.declaration in self.private:
            return
        if pointer.base.kind not in ("array", "scalar"):
            pointer = Pointer(BaseObject("requests", "requests", "scalar", "request"), ())
        loops: tuple[Loop, ...] = ()
        if pointer.index:
            try:
                loops = (
                    self._new_element_loop(count if isinstance(count, Poly) else self.reader.to_polynomial(count)),
                )
                pointer = pointer.offset_by(Poly.from_symbol(loops[0].iterator.key))
            except NotAffine:
                pointer = pointer.offset_by(None)
        with self.nested_context(loops=(*self.inside.loops, *loops)):
            for write in (False, True):
                self.add_access(pointer, write=write, line=node.line)

    def _record_completion(self, node: Node, request: Node, count: Node | None) -> None:
        """Records the completion of one request, or of `count` requests of an array. Raises NotMovable if a request may
        belong to a message that was begun outside of the region, or if a message may remain in flight."""
        self.completes = True
        base, place = self._request_position(request)
        first = 0 if place is None else place
        places = range(first, first + 1) if count is None else self._completed_requests(first, count)
        mine = [one for one in self.posted if one.request[0] == base]
        if places is not None and place is not None:
            mine = [one for one in mine if one.request[1] is None or one.request[1] in places]
        if not mine:
            raise NotMovable("it completes messages that were begun elsewhere", node.line)
        surely = {one.request[1] for one in mine if one.certain}
        known = place is not None and places is not None and surely >= set(places)
        unsure = [one for one in mine if one.request[1] is None]
        if not known and (place is None or places is None or unsure and count is None):
            raise NotMovable("which messages it completes is known only when it runs", node.line)
        if not known and (reason := self._outside_message_reason(request)):
            raise NotMovable(f"it may complete messages that were begun elsewhere: {reason}", node.line)
        for one in mine:
            self.accesses += [replace(access, line=node.line) for access in one.accesses]
        if unsure and count is not None and not self._completes_whole_array(request, place, places):
            raise NotMovable("it may complete only some of the messages of its requests", node.line)
        if count is not None:
            self.posted[:] = [one for one in self.posted if one not in mine]
        elif len(mine) == 1 and not unsure:
            self.posted.remove(mine[0])

    def _completed_requests(self, first: int, count: Node) -> range | None:
        """Returns the indices of the requests that a call completes, from `first` on; None if their number is not
        constant."""
        try:
            number = self.reader.to_polynomial(count).constant
        except NotAffine:
            return None
        return range(first, first + number) if number is not None else None

    def _completes_whole_array(self, request: Node, place: int | None, places: range | None) -> bool:
        """Returns whether a call completes all requests of an array."""
        sizes = self.reader.pointer_value(request).base.sizes
        size = sizes[0].constant if len(sizes) == 1 and sizes[0] is not None else None
        return place == 0 and places is not None and size is not None and len(places) >= size

    def _outside_message_reason(self, request: Node) -> str:
        """Returns the reason why the requests of an array or a variable may belong to messages that were begun outside
        of the region; '' if they cannot."""
        base, root = self.reader.pointer_value(request).base, self.root
        declared = root.declared.get(base.declaration)
        if declared is None or declared.kind != Kind.VAR_DECL or declared.cursor.storage_class.name == "STATIC":
            return f"{base.text} is no variable of this function"
        is_pointer = base.kind == "pointer" and not is_mpi_handle_variable(declared)
        if is_structure_member(Pointer(base, ())) or is_pointer and not is_pointer_to_own_allocation(declared, root):
            return f"what else {base.text} stands for is not known"
        for use in root.uses.get(base.declaration, []):
            if not self.since <= use.offset < self.until and (call := active_request_reason(use, root)):
                return call
        return ""

    def _has_fixed_identity(self, declared: Node) -> bool:
        """Returns whether a name denotes the same object throughout the function: an array, an MPI handle, or a
        variable that never changes."""
        handle = declared.cursor.type.spelling.startswith(("MPI_", "struct ompi_"))
        if declared.type.kind == TypeKind.RECORD and not handle:
            return False  # a vector may reallocate
        lasts = handle or declared.type.kind in ARRAYS or self.reader.function.is_never_changed(declared.key)
        return declared.kind not in (Kind.VAR_DECL, Kind.PARM_DECL) or lasts


def _unknown_element(pointer: Pointer) -> Pointer:
    """Returns an unknown element of the array that a pointer points into; for an array of pointers to rows, an unknown
    element of the same row."""
    rows = pointer.index[:-1] if pointer.base.kind == "rows" else ()
    index = (*rows, *(None,) * max(len(pointer.index) - len(rows), 1))
    return replace(pointer, index=index, note=pointer.note if rows else "the layout of a message is not known")


def _is_within_member(pointer: Pointer, number: Poly | None, shape: DatatypeLayout) -> bool:
    """Returns whether a message of constant length lies within the structure member that its buffer argument points
    to."""
    base, size = pointer.base, element_size_of(pointer.base.element)
    if (
        number is None
        or number.constant is None
        or shape.element_bytes != size
        or not shape.length == shape.blocks == ONE
    ):
        return False
    own = [one for one in base.sizes if one is not None]
    if not base.sizes or not own:
        return number.constant <= 1 and base.kind != "pointer"
    first = pointer.index[-1]
    if len(own) > 1 or own[0].constant is None or first is None or first.constant is None:
        return False
    return first.constant >= 0 and first.constant + number.constant <= own[0].constant


def _barrier_reason(name: str, arguments: list[Node]) -> str:
    """Returns the reason why nothing is moved across a call of an MPI function that is not modelled."""
    why = next((why for pattern, why in _BARRIERS if re.fullmatch(pattern, name, re.I)), "")
    anyone = " (MPI_ANY_SOURCE)" if any(source_text_of(one).startswith("MPI_ANY_SOURCE") for one in arguments) else ""
    return f"it calls {name}{anyone}{', ' if why else ''}{why}"


def _bytes_to_elements(number: Poly, length: Poly, have: int, want: int) -> tuple[Poly, Poly] | None:
    """Converts the number of elements of a message and the length of a block from a datatype of `have` bytes to
    elements of `want` bytes. Returns None if the division is not known to be exact."""
    whole = number * length
    if have == 1 and all(factor % want == 0 for factor in whole.terms.values()):
        return Poly({monomial: factor // want for monomial, factor in whole.terms.items()}), Poly.from_constant(1)
    if want % have == 0 and all(factor % (want // have) == 0 for factor in whole.terms.values()):
        return Poly(
            {monomial: factor // (want // have) for monomial, factor in whole.terms.items()}
        ), Poly.from_constant(1)
    return None
