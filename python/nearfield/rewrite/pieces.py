"""How long the pieces of a cut message are, and how a piece of an MPI_Sendrecv is written in C."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.units import parse_bytes
from nearfield.profile import Profile, load
from nearfield.rewrite.program import Piece

_SHARE = 4  # of a core's own cache: what is sent, what is received, what is made of it, and room
_PLAIN = re.compile(r"[&*]?[\w\[\]().>*+\- ]+")  # to which something may be added without parentheses


@dataclass(frozen=True)
class Pieces:
    """Messages of more than `least_bytes` are cut into pieces of `piece_bytes`."""

    piece_bytes: int
    least_bytes: int


def pieces_of(profile: Path | None, size: str | None) -> Pieces | None:
    """Returns the pieces that the options name: of the given size; or, by a profile's caches, of a quarter of a core's
    own cache, for messages beyond the last level. None without either."""
    if size is not None:
        piece_bytes = parse_bytes(size)
        if piece_bytes < 1:
            raise UsageError("a piece of no bytes is none", "Give a size with --piece, such as 64KiB.")
        return Pieces(piece_bytes, piece_bytes)
    return by_caches(load(profile)) if profile is not None else None


def by_caches(profile: Profile) -> Pieces | None:
    """Returns the pieces for the caches of a profile's machine; None if it does not say them."""
    caches = profile.machine.data_caches
    if not caches:
        return None
    fewest = min(cache.shared_by for cache in caches)
    own = max(cache.size_bytes for cache in caches if cache.shared_by == fewest)
    return Pieces(max(own // _SHARE, 1), caches[-1].size_bytes)


@dataclass(frozen=True)
class Written:
    """The text of a loop over pieces, by the arguments of the MPI_Sendrecv that is cut."""

    piece: Piece
    exchange: Mapping[str, str]
    requests: str  # the array's name

    @property
    def _count(self) -> str:
        """Returns the message's count as the call has it."""
        return added(self.exchange["sendcount"])

    @property
    def count_name(self) -> str:
        return self.piece.at.replace("_at", "_count")

    @property
    def loop(self) -> str:
        at = self.piece.at
        return f"for (long {at} = 0; {at} < {self._count}; {at} += {self.piece.elements})"

    @property
    def count_declared(self) -> str:
        rest, elements = f"{self._count} - {self.piece.at}", self.piece.elements
        return f"const int {self.count_name} = {rest} < {elements} ? {rest} : {elements}"

    @property
    def requests_declared(self) -> str:
        return f"{self.requests}[2 * (({self._count} - 1) / {self.piece.elements} + 1)]"

    def request(self, which: int) -> str:
        return f"&{self.requests}[{self.piece.at} / {self.piece.elements} * 2{' + 1' if which else ''}]"

    def side(self, buffer: str, count: str, *rest: str) -> str:
        """Returns the arguments for one side of a piece's message."""
        words = self.exchange
        return ", ".join([f"{added(words[buffer])} + {self.piece.at}", count, *(words[one] for one in rest)])

    @property
    def sent(self) -> str:
        return self.side("sendbuf", self.count_name, "sendtype", "dest", "sendtag")

    @property
    def received(self) -> str:
        return self.side("recvbuf", self.count_name, "recvtype", "source", "recvtag")

    def calls(self, *, begins: bool, completes: bool) -> list[str]:
        """Returns the lines of the calls for one piece."""
        comm = self.exchange["comm"]
        if begins and completes:
            blanks = " " * len("MPI_Sendrecv(")
            return [f"MPI_Sendrecv({self.sent},", f"{blanks}{self.received},", f"{blanks}{comm}, MPI_STATUS_IGNORE);"]
        if begins:
            blanks = " " * len("MPI_Irecv(")
            return [
                f"MPI_Irecv({self.received},", f"{blanks}{comm}, {self.request(0)});",
                f"MPI_Isend({self.sent},", f"{blanks}{comm}, {self.request(1)});",
            ]  # fmt: skip
        return [f"MPI_Waitall(2, {self.request(0)}, MPI_STATUSES_IGNORE);"]


def added(text: str) -> str:
    """Returns an expression to which something may be added."""
    return text if _PLAIN.fullmatch(text) else f"({text})"
