"""The tables of a rules file that select algorithms of collectives: nearfield's own, and those of the MPI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from nearfield.base.toml import Table
from nearfield.base.units import format_bytes
from nearfield.rules.collectives import MPI_ALGORITHM, NATIVE_OPERATIONS, OPERATIONS, algorithms_of, is_algorithm_of
from nearfield.rules.gain_table import Ns, StoredGain


class CollectiveRangeTable(Table):
    """The algorithm for a range of lengths of a collective. A length is the bytes of the vector, or of one rank's
    block."""

    to_bytes: int | None = Field(default=None, ge=0, le=1 << 40)  # largest length of the range; None: no upper limit
    algorithm: str
    gain: StoredGain | None = None  # the MPI's own time divided by this algorithm's: geometric mean over the lengths

    def __str__(self) -> str:
        return self.algorithm if self.to_bytes is None else f"{self.algorithm}-{self.to_bytes}"

    def format_max_length(self) -> str:
        """Returns the largest length for which the algorithm is selected, as human-readable text."""
        return "all lengths above" if self.to_bytes is None else format_bytes(self.to_bytes)

    def format_algorithm(self) -> str:
        """Returns the library and the algorithm that run the collective, as human-readable text."""
        return "the MPI" if self.algorithm == MPI_ALGORITHM else f"nearfield, {self.algorithm}"

    def format_gain(self) -> str:
        """Returns the gain over the MPI's own algorithm as text; "-" if the MPI's own is selected."""
        if self.algorithm == MPI_ALGORITHM or not self.gain:
            return "-"
        return f"{self.gain.value:.2f}x ({self.gain.low:.2f} to {self.gain.high:.2f})"


class CollectivePointTable(Table):
    """One measured length of a collective: the median times per call, and the selected algorithm."""

    size_bytes: int = Field(ge=0, le=1 << 40)  # 0: a barrier
    algorithm: str
    mpi_ns: Ns
    algorithm_ns: Ns
    gain: StoredGain


class CollectiveTable(Table):
    """The algorithms of one collective for communicators with `ranks` ranks per node on `nodes` nodes; None means one
    node."""

    operation: Literal[OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=2, le=256)
    nodes: int | None = Field(default=None, ge=2, le=1 << 20)
    range: list[CollectiveRangeTable] = Field(min_length=1)  # ascending; the last range has no upper limit
    point: list[CollectivePointTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_ranges(self) -> CollectiveTable:
        used = [one.algorithm for one in self.range] + [one.algorithm for one in self.point]
        if unknown := [name for name in used if not is_algorithm_of(self.operation, name, self.nodes or 1)]:
            names = ", ".join(algorithms_of(self.operation, num_nodes=self.nodes or 1))
            where = f" of {self.nodes} nodes" if self.nodes else ""
            raise ValueError(f"{self.operation}{where} has no algorithm '{unknown[0]}': {names}")
        _require_ascending_limits(self.operation, [one.to_bytes for one in self.range])
        return self

    @property
    def format_communicator_shape(self) -> str:
        """Returns the shape of the communicator as text: ranks per node and, if there are several, nodes ("8" or
        "8x4")."""
        return f"{self.ranks}x{self.nodes}" if self.nodes else str(self.ranks)

    @property
    def is_left_to_mpi(self) -> bool:
        """Returns whether the MPI's own algorithm is selected for all lengths."""
        return all(one.algorithm == MPI_ALGORITHM for one in self.range)


def format_selection(tables: Iterable[CollectiveTable]) -> str:
    """Returns the selected algorithms in the syntax of the variable NEARFIELD_COLLECTIVES:
    "bcast@2=flat-2048+mpi-8192+flat,reduce@8x4=leaders,..."."""
    return ",".join(
        f"{table.operation}@{table.format_communicator_shape}={'+'.join(map(str, table.range))}" for table in tables
    )


class NativeRangeTable(Table):
    """One of the MPI's own algorithms for a range of lengths of a collective. `id` is the algorithm's number in MPIs
    that number them."""

    to_bytes: int | None = Field(default=None, ge=0, le=1 << 40)  # largest length of the range; None: no upper limit
    algorithm: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    id: int | None = Field(default=None, ge=0, le=1 << 16)
    # time with the MPI's choice divided by this algorithm's: geometric mean over the lengths
    gain: StoredGain | None = None

    def format_max_length(self) -> str:
        """Returns the largest length for which the algorithm is selected, as human-readable text."""
        return "all lengths above" if self.to_bytes is None else format_bytes(self.to_bytes)

    def format_gain(self) -> str:
        """Returns the gain over the MPI's choice as text; "-" if the MPI's choice is retained."""
        return str(self.gain.as_gain()) if self.gain and self.algorithm != MPI_ALGORITHM else "-"


class NativeCollectiveTable(Table):
    """The MPI's own algorithms of one collective, for communicators of exactly `ranks` ranks on one node."""

    operation: Literal[NATIVE_OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=2, le=1 << 20)
    range: list[NativeRangeTable] = Field(min_length=1)  # ascending; the last range has no upper limit
    point: list[CollectivePointTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_ranges(self) -> NativeCollectiveTable:
        _require_ascending_limits(self.operation, [one.to_bytes for one in self.range])
        return self

    @property
    def format_communicator_shape(self) -> str:
        """Returns the number of ranks of the communicator as text."""
        return str(self.ranks)

    @property
    def is_left_to_mpi(self) -> bool:
        """Returns whether the MPI's choice is retained for all lengths."""
        return all(one.algorithm == MPI_ALGORITHM for one in self.range)


def _require_ascending_limits(operation: str, limits_bytes: list[int | None]) -> None:
    """Raises ValueError unless the upper limits of the ranges ascend and only the last range has none."""
    if (
        limits_bytes[-1] is not None
        or None in limits_bytes[:-1]
        or limits_bytes[:-1] != sorted(end for end in limits_bytes if end is not None)
    ):
        raise ValueError(f"{operation}: to_bytes must rise from range to range, and the last one has none")
