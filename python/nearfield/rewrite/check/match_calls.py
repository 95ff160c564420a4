"""Matches the calls in emitted code with those of the region: verbatim, or begun and completed separately, each with
the expected arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from nearfield.rewrite.analysis.communication import split_arguments
from nearfield.rewrite.analysis.expressions import Expressions
from nearfield.rewrite.analysis.program import Call
from nearfield.rewrite.check.equivalence import EmittedPiece
from nearfield.rewrite.check.translation import Translation
from nearfield.rewrite.codegen.chunk_code import ChunkCode
from nearfield.rewrite.frontend.clang import Kind, Node, Unit
from nearfield.rewrite.frontend.text import same_tokens
from nearfield.rewrite.model.polyhedral import Model
from nearfield.rewrite.model.schedule import CallStep

_REQUESTS = re.compile(r"MPI_Request (\w+)(\[.*\](?: = \{.*\})?);", re.DOTALL)


@dataclass
class EmittedCode:
    """Emitted code during matching: the steps that are still expected, and the pieces found so far."""

    model: Model
    guard: isl.Set
    original: str
    unit: Unit
    reader: Expressions
    expected: list[int | CallStep]
    pieces: list[EmittedPiece] = field(default_factory=list)

    @property
    def names(self) -> Translation:
        return Translation(self.model, self.reader)

    def text(self, node: Node) -> str:
        return self.unit.text[node.offset : self.unit.statement_end(node)]

    def take(self, piece: EmittedPiece) -> bool:
        """Consumes the next expected step. Returns True."""
        self.expected.pop(0)
        self.pieces.append(piece)
        return True


class UnchunkedCalls:
    """Matches verbatim calls, and blocking calls that are begun and completed separately."""

    def __init__(self, reading: EmittedCode) -> None:
        self._read = reading
        self._requests: list[str] = []  # of calls that are begun and completed separately
        self._array = self._declared = ""  # the request array, and its size and initializer
        self._num_begun = 0  # calls of the current statement that have begun
        self._conditional = False  # some of them may not be executed

    def declares(self, node: Node) -> bool:
        """Returns whether a declaration is that of the request array, which must have as many elements as calls
        begin."""
        match = _REQUESTS.fullmatch(self._read.text(node))
        self._array, self._declared = (match[1], match[2]) if match else ("", "")
        cut = [call for _, call in self._read.model.chunked_calls]
        sizes = [ChunkCode(call.chunking, call.exchange, "").requests_declaration for call in cut if call.chunking]
        return bool(match) and (not sizes or self._declared in sizes)

    def is_event(self, node: Node, event: CallStep, call: Call, piece: EmittedPiece) -> bool:
        """Returns whether a statement is the expected step of a call, and consumes it if so."""
        if event.begins and event.completes:
            same = same_tokens(self._read.text(node), self._written(call))
            return same and self._read.take(replace(piece, step=event))
        if event.begins:
            return self._begins(node, call, event, piece)
        if node.bare.kind == Kind.CALL_EXPR and node.bare.name == "MPI_Waitall":
            return self._completes(split_arguments(node.bare), piece)
        return False

    def _begins(self, node: Node, call: Call, event: CallStep, piece: EmittedPiece) -> bool:
        """Matches a statement that begins blocking calls, each with its arguments and the next request. A plain
        MPI_Sendrecv may become two statements; in a compound statement, all other tokens must be the original ones."""
        wanted = [begin_calls for one in call.blocking for begin_calls in one.begin_calls()][self._num_begun :]
        found = [one for one in node.walk() if one.kind == Kind.CALL_EXPR and one.name.startswith(("MPI_", "PMPI_"))]
        if call.is_plain:
            wanted = wanted[:1] if node.bare.kind == Kind.CALL_EXPR else []
        if not wanted or len(found) != len(wanted):
            return False
        for made, (name, arguments) in zip(found, wanted, strict=True):
            request = f"&{self._array}[{len(self._requests)}]"
            if made.name != name or split_arguments(made) != [*arguments, request]:
                return False
            self._requests.append(request)
        self._num_begun += len(wanted)
        if not call.is_plain and not same_tokens(self._with_blocking(node, call, found), self._written(call)):
            return False
        if self._num_begun == call.requests:
            self._num_begun = 0
            self._read.take(replace(piece, step=event))
        self._conditional = self._conditional or not call.is_plain
        return True

    def _written(self, call: Call) -> str:
        return self._read.original[call.start : call.end]

    def _with_blocking(self, node: Node, call: Call, begin_calls: Sequence[Node]) -> str:
        """Returns the text of a statement with the original blocking calls in place of the calls that begin them."""
        unit = self._read.unit
        text, last, rest = "", node.offset, list(begin_calls)
        for one in call.blocking:
            mine = [rest.pop(0) for _ in one.begin_calls()]
            text += unit.text[last : mine[0].offset]
            last = unit.statement_end(mine[-1])
            between = unit.text[unit.statement_end(mine[0]) : mine[-1].offset] if len(mine) > 1 else ""
            original = self._read.original[one.start : one.end]
            if not one.listed and len(mine) > 1 and text.rstrip().endswith("{"):
                text = text.rstrip()[:-1]
                last = unit.text.index("}", last) + 1
            text += between.strip() + original
        return text + unit.text[last : unit.statement_end(node)]

    def _completes(self, arguments: Sequence[str], piece: EmittedPiece) -> bool:
        """Matches an MPI_Waitall for all messages in flight. It must complete exactly the requests that were begun; the
        array must have room for them, and be initialised if some calls may not be executed."""
        count, expected = len(self._requests), self._read.expected
        size = int(re.sub(r"^\[(\d+)\].*", r"\1", self._declared, flags=re.DOTALL) or 0)
        declared = f"[{size}]" + (f" = {{{', '.join(['MPI_REQUEST_NULL'] * size)}}}" if self._conditional else "")
        wanted = [str(count), self._array, "MPI_STATUSES_IGNORE"]
        if arguments != wanted or self._declared != declared or size < count:
            return False
        while expected and isinstance(expected[0], CallStep) and not expected[0].begins:
            self._read.take(replace(piece, step=expected[0]))
        return True
