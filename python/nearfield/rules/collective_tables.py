"""How the algorithms of collectives stand in a rules file: those of nearfield, and those of the MPI itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nearfield.base.toml import Table
from nearfield.base.units import format_bytes
from nearfield.rules.collectives import NATIVE_OPERATIONS, OF_MPI, OPERATIONS, algorithms_of, is_algorithm_of
from nearfield.rules.gain_table import GainTable, Ns


class CollectiveRangeTable(Table):
    """Lengths of a collective with one algorithm. A length is the bytes of the vector, or of one rank's block."""

    to_bytes: int | None = Field(default=None, ge=0, le=1 << 40)  # none: and everything longer
    algorithm: str
    gain: GainTable | None = None  # the MPI's own time divided by this one's: geometric mean over the lengths

    def __str__(self) -> str:
        return self.algorithm if self.to_bytes is None else f"{self.algorithm}-{self.to_bytes}"

    def length_text(self) -> str:
        """Returns in words up to which length it is used."""
        return "all lengths above" if self.to_bytes is None else format_bytes(self.to_bytes)

    def algorithm_text(self) -> str:
        """Returns in words what does the collective."""
        return "the MPI" if self.algorithm == OF_MPI else f"nearfield, {self.algorithm}"

    def gain_text(self) -> str:
        """Returns the gain over the MPI's own algorithm; "-" where that is used."""
        if self.algorithm == OF_MPI or not self.gain:
            return "-"
        return f"{self.gain.value:.2f}x ({self.gain.low:.2f} to {self.gain.high:.2f})"


class CollectivePointTable(Table):
    """One length of a collective as it was measured: the median times of a call, and what was chosen."""

    size_bytes: int = Field(ge=0, le=1 << 40)  # 0: a barrier
    algorithm: str
    mpi_ns: Ns
    algorithm_ns: Ns
    gain: GainTable


class CollectiveTable(Table):
    """The algorithms of one collective with that many ranks on each of that many nodes; without `nodes`, on one."""

    operation: Literal[OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=2, le=256)
    nodes: int | None = Field(default=None, ge=2, le=1 << 20)
    range: list[CollectiveRangeTable] = Field(min_length=1)  # in rising order, the last one without an end
    point: list[CollectivePointTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> CollectiveTable:
        used = [one.algorithm for one in self.range] + [one.algorithm for one in self.point]
        if unknown := [name for name in used if not is_algorithm_of(self.operation, name, self.nodes or 1)]:
            names = ", ".join(algorithms_of(self.operation, nodes=self.nodes or 1))
            where = f" of {self.nodes} nodes" if self.nodes else ""
            raise ValueError(f"{self.operation}{where} has no algorithm '{unknown[0]}': {names}")
        _require_rising(self.operation, [one.to_bytes for one in self.range])
        return self

    @property
    def place(self) -> str:
        """Returns the numbers of ranks and, if there are several, nodes: "8" or "8x4"."""
        return f"{self.ranks}x{self.nodes}" if self.nodes else str(self.ranks)

    @property
    def is_left_to_mpi(self) -> bool:
        """Returns whether the MPI's own algorithm is selected for all lengths."""
        return all(one.algorithm == OF_MPI for one in self.range)


class NativeRangeTable(Table):
    """Lengths of a collective with one of the MPI's own algorithms. `id` is its number for an MPI that numbers them."""

    to_bytes: int | None = Field(default=None, ge=0, le=1 << 40)  # none: and everything longer
    algorithm: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    id: int | None = Field(default=None, ge=0, le=1 << 16)
    gain: GainTable | None = None  # the time by the MPI's choice divided by this one's: geometric mean over the lengths

    def length_text(self) -> str:
        """Returns in words up to which length it is used."""
        return "all lengths above" if self.to_bytes is None else format_bytes(self.to_bytes)

    def gain_text(self) -> str:
        """Returns the gain over the MPI's choice; "-" where that is kept."""
        return str(self.gain.as_gain()) if self.gain and self.algorithm != OF_MPI else "-"


class NativeCollectiveTable(Table):
    """The MPI's own algorithms of one collective for communicators of exactly that many ranks on one node."""

    operation: Literal[NATIVE_OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=2, le=1 << 20)
    range: list[NativeRangeTable] = Field(min_length=1)  # in rising order, the last one without an end
    point: list[CollectivePointTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> NativeCollectiveTable:
        _require_rising(self.operation, [one.to_bytes for one in self.range])
        return self

    @property
    def place(self) -> str:
        """Returns the number of ranks."""
        return str(self.ranks)

    @property
    def is_left_to_mpi(self) -> bool:
        """Returns whether the MPI chooses for all lengths."""
        return all(one.algorithm == OF_MPI for one in self.range)


def _require_rising(operation: str, ends: list[int | None]) -> None:
    """Raises ValueError unless ranges that end there are in order, and the last one has no end."""
    if ends[-1] is not None or None in ends[:-1] or ends[:-1] != sorted(end for end in ends if end is not None):
        raise ValueError(f"{operation}: to_bytes must rise from range to range, and the last one has none")
