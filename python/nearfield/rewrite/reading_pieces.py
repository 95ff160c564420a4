"""Reads the pieces of cut messages in new code: loops that count them, how long each is, and the calls for one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import islpy as isl

from nearfield.rewrite.clang import Kind, Node
from nearfield.rewrite.communication import split_arguments
from nearfield.rewrite.copies import Copy, Invalid
from nearfield.rewrite.counting import bounds_of, counted_loop, iterator_key
from nearfield.rewrite.cutting import pointee
from nearfield.rewrite.expressions import NotAffine
from nearfield.rewrite.parts import Event
from nearfield.rewrite.pieces import Written, added
from nearfield.rewrite.polynomials import Poly
from nearfield.rewrite.program import Call
from nearfield.rewrite.reading import Reading

_SENT = ("sendbuf", "sendcount", "sendtype", "dest", "sendtag")
_RECEIVED = ("recvbuf", "recvcount", "recvtype", "source", "recvtag")


class CutCalls:
    """Reads what stands for calls whose messages are cut."""

    def __init__(self, reading: Reading) -> None:
        self._read = reading
        self._received = ""  # the array of requests of the receive that was begun last
        self._length = 0  # the variable that has the length of a piece
        self._of_strips = -1  # the call whose pieces are counted
        self._begun: dict[str, int] = {}  # calls whose pieces have been begun, by their array of requests

    def declares(self, node: Node, copy: Copy) -> bool:
        """Returns whether a declaration in a loop over pieces is that of a piece's length; raises Invalid if not."""
        variable, loop = node.children[0], copy.strips
        assert loop is not None
        try:
            bounds = bounds_of(variable.children[-1], self._read.reader, "<")
        except NotAffine as why:
            raise Invalid("the length of a piece is not understood") from why
        at, elements = Poly.of(loop.iterator.key), Poly.number(loop.step)
        if set(bounds) != {loop.upper[0] - at, elements} or not self._read.text(node).startswith("const int "):
            raise Invalid("the length of a piece is another one")
        self._length = variable.key
        return True

    def counted_by(self, node: Node) -> tuple[int, Call] | None:
        """Returns the call whose pieces a loop counts, with its number; None if it counts none."""
        for number, call in self._read.model.cut:
            if call.piece and re.match(rf"for \(long {call.piece.at} = ", self._read.text(node)):
                following = next((one.call for one in self._read.expected if isinstance(one, Event)), None)
                if number == following:
                    return number, call
        return None

    @contextmanager
    def loop(self, node: Node, number: int, call: Call, copy: Copy) -> Iterator[Copy]:
        """Provides where the statements of a loop over the pieces of a call's messages stand; it must count exactly
        these."""
        reader, guard, names = self._read.reader, self._read.guard, self._read.names
        piece, loop = call.piece, counted_loop(node, reader)
        if not copy.is_alone or copy.strips or isinstance(loop, str) or piece is None:
            raise Invalid("a loop over pieces is not understood")
        domain, same = self._read.model.domains[number][0], loop.step == piece.elements and not loop.down
        name = f"c_{loop.iterator.text}"
        counted = isl.Set(f"{names.head()}{{ {domain.get_tuple_name()}[{name}] : {names.counts(loop)} }}")
        if not same or not counted.intersect_params(guard).is_equal(domain.intersect_params(guard)):
            raise Invalid("a loop does not count the pieces of a message")
        key = iterator_key(node)
        reader.bound[key] = Poly.of(loop.iterator.key)
        self._length, self._of_strips = 0, number
        yield replace(copy, strips=loop, time=(*copy.time, name))
        del reader.bound[key]

    def is_piece(self, node: Node, event: Event, call: Call, copy: Copy) -> bool:
        """Takes a piece of a call, or half of it: its buffers, moved by the piece's first element, and its length; all
        else as it was."""
        if not call.piece or not copy.strips or self._of_strips != event.call or node.bare.kind != Kind.CALL_EXPR:
            return False
        arguments, name = split_arguments(node.bare), node.bare.name
        if event.begins and event.completes:
            wanted = ("MPI_Sendrecv", *_SENT, *_RECEIVED, "comm", "status")
            return self._is_moved(node.bare, call, wanted) and self._read.take(replace(copy, piece=event))
        array = self._requests_of(call, arguments[-2] if name == "MPI_Waitall" else arguments[-1])
        requests = [Written(call.piece, call.exchange, array).request(which) for which in (0, 1)]
        if event.begins and name == "MPI_Irecv" and not self._received:
            same = self._is_moved(node.bare, call, (name, *_RECEIVED, "comm")) and arguments[6] == requests[0]
            self._received = array if same else ""
            return same
        if event.begins and name == "MPI_Isend" and self._received == array:
            same = self._is_moved(node.bare, call, (name, *_SENT, "comm")) and arguments[6] == requests[1]
            self._received = ""
            self._begun[array] = event.call
            return same and self._read.take(replace(copy, piece=event))
        if not event.begins and name == "MPI_Waitall" and self._begun.get(array) == event.call:
            complete = arguments == ["2", requests[0], "MPI_STATUSES_IGNORE"]
            return complete and self._read.take(replace(copy, piece=event))
        return False

    def _requests_of(self, call: Call, text: str) -> str:
        """Returns the array of requests that an argument names, which no other call may use."""
        match = re.match(r"&(\w+)\[", text)
        array = match[1] if match else ""
        number = next(number for number, one in self._read.model.cut if one is call)
        return array if self._begun.get(array, number) == number else ""

    def _is_moved(self, node: Node, call: Call, wanted: tuple[str, ...]) -> bool:
        """Returns whether a call has these arguments of the original one, for the piece that the loop counts."""
        assert call.piece
        arguments = [Node(one, node.unit) for one in node.cursor.get_arguments()]
        texts = split_arguments(node)
        if node.name != wanted[0] or len(texts) < len(wanted) - 1:
            return False
        elements = iter([access.base.element for access in call.accesses if access.message])
        types = dict(zip(("sendbuf", "recvbuf"), elements, strict=True))
        for argument, text, name in zip(arguments, texts, wanted[1:], strict=False):
            if name in types:
                right = text == f"{added(call.exchange[name])} + {call.piece.at}" and pointee(argument) == types[name]
            elif name in ("sendcount", "recvcount"):
                declared = argument.bare.declaration
                right = declared is not None and declared.key == self._length != 0
            else:
                right = text == call.exchange[name]
            if not right:
                return False
        return True
