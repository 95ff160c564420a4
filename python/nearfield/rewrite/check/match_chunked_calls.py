"""Matches chunked messages in emitted code: the chunk loops, the chunk lengths, and the calls for one chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import islpy as isl

from nearfield.rewrite.analysis.communication import split_arguments
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.loop_bounds import bounds_of, canonical_loop, iterator_key
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Call
from nearfield.rewrite.check.equivalence import EmittedPiece, Invalid
from nearfield.rewrite.check.match_calls import EmittedCode
from nearfield.rewrite.codegen.chunk_code import ChunkCode, parenthesised
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.model.chunking import pointee
from nearfield.rewrite.model.schedule import CallStep

_SENT = ("sendbuf", "sendcount", "sendtype", "dest", "sendtag")
_RECEIVED = ("recvbuf", "recvcount", "recvtype", "source", "recvtag")


class ChunkedCalls:
    """Matches the code that replaces calls whose messages are split into chunks."""

    def __init__(self, reading: EmittedCode) -> None:
        self._read = reading
        self._received = ""  # the request array of the last receive that was begun
        self._length = 0  # the variable with the length of a chunk
        self._loop_call = -1  # the call of the current chunk loop
        self._begun: dict[str, int] = {}  # calls whose chunks have been begun, by request array

    def declares(self, node: Node, piece: EmittedPiece) -> bool:
        """Returns whether a declaration in a chunk loop is that of a chunk's length. Raises Invalid if not."""
        variable, loop = node.children[0], piece.chunk_loop
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

    def chunked_call(self, node: Node) -> tuple[int, Call] | None:
        """Returns the number and the call whose chunks a loop iterates over; None if there is none."""
        for number, call in self._read.model.chunked_calls:
            if call.chunking and re.match(rf"for \(long {call.chunking.at} = ", self._read.text(node)):
                following = next((one.call for one in self._read.expected if isinstance(one, CallStep)), None)
                if number == following:
                    return number, call
        return None

    @contextmanager
    def loop(self, node: Node, number: int, call: Call, piece: EmittedPiece) -> Iterator[EmittedPiece]:
        """Yields the position of the statements in a chunk loop, which must iterate over exactly the chunks of the
        call."""
        reader, guard, names = self._read.reader, self._read.guard, self._read.names
        chunking, loop = call.chunking, canonical_loop(node, reader)
        if not piece.is_alone or piece.chunk_loop or isinstance(loop, str) or chunking is None:
            raise Invalid("a loop over pieces is not understood")
        domain, same = self._read.model.domains[number][0], loop.step == chunking.elements and not loop.down
        name = f"c_{loop.iterator.text}"
        counted = isl.Set(f"{names.head()}{{ {domain.get_tuple_name()}[{name}] : {names.counts(loop)} }}")
        if not same or not counted.intersect_params(guard).is_equal(domain.intersect_params(guard)):
            raise Invalid("a loop does not count the pieces of a message")
        key = iterator_key(node)
        reader.bound[key] = Poly.of(loop.iterator.key)
        self._length, self._loop_call = 0, number
        yield replace(piece, chunk_loop=loop, time=(*piece.time, name))
        del reader.bound[key]

    def is_chunk(self, node: Node, event: CallStep, call: Call, piece: EmittedPiece) -> bool:
        """Returns whether `node` is the expected chunk of a call (or its begin or completion): buffers offset by the
        chunk's start, count replaced, all other arguments unchanged. Consumes it if so."""
        if (
            not call.chunking
            or not piece.chunk_loop
            or self._loop_call != event.call
            or node.bare.kind != Kind.CALL_EXPR
        ):
            return False
        arguments, name = split_arguments(node.bare), node.bare.name
        if event.begins and event.completes:
            wanted = ("MPI_Sendrecv", *_SENT, *_RECEIVED, "comm", "status")
            return self._is_moved(node.bare, call, wanted) and self._read.take(replace(piece, step=event))
        array = self._requests_of(call, arguments[-2] if name == "MPI_Waitall" else arguments[-1])
        requests = [ChunkCode(call.chunking, call.exchange, array).request(which) for which in (0, 1)]
        if event.begins and name == "MPI_Irecv" and not self._received:
            same = self._is_moved(node.bare, call, (name, *_RECEIVED, "comm")) and arguments[6] == requests[0]
            self._received = array if same else ""
            return same
        if event.begins and name == "MPI_Isend" and self._received == array:
            same = self._is_moved(node.bare, call, (name, *_SENT, "comm")) and arguments[6] == requests[1]
            self._received = ""
            self._begun[array] = event.call
            return same and self._read.take(replace(piece, step=event))
        if not event.begins and name == "MPI_Waitall" and self._begun.get(array) == event.call:
            complete = arguments == ["2", requests[0], "MPI_STATUSES_IGNORE"]
            return complete and self._read.take(replace(piece, step=event))
        return False

    def _requests_of(self, call: Call, text: str) -> str:
        """Returns the request array that an argument names; '' if another call uses it."""
        match = re.match(r"&(\w+)\[", text)
        array = match[1] if match else ""
        number = next(number for number, one in self._read.model.chunked_calls if one is call)
        return array if self._begun.get(array, number) == number else ""

    def _is_moved(self, node: Node, call: Call, wanted: tuple[str, ...]) -> bool:
        """Returns whether a call has these arguments of the original one, adjusted to the chunk of the current
        iteration."""
        assert call.chunking
        arguments = [Node(one, node.unit) for one in node.cursor.get_arguments()]
        texts = split_arguments(node)
        if node.name != wanted[0] or len(texts) < len(wanted) - 1:
            return False
        elements = iter([access.base.element for access in call.accesses if access.message])
        types = dict(zip(("sendbuf", "recvbuf"), elements, strict=True))
        for argument, text, name in zip(arguments, texts, wanted[1:], strict=False):
            if name in types:
                right = (
                    text == f"{parenthesised(call.exchange[name])} + {call.chunking.at}"
                    and pointee(argument) == types[name]
                )
            elif name in ("sendcount", "recvcount"):
                declared = argument.bare.declaration
                right = declared is not None and declared.key == self._length != 0
            else:
                right = text == call.exchange[name]
            if not right:
                return False
        return True
