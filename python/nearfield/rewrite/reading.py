"""Reads the calls in new code of a region: whole, or begun and completed apart, each with the arguments that it must
have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from nearfield.rewrite.clang import Kind, Node, Unit
from nearfield.rewrite.communication import split_arguments
from nearfield.rewrite.copies import Copy
from nearfield.rewrite.expressions import Expressions
from nearfield.rewrite.model import Model
from nearfield.rewrite.parts import Event
from nearfield.rewrite.pieces import Written
from nearfield.rewrite.program import Call
from nearfield.rewrite.text import same_tokens
from nearfield.rewrite.translation import Translation

_REQUESTS = re.compile(r"MPI_Request (\w+)(\[.*\](?: = \{.*\})?);", re.DOTALL)


@dataclass
class Reading:
    """New code that is being read: what is still expected in it, and the copies that were found."""

    model: Model
    guard: isl.Set
    original: str
    unit: Unit
    reader: Expressions
    expected: list[int | Event]
    copies: list[Copy] = field(default_factory=list)

    @property
    def names(self) -> Translation:
        return Translation(self.model, self.reader)

    def text(self, node: Node) -> str:
        return self.unit.text[node.offset : self.unit.statement_end(node)]

    def take(self, copy: Copy) -> bool:
        """Takes what is expected next."""
        self.expected.pop(0)
        self.copies.append(copy)
        return True


class Calls:
    """Reads calls that are written as they were, and blocking ones that are begun and completed apart."""

    def __init__(self, reading: Reading) -> None:
        self._read = reading
        self._requests: list[str] = []  # of calls that are begun and completed apart
        self._array = self._declared = ""  # where they are, and its size and first values
        self._begun_here = 0  # calls of the statement that is read which have been begun
        self._conditional = False  # some of them may not be begun

    def declares(self, node: Node) -> bool:
        """Returns whether a declaration is that of requests, of which there must be as many as calls that are begun."""
        match = _REQUESTS.fullmatch(self._read.text(node))
        self._array, self._declared = (match[1], match[2]) if match else ("", "")
        cut = [call for _, call in self._read.model.cut]
        sizes = [Written(call.piece, call.exchange, "").requests_declared for call in cut if call.piece]
        return bool(match) and (not sizes or self._declared in sizes)

    def is_event(self, node: Node, event: Event, call: Call, copy: Copy) -> bool:
        """Returns whether a statement is what is expected of a call, and takes it."""
        if event.begins and event.completes:
            same = same_tokens(self._read.text(node), self._written(call))
            return same and self._read.take(replace(copy, piece=event))
        if event.begins:
            return self._begins(node, call, event, copy)
        if node.bare.kind == Kind.CALL_EXPR and node.bare.name == "MPI_Waitall":
            return self._completes(split_arguments(node.bare), copy)
        return False

    def _begins(self, node: Node, call: Call, event: Event, copy: Copy) -> bool:
        """Takes a statement that begins blocking calls: each with its arguments and the next request. One that is
        nothing but a call may be two statements; in others, all else must be word for word the original one."""
        wanted = [begun for one in call.blocking for begun in one.begun()][self._begun_here :]
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
        self._begun_here += len(wanted)
        if not call.is_plain and not same_tokens(self._with_blocking(node, call, found), self._written(call)):
            return False
        if self._begun_here == call.requests:
            self._begun_here = 0
            self._read.take(replace(copy, piece=event))
        self._conditional = self._conditional or not call.is_plain
        return True

    def _written(self, call: Call) -> str:
        return self._read.original[call.start : call.end]

    def _with_blocking(self, node: Node, call: Call, begun: Sequence[Node]) -> str:
        """Returns the text of a statement with the original blocking calls in place of those that begin them."""
        unit = self._read.unit
        text, last, rest = "", node.offset, list(begun)
        for one in call.blocking:
            mine = [rest.pop(0) for _ in one.begun()]
            text += unit.text[last : mine[0].offset]
            last = unit.statement_end(mine[-1])
            between = unit.text[unit.statement_end(mine[0]) : mine[-1].offset] if len(mine) > 1 else ""
            original = self._read.original[one.start : one.end]
            if not one.listed and len(mine) > 1 and text.rstrip().endswith("{"):
                text = text.rstrip()[:-1]
                last = unit.text.index("}", last) + 1
            text += between.strip() + original
        return text + unit.text[last : unit.statement_end(node)]

    def _completes(self, arguments: Sequence[str], copy: Copy) -> bool:
        """Takes all messages that wait; the call must complete exactly those which were begun, and the array of
        requests must have room for them, and be empty at first where they may not be begun."""
        count, expected = len(self._requests), self._read.expected
        size = int(re.sub(r"^\[(\d+)\].*", r"\1", self._declared, flags=re.DOTALL) or 0)
        declared = f"[{size}]" + (f" = {{{', '.join(['MPI_REQUEST_NULL'] * size)}}}" if self._conditional else "")
        wanted = [str(count), self._array, "MPI_STATUSES_IGNORE"]
        if arguments != wanted or self._declared != declared or size < count:
            return False
        while expected and isinstance(expected[0], Event) and not expected[0].begins:
            self._read.take(replace(copy, piece=expected[0]))
        return True
