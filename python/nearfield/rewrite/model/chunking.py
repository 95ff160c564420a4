"""Decides which MPI exchanges can be split into the same chunks on all ranks.

Chunks match only if sender and receiver split a message equally. So only MPI_Sendrecv is split, since one call has both
sides. It must send as many elements as it receives, under one tag; the count must be the same on all ranks; and no
other call of the program may match its messages, unless that call is split in the same way. What a file does not show
(values on other ranks, calls in other files) is rejected, or asserted by the user with --assume-uniform."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Polynomial, Symbol
from nearfield.rewrite.analysis.program import (
    Access,
    Chunking,
    CommunicationStatement,
    Condition,
    Loop,
    MessageSide,
    NotMovable,
    Region,
)
from nearfield.rewrite.analysis.refusals import Refusals, raise_first_refusal
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS
from nearfield.rewrite.model.chunk_sizes import ChunkSizes
from nearfield.rewrite.model.polyhedral import PolyhedralModel

_POINT_TO_POINT = re.compile(r"P?MPI_\w*([Ss]end|[Rr]ecv|[Pp]robe)")
_TAG_ARGUMENTS_BY_CALL = {
    "MPI_Sendrecv": (4, 9), "MPI_Isendrecv": (4, 9), "MPI_Sendrecv_replace": (4, 6), "MPI_Isendrecv_replace": (4, 6),
    "MPI_Probe": (1,), "MPI_Iprobe": (1,),
}  # fmt: skip
_CALL_WITH_FIFTH_TAG = re.compile(r"MPI_(I?[srb]?send|[SRB]?[Ss]end(_init)?|I?recv|Recv(_init)?)")
_CONTAINER_ACCESSORS = ("operator[]", "data", "size", "begin")  # methods of C++ containers without side effects


@dataclass
class MessageChunker:
    """Splits the messages of the exchanges in a file's regions into chunks. `assumed_uniform` are names which, as the
    user asserts, have the same value on all ranks, all of which execute the exchange."""

    unit: TranslationUnit
    functions: ProgramFunctions
    chunk_sizes: ChunkSizes
    assumed_uniform: Collection[str]

    def chunk_region(self, region: Region, iterator_name: str) -> tuple[Region, list[str]]:
        """Returns the region with its exchanges split into chunks, and the names that must be assumed uniform across
        ranks. `iterator_name` is the name of the variable for the first element of a chunk. Raises NotMovable if no
        exchange can be split."""
        symbols = dict(region.symbols)
        chunked_calls: dict[int, CommunicationStatement] = {}
        first_barrier: NotMovable | None = None
        for number, item in enumerate(region.items):
            if isinstance(item, CommunicationStatement) and item.messages:
                try:
                    chunked_calls[number] = self._chunk_call(item, symbols, iterator_name)
                except NotMovable as barrier:
                    first_barrier = first_barrier or barrier
        if not chunked_calls:
            raise first_barrier or NotMovable("no message is exchanged", region.line)
        for call in chunked_calls.values():
            self._check_matching_calls(call, list(chunked_calls.values()))
        items = [chunked_calls.get(number, item) for number, item in enumerate(region.items)]
        names = list(
            dict.fromkeys(name for call in chunked_calls.values() for name in self._names_to_assume(call, symbols))
        )
        return replace(region, items=items, symbols=symbols), names

    def _chunk_call(
        self, call: CommunicationStatement, symbols: dict[str, Symbol], iterator_name: str
    ) -> CommunicationStatement:
        """Returns an MPI_Sendrecv split into chunks. Raises NotMovable with the reason if it cannot be split."""
        exchange = _Exchange(call, self._find_syntax_node(call), self.chunk_sizes.chunk_bytes)
        raise_first_refusal(_EXCHANGE_REFUSALS, exchange, call.line)
        for buffer in exchange.buffers:
            raise_first_refusal(_BUFFER_REFUSALS, buffer, call.line)
        count, element_bytes = exchange.sent.count, exchange.sent.element_bytes
        assert count is not None
        iterator = Symbol(f"piece#{call.start}", iterator_name, is_iterator=True)
        symbols[iterator.key] = iterator
        chunk_elements = self.chunk_sizes.chunk_bytes // element_bytes
        loop = Loop(iterator, (ZERO,), (count,), chunk_elements, "long", line=call.line)
        chunking = Chunking(loop, count, self.chunk_sizes.threshold_bytes // element_bytes)
        accesses = [_chunk_access(one, chunking, symbols) if one.is_message else one for one in call.accesses]
        return replace(call, accesses=accesses, chunking=chunking)

    def _find_syntax_node(self, call: CommunicationStatement) -> SyntaxNode | None:
        """Returns the syntax node of an MPI_Sendrecv; None if the statement is something else."""
        for node in self.unit.functions:
            for one in self.functions.function_of(node).calls:
                if one.offset == call.start and one.name.endswith("MPI_Sendrecv"):
                    return one
        return None

    # ---- calls that may match the messages of an exchange

    def _check_matching_calls(
        self, call: CommunicationStatement, chunked_calls: Collection[CommunicationStatement]
    ) -> None:
        """Raises NotMovable unless every call of the file that may match a message of this exchange is split in the
        same way."""
        node = self._find_syntax_node(call)
        assert call.chunking and node
        count_by_start = {one.start: one.chunking.count for one in chunked_calls if one.chunking}
        for other in self._point_to_point_calls():
            if not self._may_match(other, node.arguments[4].constant_value):
                continue
            call_text, may_match = f"{other.name} in line {other.line}", "may be the other side of its messages"
            if other.offset not in count_by_start:
                raise NotMovable(f"{call_text} {may_match}", call.line)
            if count_by_start[other.offset] != call.chunking.count:
                raise NotMovable(f"{call_text} has another count, and {may_match}", call.line)

    def _point_to_point_calls(self) -> Iterator[SyntaxNode]:
        """Yields all point-to-point calls and probes in the file."""
        for node in self.unit.functions:
            for call in self.functions.function_of(node).calls:
                if _POINT_TO_POINT.match(call.name):
                    yield call

    @staticmethod
    def _may_match(call: SyntaxNode, tag: int | None) -> bool:
        """Returns whether a call may send or receive a message with this tag (None: any tag)."""
        arguments = call.arguments
        name = call.name.removeprefix("P")
        places = (4,) if _CALL_WITH_FIFTH_TAG.fullmatch(name) else _TAG_ARGUMENTS_BY_CALL.get(name, ())
        tags = [arguments[place].constant_value for place in places] or [
            None
        ]  # None: any tag, if its position is unknown
        return tag is None or any(one is None or one == tag or one < 0 for one in tags)  # a negative tag is a wildcard

    def _names_to_assume(self, call: CommunicationStatement, symbols: dict[str, Symbol]) -> list[str]:
        """Returns the names that must be assumed uniform across ranks, all of which execute the exchange. Raises
        NotMovable, with the names, if the user did not assert that."""
        assert call.chunking
        counted = expand_sum_symbols(sorted(call.chunking.count.keys), symbols)
        differing = [one.text for one in counted if one.constant_value is None]
        if differing:
            reason = f"{' and '.join(differing)} may differ between ranks, which would cut into different pieces"
        elif not self.functions.is_whole_program:
            differing = [one.text for one in counted] or [call.sendrecv_arguments["sendcount"]]
            reason = "other files may have the other side of its messages"
        if unasserted_names := [name for name in differing if name not in self.assumed_uniform]:
            raise NotMovable(reason, call.line, ",".join(unasserted_names))
        return differing


# ---- which exchanges can be split


@dataclass(frozen=True)
class _Exchange:
    """A statement whose messages are to be split, and the syntax node of its MPI_Sendrecv, if it is one."""

    call: CommunicationStatement
    node: SyntaxNode | None
    chunk_bytes: int

    @property
    def arguments(self) -> list[SyntaxNode]:
        assert self.node is not None
        return self.node.arguments

    @property
    def texts(self) -> dict[str, str]:
        """Returns the arguments of the MPI_Sendrecv as source text, by name."""
        return self.call.sendrecv_arguments

    @property
    def sent(self) -> MessageSide:
        return self.call.messages[0]

    @property
    def received(self) -> MessageSide:
        return self.call.messages[1]

    @property
    def buffers(self) -> Iterator[_Buffer]:
        """Yields the send buffer and the receive buffer."""
        accesses = (access for access in self.call.accesses if access.is_message)
        arguments = (self.arguments[0], self.arguments[5])
        for argument, access, message in zip(arguments, accesses, self.call.messages, strict=True):
            yield _Buffer(argument, access, message)

    def may_have_two_tags(self) -> bool:
        """Returns whether it may send with another tag than it receives with."""
        tags = [self.arguments[place].constant_value for place in _TAG_ARGUMENTS_BY_CALL["MPI_Sendrecv"]]
        return self.texts["sendtag"] != self.texts["recvtag"] and (tags[0] is None or tags[0] != tags[1])

    def has_unknown_length(self) -> bool:
        """Returns whether it is unknown how many elements are sent or received, or the elements differ in length."""
        is_unknown = None in (self.sent.count, self.received.count) or self.sent.element_bytes == 0
        return is_unknown or self.sent.element_bytes != self.received.element_bytes


_EXCHANGE_REFUSALS: Refusals[_Exchange] = (
    (lambda it: not it.texts, "only an MPI_Sendrecv by itself is cut, of which both sides are in one call"),
    (lambda it: it.node is None, "the call is not found again"),
    (
        lambda it: it.texts["status"] != "MPI_STATUS_IGNORE",
        "the status of its message is kept, which pieces would not have",
    ),
    (
        lambda it: "MPI_ANY_SOURCE" in it.texts["source"],
        "it receives from any source, and pieces of several messages would mix",
    ),
    (_Exchange.may_have_two_tags, "it sends with tag {0.texts[sendtag]} and receives with tag {0.texts[recvtag]}"),
    (_Exchange.has_unknown_length, "it is not known that it sends as many elements as it receives"),
    (
        lambda it: it.sent.count != it.received.count,
        "it sends {0.texts[sendcount]} elements and receives {0.texts[recvcount]}, "
        "so that ranks would cut them otherwise",
    ),
    (lambda it: any(map(_has_side_effects, it.arguments)), "its arguments call or change something"),
    (lambda it: it.chunk_bytes < it.sent.element_bytes, "an element is longer than a piece"),
)


@dataclass(frozen=True)
class _Buffer:
    """A buffer of an MPI_Sendrecv: its argument, the access to it, and the message."""

    argument: SyntaxNode
    access: Access
    message: MessageSide

    def is_row(self) -> bool:
        """Returns whether the message is consecutive elements of the buffer's array, all in one row."""
        access = self.access
        is_loop = len(access.loops) == 1 and access.loops[0].upper_bounds == (self.message.count,)
        is_known = bool(access.indices) and access.indices[-1] is not None and not access.unknown_index_reason
        return is_loop and is_known  # the loop over the elements of a message of bytes has another bound than its count


