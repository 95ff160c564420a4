"""Decides which exchanges all ranks would cut into the same pieces.

Pieces match only if the sender and the receiver of a message cut it alike. So only an MPI_Sendrecv is cut, which is
both sides of an exchange; it must send as many elements as it receives, under one tag; their number must be the same
on all ranks; and no other call of the program may be the other side of its messages, unless that is cut in the same
way. What a file does not say (values on other ranks, calls in other files) is refused, or taken from
--assume-uniform."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.clang import Kind, Node, TypeKind, Unit
from nearfield.rewrite.conversions import ARRAYS
from nearfield.rewrite.datatypes import bytes_of as element_bytes
from nearfield.rewrite.elsewhere import Functions
from nearfield.rewrite.model import Model
from nearfield.rewrite.pieces import Pieces
from nearfield.rewrite.polynomials import ONE, ZERO, Poly, Symbol
from nearfield.rewrite.program import Access, Barrier, Call, Condition, Loop, Piece, Region

_POINT_TO_POINT = re.compile(r"P?MPI_\w*([Ss]end|[Rr]ecv|[Pp]robe)")
_TAGS = {
    "MPI_Sendrecv": (4, 9), "MPI_Isendrecv": (4, 9), "MPI_Sendrecv_replace": (4, 6), "MPI_Isendrecv_replace": (4, 6),
    "MPI_Probe": (1,), "MPI_Iprobe": (1,),
}  # fmt: skip
_TAG_IS_FIFTH = re.compile(r"MPI_(I?[srb]?send|[SRB]?[Ss]end(_init)?|I?recv|Recv(_init)?)")
_CHANGES = ("=", "++", "--", "post++", "post--", "+=", "-=", "*=", "/=")
_READS = ("operator[]", "data", "size", "begin")  # calls that change nothing


@dataclass
class Cutting:
    """Cuts the exchanges of one file's regions. `alike` are the names of which the user says that they have the same
    value on all ranks, which all execute the exchange."""

    unit: Unit
    functions: Functions
    pieces: Pieces
    alike: Collection[str]

    def region(self, region: Region, at: str) -> tuple[Region, list[str]]:
        """Returns the region with its exchanges cut, and of what it has to be assumed that it is the same on all ranks.
        `at` is a name for the first element of a piece. Raises Barrier if no exchange can be cut."""
        symbols = dict(region.symbols)
        cut: dict[int, Call] = {}
        why: Barrier | None = None
        for number, item in enumerate(region.items):
            if isinstance(item, Call) and item.messages:
                try:
                    cut[number] = self._cut(item, symbols, at)
                except Barrier as barrier:
                    why = why or barrier
        if not cut:
            raise why or Barrier("no message is exchanged", region.line)
        for call in cut.values():
            self._both_sides(call, list(cut.values()))
        items = [cut.get(number, item) for number, item in enumerate(region.items)]
        names = list(dict.fromkeys(name for call in cut.values() for name in self._to_assume(call, symbols)))
        return replace(region, items=items, symbols=symbols), names

    # ---- one exchange

    def _cut(self, call: Call, symbols: dict[str, Symbol], at: str) -> Call:
        words, line = call.exchange, call.line
        if not words:
            raise Barrier("only an MPI_Sendrecv by itself is cut, of which both sides are in one call", line)
        node = self._node(call)
        if words["status"] != "MPI_STATUS_IGNORE":
            raise Barrier("the status of its message is kept, which pieces would not have", line)
        if "MPI_ANY_SOURCE" in words["source"]:
            raise Barrier("it receives from any source, and pieces of several messages would mix", line)
        arguments = [Node(argument, node.unit) for argument in node.cursor.get_arguments()]
        tags = [arguments[place].value for place in _TAGS["MPI_Sendrecv"]]
        if words["sendtag"] != words["recvtag"] and (tags[0] is None or tags[0] != tags[1]):
            raise Barrier(f"it sends with tag {words['sendtag']} and receives with tag {words['recvtag']}", line)
        if len(call.messages) != 2:
            raise Barrier("its messages are not known", line)
        sent, received = call.messages
        if sent.count is None or received.count is None or sent.element_bytes != received.element_bytes:
            raise Barrier("it is not known that it sends as many elements as it receives", line)
        if sent.count != received.count:
            much, little = words["sendcount"], words["recvcount"]
            raise Barrier(
                f"it sends {much} elements and receives {little}, so that ranks would cut them otherwise", line
            )
        if any(self._changes(argument) for argument in arguments):
            raise Barrier("its arguments call or change something", line)
        elements = self.pieces.piece_bytes // sent.element_bytes
        if elements < 1:
            raise Barrier("an element is longer than a piece", line)
        symbol = Symbol(f"piece#{call.start}", at, iterator=True)
        symbols[symbol.key] = symbol
        loop = Loop(symbol, (ZERO,), (sent.count,), elements, "long", line=line)
        piece = Piece(loop, sent.count, self.pieces.least_bytes // sent.element_bytes)
        accesses = [self._of_piece(access, call, piece, symbols) for access in call.accesses]
        for argument, access in zip((arguments[0], arguments[5]), (a for a in accesses if a.message), strict=True):
            if pointee(argument) != access.base.element:
                raise Barrier(f"the buffer {access.base.text} is not written as a pointer to its elements", line)
        return replace(call, accesses=accesses, piece=piece)

    def _node(self, call: Call) -> Node:
        for node in self.unit.functions:
            for one in self.functions.of(node).calls:
                if one.offset == call.start and one.name.endswith("MPI_Sendrecv"):
                    return one
        raise Barrier("the call is not found again", call.line)

    @staticmethod
    def _changes(argument: Node) -> bool:
        return any(
            one.operator in _CHANGES or (one.kind == Kind.CALL_EXPR and one.name not in _READS)
            for one in argument.walk()
        )

    @staticmethod
    def _of_piece(access: Access, call: Call, piece: Piece, symbols: dict[str, Symbol]) -> Access:
        """Returns the access of one piece: of its elements, up to the end of the message."""
        if not access.message:
            return access
        message = next(one for one in call.messages if one.send != access.write)
        last = access.index[-1] if access.index else None
        whole = len(access.loops) == 1 and access.loops[0].upper == (piece.count,) and last is not None
        if not whole or access.note or element_bytes(access.base.element) != message.element_bytes or last is None:
            raise Barrier(f"its message is not one row of elements of {access.base.text}", call.line)
        inner, at = access.loops[0], Poly.of(piece.loop.iterator.key)
        symbols.setdefault(inner.iterator.key, inner.iterator)
        within = Condition(piece.count - at - Poly.of(inner.iterator.key) - ONE)
        loops = (replace(inner, upper=(Poly.number(piece.elements),)),)
        return replace(access, loops=loops, index=(*access.index[:-1], last + at), conditions=(within,))

    # ---- the other side

    def _both_sides(self, call: Call, cut: Collection[Call]) -> None:
        """Raises Barrier unless each message of the call is one of a call that is cut alike."""
        piece = call.piece
        assert piece
        tag = Node(list(self._node(call).cursor.get_arguments())[4], self.unit).value
        for other in self._point_to_point():
            mine = next((one for one in cut if one.start == other.offset), None)
            if mine is None and self._may_match(other, tag):
                raise Barrier(f"{other.name} in line {other.line} may be the other side of its messages", call.line)
            if mine is not None and mine.piece and mine.piece.count != piece.count and self._may_match(other, tag):
                reason = (
                    f"{other.name} in line {other.line} has another count, and may be the other side of its messages"
                )
                raise Barrier(reason, call.line)

    def _point_to_point(self) -> Iterator[Node]:
        for node in self.unit.functions:
            for call in self.functions.of(node).calls:
                if _POINT_TO_POINT.match(call.name):
                    yield call

    @staticmethod
    def _may_match(call: Node, tag: int | None) -> bool:
        arguments = [Node(argument, call.unit) for argument in call.cursor.get_arguments()]
        name = call.name.removeprefix("P")
        places = (4,) if _TAG_IS_FIFTH.fullmatch(name) else _TAGS.get(name, ())
        tags = [arguments[place].value for place in places] or [None]  # any, if it is not known where the tag is
        return tag is None or any(one is None or one == tag or one < 0 for one in tags)  # a wildcard is negative

    def _to_assume(self, call: Call, symbols: dict[str, Symbol]) -> list[str]:
        """Returns the names of which it must be assumed that they have the same value on all ranks, and that all ranks
        execute the call. Raises Barrier, with these names, if the user did not say so."""
        assert call.piece
        counted = variables(sorted(call.piece.count.keys), symbols)
        differing = [one.text for one in counted if one.value is None]
        if differing:
            reason = f"{' and '.join(differing)} may differ between ranks, which would cut into different pieces"
        elif not self._is_whole_program():
            differing = [one.text for one in counted] or [call.exchange["sendcount"]]
            reason = "other files may have the other side of its messages"
        if missing := [name for name in differing if name not in self.alike]:
            raise Barrier(reason, call.line, ",".join(missing))
        return differing

    def _is_whole_program(self) -> bool:
        """Returns whether the file has all of the program that may communicate."""
        if not any(node.name == "main" for node in self.unit.functions):
            return False
        for node in self.unit.functions:
            for call in self.functions.of(node).calls:
                callee = call.callee()
                if callee is None:
                    return False
                known = callee.cursor.location.is_in_system_header or "MPI_" in call.name or call.name in _READS
                inner = self.functions.definition(call)
                if not known and (inner is None or inner.node.unit.foreign):
                    return False
        return True


def deciding(model: Model, guard: isl.Set) -> list[str]:
    """Returns the variables on which a guard depends: if they differ between ranks, some would cut and some not."""
    shown = guard.gist(model.context)
    found: dict[str, None] = {}
    for keys, name in model.names.parameters.items():
        place = shown.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0 and shown.involves_dims(isl.dim_type.param, place, 1):
            found.update((one.text, None) for one in variables(keys, model.region.symbols) if one.value is None)
    return list(found)


def variables(keys: Collection[str], symbols: Mapping[str, Symbol]) -> list[Symbol]:
    """Returns the symbols, for those that stand for a sum the ones of which it is made."""
    found: list[Symbol] = []
    for key in keys:
        meaning = symbols[key].meaning
        found += variables(sorted(meaning.keys), symbols) if meaning is not None else [symbols[key]]
    return found


def sentence(names: Collection[str]) -> str:
    """Returns the assumption in words; '' if there is none."""
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return f"{' and '.join(names)} {have} the same value on all ranks, which all execute this exchange"


def pointee(node: Node) -> str:
    """Returns the type to which an argument points as it is written, before it becomes what MPI takes."""
    while node.kind == Kind.UNEXPOSED_EXPR and len(node.children) == 1:
        node = node.children[0]
    type_ = node.type
    if type_.kind in ARRAYS:
        type_ = type_.get_array_element_type()
    elif type_.kind == TypeKind.POINTER:
        type_ = type_.get_pointee()
    return str(type_.get_canonical().spelling).removeprefix("const ")
