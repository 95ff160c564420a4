"""Decides which MPI exchanges can be split into the same chunks on all ranks.

Chunks match only if sender and receiver split a message equally. So only MPI_Sendrecv is split, since one call has both
sides. It must send as many elements as it receives, under one tag; the count must be the same on all ranks; and no
other call of the program may match its messages, unless that call is split in the same way. What a file does not show
(values on other ranks, calls in other files) is rejected, or asserted by the user with --assume-uniform."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.analysis.datatypes import bytes_of_element_type
from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Polynomial, Symbol
from nearfield.rewrite.analysis.program import (
    Access,
    Chunking,
    CommunicationStatement,
    Condition,
    Loop,
    NotMovable,
    Region,
)
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

    # ---- splitting one exchange

    def _chunk_call(
        self, call: CommunicationStatement, symbols: dict[str, Symbol], iterator_name: str
    ) -> CommunicationStatement:
        """Returns an MPI_Sendrecv split into chunks. Raises NotMovable with the reason if it cannot be split."""
        line = call.line
        if not call.sendrecv_arguments:
            raise NotMovable("only an MPI_Sendrecv by itself is cut, of which both sides are in one call", line)
        node = self._syntax_node_of(call)
        arguments = node.arguments
        for is_met, reason in self._conditions_for_chunking(call, arguments):
            if not is_met:
                raise NotMovable(reason, line)
        sent = call.messages[0]
        assert sent.count is not None
        chunk_elements = self.chunk_sizes.chunk_bytes // sent.element_bytes
        iterator = Symbol(f"piece#{call.start}", iterator_name, is_iterator=True)
        symbols[iterator.key] = iterator
        loop = Loop(iterator, (ZERO,), (sent.count,), chunk_elements, "long", line=line)
        chunking = Chunking(loop, sent.count, self.chunk_sizes.threshold_bytes // sent.element_bytes)
        accesses = [self._chunk_access(access, call, chunking, symbols) for access in call.accesses]
        for argument, access in zip((arguments[0], arguments[5]), (a for a in accesses if a.is_message), strict=True):
            if written_pointee_type(argument) != access.base.element_type:
                raise NotMovable(f"the buffer {access.base.text} is not written as a pointer to its elements", line)
        return replace(call, accesses=accesses, chunking=chunking)

    def _conditions_for_chunking(
        self, call: CommunicationStatement, arguments: Sequence[SyntaxNode]
    ) -> Iterator[tuple[bool, str]]:
        """Yields the conditions under which an exchange can be split, each with whether it holds and the reason for a
        refusal. A condition may presuppose those before it."""
        argument_texts, tags = (
            call.sendrecv_arguments,
            [arguments[place].constant_value for place in _TAG_ARGUMENTS_BY_CALL["MPI_Sendrecv"]],
        )
        yield (
            argument_texts["status"] == "MPI_STATUS_IGNORE",
            "the status of its message is kept, which pieces would not have",
        )
        any_source = "it receives from any source, and pieces of several messages would mix"
        yield "MPI_ANY_SOURCE" not in argument_texts["source"], any_source
        has_same_tag = (
            argument_texts["sendtag"] == argument_texts["recvtag"] or tags[0] is not None and tags[0] == tags[1]
        )
        yield (
            has_same_tag,
            f"it sends with tag {argument_texts['sendtag']} and receives with tag {argument_texts['recvtag']}",
        )
        yield len(call.messages) == 2, "its messages are not known"
        sent, received = call.messages
        has_known_counts = None not in (sent.count, received.count) and sent.element_bytes == received.element_bytes
        yield has_known_counts, "it is not known that it sends as many elements as it receives"
        counts_text = f"it sends {argument_texts['sendcount']} elements and receives {argument_texts['recvcount']}"
        yield sent.count == received.count, f"{counts_text}, so that ranks would cut them otherwise"
        yield not any(map(self._has_side_effects, arguments)), "its arguments call or change something"
        yield self.chunk_sizes.chunk_bytes >= sent.element_bytes, "an element is longer than a piece"

    def _syntax_node_of(self, call: CommunicationStatement) -> SyntaxNode:
        """Returns the syntax node of an MPI_Sendrecv."""
        for node in self.unit.functions:
            for one in self.functions.function_of(node).calls:
                if one.offset == call.start and one.name.endswith("MPI_Sendrecv"):
                    return one
        raise NotMovable("the call is not found again", call.line)

    @staticmethod
    def _has_side_effects(argument: SyntaxNode) -> bool:
        """Returns whether an argument calls a function or has a side effect."""
        return any(
            one.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS)
            or (one.kind == Kind.CALL_EXPR and one.name not in _CONTAINER_ACCESSORS)
            for one in argument.walk()
        )

    @staticmethod
    def _chunk_access(
        access: Access, call: CommunicationStatement, chunking: Chunking, symbols: dict[str, Symbol]
    ) -> Access:
        """Returns the memory access of one message chunk, clipped at the end of the message."""
        if not access.is_message:
            return access
        message = next(one for one in call.messages if one.is_send != access.is_write)
        last = access.indices[-1] if access.indices else None
        is_whole_row = len(access.loops) == 1 and access.loops[0].upper_bounds == (chunking.count,) and last is not None
        if (
            not is_whole_row
            or access.unknown_index_reason
            or bytes_of_element_type(access.base.element_type) != message.element_bytes
            or last is None
        ):
            raise NotMovable(f"its message is not one row of elements of {access.base.text}", call.line)
        element_loop, chunk_start = access.loops[0], Polynomial.from_symbol(chunking.loop.iterator.key)
        symbols.setdefault(element_loop.iterator.key, element_loop.iterator)
        is_within_message = Condition(
            chunking.count - chunk_start - Polynomial.from_symbol(element_loop.iterator.key) - ONE
        )
        loops = (replace(element_loop, upper_bounds=(Polynomial.from_constant(chunking.chunk_elements),)),)
        return replace(
            access, loops=loops, indices=(*access.indices[:-1], last + chunk_start), conditions=(is_within_message,)
        )

    # ---- calls that may match the messages of an exchange

    def _check_matching_calls(
        self, call: CommunicationStatement, chunked_calls: Collection[CommunicationStatement]
    ) -> None:
        """Raises NotMovable unless every call of the file that may match a message of this exchange is split in the
        same way."""
        chunking = call.chunking
        assert chunking
        tag = self._syntax_node_of(call).arguments[4].constant_value
        for other in self._point_to_point_calls():
            chunked_call = next((one for one in chunked_calls if one.start == other.offset), None)
            if chunked_call is None and self._may_match(other, tag):
                raise NotMovable(f"{other.name} in line {other.line} may be the other side of its messages", call.line)
            if (
                chunked_call is not None
                and chunked_call.chunking
                and chunked_call.chunking.count != chunking.count
                and self._may_match(other, tag)
            ):
                reason = (
                    f"{other.name} in line {other.line} has another count, and may be the other side of its messages"
                )
                raise NotMovable(reason, call.line)

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