_BUFFER_REFUSALS: Refusals[_Buffer] = (
    (lambda it: not it.is_row(), "its message is not one row of elements of {0.access.base.text}"),
    (
        lambda it: written_pointee_type(it.argument) != it.access.base.element_type,
        "the buffer {0.access.base.text} is not written as a pointer to its elements",
    ),
)


def _has_side_effects(argument: SyntaxNode) -> bool:
    """Returns whether an argument calls a function or has a side effect."""
    return any(
        one.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS)
        or (one.kind == Kind.CALL_EXPR and one.name not in _CONTAINER_ACCESSORS)
        for one in argument.walk()
    )


def _chunk_access(access: Access, chunking: Chunking, symbols: dict[str, Symbol]) -> Access:
    """Returns the memory access of one message chunk, clipped at the end of the message."""
    (element_loop,), (*row, first_element) = access.loops, access.indices
    assert first_element is not None
    element, chunk_start = (Polynomial.from_symbol(one.iterator.key) for one in (element_loop, chunking.loop))
    symbols.setdefault(element_loop.iterator.key, element_loop.iterator)
    is_within_message = Condition(chunking.count - chunk_start - element - ONE)
    loops = (replace(element_loop, upper_bounds=(Polynomial.from_constant(chunking.chunk_elements),)),)
    return replace(access, loops=loops, indices=(*row, first_element + chunk_start), conditions=(is_within_message,))


