"""The collectives that a program called, by operation, communicator and length: what `nearfield run --learn` writes and
`nearfield tune --collectives --calls` measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write, read_file
from nearfield.base.toml import Table, dump_toml, parse_toml
from nearfield.rules.collective_tables import CollectiveTable
from nearfield.rules.collectives import OPERATIONS, operations_of

MIN_SHARE = 0.01  # of the time in all collectives: what took less is not worth a measurement
_REMEDY = f"count anew with: {own_command.line('run', '--learn', 'FILE', '--', 'COMMAND')}"


class CalledTable(Table):
    """Collectives of one operation, on communicators of `ranks` ranks on each of `nodes` nodes, whose lengths are
    alike: above a power of two, up to the next one. A length is the bytes of the vector, or of one rank's block."""

    operation: Literal[OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=1, le=1 << 20)
    nodes: int = Field(ge=1, le=1 << 20)
    size_bytes: int = Field(ge=0, le=1 << 50)  # the length that took most of the time
    calls: int = Field(ge=1, le=1 << 62)
    seconds: float = Field(ge=0, le=1e12)  # in these calls, of a rank in the mean

    @property
    def place(self) -> str:
        """Returns the numbers of ranks and, if there are several, nodes: "8" or "8x4"."""
        return f"{self.ranks}x{self.nodes}" if self.nodes > 1 else str(self.ranks)


class CalledCollectives(Table):
    """The collectives of one run of a program, those that took most time first."""

    schema_version: Literal[1]
    nearfield: str
    created: str
    command: str
    mpi: str  # as `nearfield mpi` calls it
    ranks: int = Field(ge=1, le=1 << 30)
    call: list[CalledTable] = Field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Returns the time in all of them, of a rank in the mean."""
        return sum(one.seconds for one in self.call)

    def worth_measuring(self) -> list[CalledTable]:
        """Returns those that took at least MIN_SHARE of the time, of operations that nearfield does on that number of
        nodes."""
        least = MIN_SHARE * self.seconds
        return [one for one in self.call if one.seconds >= least and one.operation in operations_of(one.nodes)]

    def places(self) -> list[tuple[int, int]]:
        """Returns the numbers of ranks on a node and of nodes that are worth measuring, those that took most time
        first."""
        return list(dict.fromkeys((one.ranks, one.nodes) for one in self.worth_measuring()))

    def lengths(self, ranks: int, nodes: int = 1) -> dict[str, list[int]]:
        """Returns the lengths to measure by operation, in rising order, for communicators with that many ranks on each
        of that many nodes: whole numbers of doubles, 0 for a barrier."""
        found: dict[str, set[int]] = defaultdict(set)
        for one in self.worth_measuring():
            if (one.ranks, one.nodes) == (ranks, nodes):
                found[one.operation].add(_measured_length(one.size_bytes))
        return {operation: sorted(found[operation]) for operation in OPERATIONS if operation in found}

    def seconds_saved(self, tables: Iterable[CollectiveTable]) -> float:
        """Returns how much less time each rank would spend in the measured lengths, in the mean: calls times the
        difference between the MPI's own time and that of the chosen algorithm. Where a place was measured at several
        distances, the last one counts."""
        gains = {
            (table.operation, table.ranks, table.nodes or 1, point.size_bytes): point.mpi_ns - point.algorithm_ns
            for table in tables
            for point in table.point
        }
        total_ns = 0.0
        for one in self.call:
            key = one.operation, one.ranks, one.nodes, _measured_length(one.size_bytes)
            total_ns += one.calls * one.ranks * one.nodes / self.ranks * gains.get(key, 0.0)
        return total_ns / 1e9


def _measured_length(size_bytes: int) -> int:
    """Returns the length that is measured in its place: a whole number of doubles."""
    return -(-size_bytes // 8) * 8


class Counted(NamedTuple):
    """The calls of one operation on communicators of one shape with one length, by one process."""

    operation: str
    ranks: int
    nodes: int
    size_bytes: int
    calls: int
    ns: int


def merge_counts(counts: Iterable[Counted], all_ranks: int) -> list[CalledTable]:
    """Returns the rows of all processes by classes of lengths, those that took most time first. Each rank of a
    communicator counts a collective: divided by the communicator's ranks, there is one. Times are divided by the number
    of all ranks. Collectives without bytes are left out, since they move nothing."""
    classes: dict[tuple[str, int, int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for one in counts:
        if one.size_bytes or one.operation == "barrier":
            key = one.operation, one.ranks, one.nodes, max(one.size_bytes - 1, 0).bit_length()
            of_length = classes[key][one.size_bytes]
            of_length[0] += one.calls
            of_length[1] += one.ns
    rows = [
        CalledTable(
            operation=operation, ranks=ranks, nodes=nodes,
            size_bytes=max(lengths, key=lambda size: lengths[size][1]),
            calls=max(1, round(sum(calls for calls, _ in lengths.values()) / (ranks * nodes))),
            seconds=sum(ns for _, ns in lengths.values()) / all_ranks / 1e9,
        )
        for (operation, ranks, nodes, _), lengths in classes.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.seconds)


def save_called(called: CalledCollectives, path: Path) -> None:
    """Writes the file, whole or not at all. Raises ProfileError if it cannot."""
    text = dump_toml(called, "Collectives that a program called.", "docs/explanation/collectives.md")
    atomic_write(path, text, "name another file with --learn")


def load_called(path: Path) -> CalledCollectives:
    """Reads and checks a file. Raises UsageError if there is none, ProfileError that names every wrong key."""
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", _REMEDY) from error
    return parse_toml(CalledCollectives, content, path, _REMEDY)
