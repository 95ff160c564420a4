"""The collectives that a program called, by operation, communicator shape and length. `nearfield run --learn` writes
them, and `nearfield tune --collectives --calls` measures them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write, read_user_file
from nearfield.base.toml import Table, dump_toml, parse_toml
from nearfield.rules.collective_tables import CollectiveTable
from nearfield.rules.collectives import OPERATIONS, operations_across_nodes

MIN_TIME_SHARE = 0.01  # fraction of the time in all collectives below which calls are not measured
_COUNT_ANEW_REMEDY = f"count again with: {own_command.command_line('run', '--learn', 'FILE', '--', 'COMMAND')}"


class CalledCollectiveTable(Table):
    """The calls of one collective operation on communicators with `ranks_per_node` ranks per node on `num_nodes` nodes,
    with lengths above one power of two up to the next. A length is the bytes of the vector, or of one rank's block."""

    operation: Literal[OPERATIONS]  # type: ignore[valid-type]
    ranks: int = Field(ge=1, le=1 << 20)
    nodes: int = Field(ge=1, le=1 << 20)
    size_bytes: int = Field(ge=0, le=1 << 50)  # the length within the class that took the most time
    calls: int = Field(ge=1, le=1 << 62)
    seconds: float = Field(ge=0, le=1e12)  # time in these calls, averaged over the program's ranks

    @property
    def format_communicator_shape(self) -> str:
        """Returns the shape of the communicator as text: ranks per node and, if there are several, nodes ("8" or
        "8x4")."""
        return f"{self.ranks}x{self.nodes}" if self.nodes > 1 else str(self.ranks)


class CalledCollectives(Table):
    """The collectives of one run of a program, in descending order of time."""

    schema_version: Literal[1]
    nearfield: str
    created: str
    command: str
    mpi: str  # the MPI's name as printed by `nearfield mpi`
    ranks: int = Field(ge=1, le=1 << 30)
    call: list[CalledCollectiveTable] = Field(default_factory=list)

    @property
    def total_s(self) -> float:
        """Returns the time in all collectives in seconds, averaged over the ranks."""
        return sum(one.seconds for one in self.call)

    def calls_worth_measuring(self) -> list[CalledCollectiveTable]:
        """Returns the entries with at least MIN_TIME_SHARE of the time whose operation nearfield implements for their
        number of nodes."""
        least = MIN_TIME_SHARE * self.total_s
        return [
            one for one in self.call if one.seconds >= least and one.operation in operations_across_nodes(one.nodes)
        ]

    def shapes_worth_measuring(self) -> list[tuple[int, int]]:
        """Returns the shapes (ranks per node, nodes) of communicators that are worth measuring, in descending order of
        time."""
        return list(dict.fromkeys((one.ranks, one.nodes) for one in self.calls_worth_measuring()))

    def lengths_to_measure(self, ranks_per_node: int, num_nodes: int = 1) -> dict[str, list[int]]:
        """Returns the lengths to measure for communicators of this shape: operation -> ascending lengths in bytes,
        multiples of 8 (whole doubles), 0 for a barrier."""
        found: dict[str, set[int]] = defaultdict(set)
        for one in self.calls_worth_measuring():
            if (one.ranks, one.nodes) == (ranks_per_node, num_nodes):
                found[one.operation].add(_round_to_measured_length(one.size_bytes))
        return {operation: sorted(found[operation]) for operation in OPERATIONS if operation in found}

    def estimate_saved_s(self, tables: Iterable[CollectiveTable]) -> float:
        """Returns the estimated time saved per rank in seconds with the algorithms of the tables: the sum over all
        calls of the MPI's time minus the selected algorithm's time. If several tables have the same shape and length,
        the last one counts."""
        gains = {
            (table.operation, table.ranks, table.nodes or 1, point.size_bytes): point.mpi_ns - point.algorithm_ns
            for table in tables
            for point in table.point
        }
        total_ns = 0.0
        for one in self.call:
            key = one.operation, one.ranks, one.nodes, _round_to_measured_length(one.size_bytes)
            total_ns += one.calls * one.ranks * one.nodes / self.ranks * gains.get(key, 0.0)
        return total_ns / 1e9


def _round_to_measured_length(size_bytes: int) -> int:
    """Rounds a length up to a whole number of doubles, the length that is measured instead."""
    return -(-size_bytes // 8) * 8


class CallCount(NamedTuple):
    """The calls that one process made of one operation, on communicators of one shape, with one length."""

    operation: str
    ranks_per_node: int
    num_nodes: int
    size_bytes: int
    num_calls: int
    time_ns: int


def merge_call_counts(counts: Iterable[CallCount], num_program_ranks: int) -> list[CalledCollectiveTable]:
    """Merges the counts of all processes into one table per class of lengths, in descending order of time. Since every
    rank of a communicator counts each collective, divides calls by the communicator's ranks. Divides times by
    `num_program_ranks`. Drops collectives with 0 bytes except barriers."""
    classes: dict[tuple[str, int, int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for one in counts:
        if one.size_bytes or one.operation == "barrier":
            key = one.operation, one.ranks_per_node, one.num_nodes, max(one.size_bytes - 1, 0).bit_length()
            of_length = classes[key][one.size_bytes]
            of_length[0] += one.num_calls
            of_length[1] += one.time_ns
    rows = [
        CalledCollectiveTable(
            operation=operation, ranks=ranks, nodes=nodes,
            size_bytes=max(lengths, key=lambda size: lengths[size][1]),
            calls=max(1, round(sum(calls for calls, _ in lengths.values()) / (ranks * nodes))),
            seconds=sum(ns for _, ns in lengths.values()) / num_program_ranks / 1e9,
        )
        for (operation, ranks, nodes, _), lengths in classes.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.seconds)


def save_called_collectives(called: CalledCollectives, path: Path) -> None:
    """Writes the file atomically. Raises ProfileError on failure."""
    text = dump_toml(called, "Collectives that a program called.", "docs/explanation/collectives.md")
    atomic_write(path, text, "name another file with --learn")


def load_called_collectives(path: Path) -> CalledCollectives:
    """Reads and validates a file. Raises UsageError if it cannot be read, and a ProfileError that names every invalid
    key."""
    try:
        content = read_user_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", _COUNT_ANEW_REMEDY) from error
    return parse_toml(CalledCollectives, content, path, _COUNT_ANEW_REMEDY)
