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

from nearfield.rewrite.analysis.datatypes import element_size_of as element_bytes
from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Poly, Symbol
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
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS
from nearfield.rewrite.model.chunk_sizes import ChunkSizes
from nearfield.rewrite.model.polyhedral import Model

_POINT_TO_POINT = re.compile(r"P?MPI_\w*([Ss]end|[Rr]ecv|[Pp]robe)")
_TAGS = {
    "MPI_Sendrecv": (4, 9), "MPI_Isendrecv": (4, 9), "MPI_Sendrecv_replace": (4, 6), "MPI_Isendrecv_replace": (4, 6),
    "MPI_Probe": (1,), "MPI_Iprobe": (1,),
}  # fmt: skip
_TAG_IS_FIFTH = re.compile(r"MPI_(I?[srb]?send|[SRB]?[Ss]end(_init)?|I?recv|Recv(_init)?)")
_READS = ("operator[]", "data", "size", "begin")  # methods of C++ containers without side effects


@dataclass
class MessageChunker:
    """Splits the messages of the exchanges in a file's regions into chunks. `uniform` are names which, as the user
    asserts, have the same value on all ranks, all of which execute the exchange."""

    unit: TranslationUnit
    functions: ProgramFunctions
    pieces: ChunkSizes
    uniform: Collection[str]

    def chunk_region(self, region: Region, at: str) -> tuple[Region, list[str]]:
        """Returns the region with its exchanges split into chunks, and the names that must be assumed uniform across
        ranks. `at` is the name of the variable for the first element of a chunk. Raises NotMovable if no exchange can
        be split."""
        symbols = dict(region.symbols)
        chunked: dict[int, CommunicationStatement] = {}
        why: NotMovable | None = None
        for number, item in enumerate(region.items):
            if isinstance(item, CommunicationStatement) and item.messages:
                try:
                    chunked[number] = self._chunk_call(item, symbols, at)
                except NotMovable as barrier:
                    why = why or barrier
        if not chunked:
            raise why or NotMovable("no message is exchanged", region.line)
        for call in chunked.values():
            self._check_matching_calls(call, list(chunked.values()))
        items = [chunked.get(number, item) for number, item in enumerate(region.items)]
        names = list(dict.fromkeys(name for call in chunked.values() for name in self._names_to_assume(call, symbols)))
        return replace(region, items=items, symbols=symbols), names

    # ---- splitting one exchange

    def _chunk_call(self, call: CommunicationStatement, symbols: dict[str, Symbol], at: str) -> CommunicationStatement:
        """Returns an MPI_Sendrecv split into chunks. Raises NotMovable with the reason if it cannot be split."""
        line = call.line
        if not call.exchange:
            raise NotMovable("only an MPI_Sendrecv by itself is cut, of which both sides are in one call", line)
        node = self._syntax_node_of(call)
        arguments = node.arguments
        for is_met, reason in self._conditions_for_chunking(call, arguments):
            if not is_met:
                raise NotMovable(reason, line)
        sent = call.messages[0]
        assert sent.count is not None
        elements = self.pieces.piece_bytes // sent.element_bytes
        symbol = Symbol(f"piece#{call.start}", at, iterator=True)
        symbols[symbol.key] = symbol
        loop = Loop(symbol, (ZERO,), (sent.count,), elements, "long", line=line)
        chunk = Chunking(loop, sent.count, self.pieces.threshold_bytes // sent.element_bytes)
        accesses = [self._chunk_access(access, call, chunk, symbols) for access in call.accesses]
        for argument, access in zip((arguments[0], arguments[5]), (a for a in accesses if a.message), strict=True):
            if pointee_type_as_written(argument) != access.base.element:
                raise NotMovable(f"the buffer {access.base.text} is not written as a pointer to its elements", line)
        return replace(call, accesses=accesses, chunking=chunk)

    def _conditions_for_chunking(
        self, call: CommunicationStatement, arguments: Sequence[Node]
    ) -> Iterator[tuple[bool, str]]:
        """Yields the conditions under which an exchange can be split, each with whether it holds and the reason for a
        refusal. A condition may presuppose those before it."""
        words, tags = call.exchange, [arguments[place].value for place in _TAGS["MPI_Sendrecv"]]
        yield words["status"] == "MPI_STATUS_IGNORE", "the status of its message is kept, which pieces would not have"
        any_source = "it receives from any source, and pieces of several messages would mix"
        yield "MPI_ANY_SOURCE" not in words["source"], any_source
        same_tag = words["sendtag"] == words["recvtag"] or tags[0] is not None and tags[0] == tags[1]
        yield same_tag, f"it sends with tag {words['sendtag']} and receives with tag {words['recvtag']}"
        yield len(call.messages) == 2, "its messages are not known"
        sent, received = call.messages
        known = None not in (sent.count, received.count) and sent.element_bytes == received.element_bytes
        yield known, "it is not known that it sends as many elements as it receives"
        counts = f"it sends {words['sendcount']} elements and receives {words['recvcount']}"
        yield sent.count == received.count, f"{counts}, so that ranks would cut them otherwise"
        yield not any(map(self._has_side_effects, arguments)), "its arguments call or change something"
        yield self.pieces.piece_bytes >= sent.element_bytes, "an element is longer than a piece"

    def _syntax_node_of(self, call: CommunicationStatement) -> Node:
        """Returns the syntax node of an MPI_Sendrecv."""
        for node in self.unit.functions:
            for one in self.functions.function_of(node).calls:
                if one.offset == call.start and one.name.endswith("MPI_Sendrecv"):
                    return one
        raise NotMovable("the call is not found again", call.line)

    @staticmethod
    def _has_side_effects(argument: Node) -> bool:
        """Returns whether an argument calls a function or has a side effect."""
        return any(
            one.operator in (*ASSIGNMENTS, *INCREMENTS) or (one.kind == Kind.CALL_EXPR and one.name not in _READS)
            for one in argument.walk()
        )

    @staticmethod
    def _chunk_access(
        access: Access, call: CommunicationStatement, chunk: Chunking, symbols: dict[str, Symbol]
    ) -> Access:
        """Returns the memory access of one message chunk, clipped at the end of the message."""
        if not access.message:
            return access
        message = next(one for one in call.messages if one.send != access.write)
        last = access.index[-1] if access.index else None
        whole = len(access.loops) == 1 and access.loops[0].upper == (chunk.count,) and last is not None
        if not whole or access.note or element_bytes(access.base.element) != message.element_bytes or last is None:
            raise NotMovable(f"its message is not one row of elements of {access.base.text}", call.line)
        inner, at = access.loops[0], Poly.from_symbol(chunk.loop.iterator.key)
        symbols.setdefault(inner.iterator.key, inner.iterator)
        within = Condition(chunk.count - at - Poly.from_symbol(inner.iterator.key) - ONE)
        loops = (replace(inner, upper=(Poly.from_constant(chunk.chunk_elements),)),)
        return replace(access, loops=loops, index=(*access.index[:-1], last + at), conditions=(within,))

    # ---- calls that may match the messages of an exchange

    def _check_matching_calls(self, call: CommunicationStatement, chunked: Collection[CommunicationStatement]) -> None:
        """Raises NotMovable unless every call of the file that may match a message of this exchange is split in the
        same way."""
        chunk = call.chunking
        assert chunk
        tag = self._syntax_node_of(call).arguments[4].value
        for other in self._point_to_point_calls():
            mine = next((one for one in chunked if one.start == other.offset), None)
            if mine is None and self._may_match(other, tag):
                raise NotMovable(f"{other.name} in line {other.line} may be the other side of its messages", call.line)
            if (
                mine is not None
                and mine.chunking
                and mine.chunking.count != chunk.count
                and self._may_match(other, tag)
            ):
                reason = (
                    f"{other.name} in line {other.line} has another count, and may be the other side of its messages"
                )
                raise NotMovable(reason, call.line)

    def _point_to_point_calls(self) -> Iterator[Node]:
        """Yields all point-to-point calls and probes in the file."""
        for node in self.unit.functions:
            for call in self.functions.function_of(node).calls:
                if _POINT_TO_POINT.match(call.name):
                    yield call

    @staticmethod
    def _may_match(call: Node, tag: int | None) -> bool:
        """Returns whether a call may send or receive a message with this tag (None: any tag)."""
        arguments = call.arguments
        name = call.name.removeprefix("P")
        places = (4,) if _TAG_IS_FIFTH.fullmatch(name) else _TAGS.get(name, ())
        tags = [arguments[place].value for place in places] or [None]  # None: any tag, if its position is unknown
        return tag is None or any(one is None or one == tag or one < 0 for one in tags)  # a negative tag is a wildcard

    def _names_to_assume(self, call: CommunicationStatement, symbols: dict[str, Symbol]) -> list[str]:
        """Returns the names that must be assumed uniform across ranks, all of which execute the exchange. Raises
        NotMovable, with the names, if the user did not assert that."""
        assert call.chunking
        counted = expand_sums(sorted(call.chunking.count.keys), symbols)
        differing = [one.text for one in counted if one.value is None]
        if differing:
            reason = f"{' and '.join(differing)} may differ between ranks, which would cut into different pieces"
        elif not self.functions.is_whole_program:
            differing = [one.text for one in counted] or [call.exchange["sendcount"]]
            reason = "other files may have the other side of its messages"
        if missing := [name for name in differing if name not in self.uniform]:
            raise NotMovable(reason, call.line, ",".join(missing))
        return differing


def variables_in_guard(model: Model, guard: isl.Set) -> list[str]:
    """Returns the variables in the guard of a new order. If they differ between ranks, some ranks would split messages
    and others not."""
    shown = guard.gist(model.context)
    found: dict[str, None] = {}
    for keys, name in model.names.parameters.items():
        place = shown.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0 and shown.involves_dims(isl.dim_type.param, place, 1):
            found.update((one.text, None) for one in expand_sums(keys, model.region.symbols) if one.value is None)
    return list(found)


def expand_sums(keys: Collection[str], symbols: Mapping[str, Symbol]) -> list[Symbol]:
    """Returns the symbols of some keys, with a symbol for a sum replaced by the symbols in the sum."""
    found: list[Symbol] = []
    for key in keys:
        meaning = symbols[key].meaning
        found += expand_sums(sorted(meaning.keys), symbols) if meaning is not None else [symbols[key]]
    return found


def assumption_text(names: Collection[str]) -> str:
    """Returns the assumption that some names have the same value on all ranks, as a sentence; '' if there are none."""
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return f"{' and '.join(names)} {have} the same value on all ranks, which all execute this exchange"


def pointee_type_as_written(node: Node) -> str:
    """Returns the pointee type of a buffer argument as in the source, before its conversion to void *."""
    while node.kind == Kind.UNEXPOSED_EXPR and len(node.children) == 1:
        node = node.children[0]
    type_ = node.type
    if type_.kind in ARRAYS:
        type_ = type_.get_array_element_type()
    elif type_.kind == TypeKind.POINTER:
        type_ = type_.get_pointee()
    return str(type_.get_canonical().spelling).removeprefix("const ")