def variables_in_guard(model: PolyhedralModel, guard: isl.Set) -> list[str]:
    """Returns the variables in the guard of a new order. If they differ between ranks, some ranks would split messages
    and others not."""
    shown = guard.gist(model.parameter_context)
    names: dict[str, None] = {}
    for keys, name in model.names.parameters.items():
        place = shown.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0 and shown.involves_dims(isl.dim_type.param, place, 1):
            names.update(
                (one.text, None) for one in expand_sum_symbols(keys, model.region.symbols) if one.constant_value is None
            )
    return list(names)


def expand_sum_symbols(keys: Collection[str], symbols: Mapping[str, Symbol]) -> list[Symbol]:
    """Returns the symbols of some keys, with a symbol for a sum replaced by the symbols in the sum."""
    expanded_symbols: list[Symbol] = []
    for key in keys:
        meaning = symbols[key].equivalent_polynomial
        expanded_symbols += expand_sum_symbols(sorted(meaning.keys), symbols) if meaning is not None else [symbols[key]]
    return expanded_symbols


def format_uniform_assumption(names: Collection[str]) -> str:
    """Returns the assumption that some names have the same value on all ranks, as a sentence; '' if there are none."""
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return f"{' and '.join(names)} {have} the same value on all ranks, which all execute this exchange"


def written_pointee_type(node: SyntaxNode) -> str:
    """Returns the pointee type of a buffer argument as in the source, before its conversion to void *."""
    while node.kind == Kind.UNEXPOSED_EXPR and len(node.children) == 1:
        node = node.children[0]
    type_ = node.type
    if type_.kind in ARRAY_TYPES:
        type_ = type_.get_array_element_type()
    elif type_.kind == TypeKind.POINTER:
        type_ = type_.get_pointee()
    return str(type_.get_canonical().spelling).removeprefix("const ")
