"""A recorded run of a program as a whole, and whether it supports conclusions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.units import counted
from nearfield.base.words import join_and
from nearfield.forecast.ceiling import (
    SpeedupCeiling,
    compute_ceilings,
    delay_seconds,
    processor_seconds,
    transfer_seconds,
)
from nearfield.forecast.prices import MessagePrices
from nearfield.forecast.ranks import CallGroup, RecordedRank, RecordingState
from nearfield.observe import source_lines
from nearfield.observe.source_lines import UNKNOWN, CodeLocation

SHORTEST_S = 0.2  # shorter runs are not conclusive: the system counts CPU time in ticks of 0.01 s
MAX_LOCATIONS = 64  # maximum number of code locations whose source lines are looked up
MAX_LAYER_SHARE = 0.01  # if the layer itself took a larger share of the run, that is reported


@dataclass(frozen=True)
class RecordedRun:
    """The recorded ranks of a run of a program, and measured message times if there are any."""

    ranks: list[RecordedRank]
    prices: MessagePrices | None = None

    @cached_property
    def seconds(self) -> float:
        """Returns the time from MPI_Init to MPI_Finalize in s, of the slowest rank."""
        return max((rank.seconds for rank in self.ranks), default=0.0)

    @cached_property
    def mpi_shares(self) -> list[float]:
        """Returns the share of MPI calls in the time of each rank."""
        return [min(1.0, rank.in_mpi / max(1, rank.threads) / max(rank.seconds, 1e-9)) for rank in self.ranks]

    @property
    def mpi_share(self) -> float:
        """Returns the share of MPI calls in the time of all ranks."""
        return sum(self.mpi_shares) / len(self.mpi_shares) if self.mpi_shares else 0.0

    @cached_property
    def transfer_share(self) -> float | None:
        """Returns the share of data transfer in the time of all ranks; None without measured message times."""
        if not self.prices or not self.ranks:
            return None
        moved = sum(transfer_seconds(rank.calls, self.prices, rank.ranks) for rank in self.ranks)
        return min(self.mpi_share, moved / sum(max(rank.seconds, 1e-9) for rank in self.ranks))

    @cached_property
    def ceilings(self) -> list[SpeedupCeiling]:
        """Returns the likely and maximum speed-up of the run by each of nearfield's tools."""
        return compute_ceilings(self.ranks, self.prices) if self.seconds > 0 else []

    @property
    def rules_ceiling(self) -> SpeedupCeiling | None:
        """Returns the likely and maximum speed-up by rules with the shared heap; None if no rank was recorded."""
        return self.ceilings[0] if self.ceilings else None

    @property
    def is_complete(self) -> bool:
        """Returns whether all ranks recorded the system's data at their end; ranks that were killed did not."""
        return all(rank.end for rank in self.ranks)

    @cached_property
    def delayed_share(self) -> float:
        """Returns the share of the time in which ranks were ready to run that they waited for a core."""
        delay, ran = (sum(map(what, self.ranks)) for what in (delay_seconds, processor_seconds))
        return delay / (delay + ran) if delay + ran > 0 else 0.0

    @property
    def more_ranks_than_cores(self) -> tuple[int, int] | None:
        """Returns the number of ranks and of cores of an oversubscribed node; None if no node is oversubscribed."""
        for host in {rank.host for rank in self.ranks}:
            ranks_on_host = [rank for rank in self.ranks if rank.host == host]
            cores = len(frozenset.union(*(rank.cores for rank in ranks_on_host)))
            if len(ranks_on_host) > cores > 0:
                return len(ranks_on_host), cores
        return None

    @cached_property
    def cores_of_others(self) -> float:
        """Returns how many cores other programs, and the host of a virtual machine, used on the busiest node."""
        return max((self._cores_of_others_on(host) for host in {rank.host for rank in self.ranks}), default=0.0)

    def _cores_of_others_on(self, host: str) -> float:
        """Returns how many cores other programs, and the host of a virtual machine, used on one node."""
        ranks_on_host = [rank for rank in self.ranks if rank.host == host and rank.end]
        if not ranks_on_host:
            return 0.0
        one = ranks_on_host[0]
        assert one.end
        spent = one.end.busy + one.end.stolen - one.begin.busy - one.begin.stolen
        all_of_it = spent + one.end.idle - one.begin.idle
        if all_of_it <= 0:
            return 0.0
        cores = all_of_it / 100 / max(one.seconds, 1e-9)  # the system counts in ticks of 0.01 s
        return max(0.0, cores * spent / all_of_it - sum(map(processor_seconds, ranks_on_host)) / max(one.seconds, 1e-9))

    @property
    def layer_share(self) -> float:
        """Returns the share of the run that the profiling layer itself took, on the rank with the largest share. It is
        a lower bound, since the layer's cost per call was measured with cached data and without a program that competes
        for memory."""
        spent = [(sum(one.calls for one in rank.calls) * rank.call_ns / 1e9, rank.seconds) for rank in self.ranks]
        return max((layer / seconds for layer, seconds in spent if seconds > 0), default=0.0)

    def inconclusive_reasons(self) -> list[str]:
        """Returns the reasons why the run is not conclusive; empty if it is."""
        if not self.ranks:
            return ["no process called MPI_Init under the layer (it may be linked statically, or use MPI sessions)"]
        return [*self._missing_data(), *self._disturbances()]

    def _missing_data(self) -> list[str]:
        """Returns the reasons why the records of the run are not complete enough for conclusions."""
        found = []
        world = [rank for rank in self.ranks if not rank.is_spawned]
        expected = max((rank.ranks for rank in world), default=0)
        if 0 < len(world) < expected:
            found.append(f"{len(world)} of {expected} ranks were recorded (other nodes must see the folder: --out)")
        if len(world) > expected == 1:
            found.append(f"each of {len(world)} processes was alone in MPI_COMM_WORLD: the launcher is another MPI's")
        if dead := [f"rank {rank.number}" for rank in self.ranks if rank.state is not RecordingState.FINALIZED]:
            found.append(f"{join_and(dead[:8])} ended without MPI_Finalize")
        if lost := sum(rank.lost_threads for rank in self.ranks):
            found.append(f"{counted(lost, 'thread')} called MPI beyond those that are recorded")
        if not any(rank.calls for rank in self.ranks):
            found.append("no rank called MPI between MPI_Init and MPI_Finalize")
        if self.seconds < SHORTEST_S:
            found.append(f"the run took {self.seconds:.2f} s, which is too short")
        return found

    def _disturbances(self) -> list[str]:
        """Returns the reasons why other processes have disturbed the run."""
        if self.delayed_share <= BUSY_SHARE:
            return []
        share = f"{self.delayed_share:.0%} of the time in which the ranks could run they had no core"
        if crowded := self.more_ranks_than_cores:
            return [f"{share}: {crowded[0]} ranks share {crowded[1]} cores"]
        return [f"{share}: other programs ran there"]

    def calls_by_time(self) -> list[CallSummary]:
        """Returns the MPI calls of all ranks, summed by function, size class and code location, the longest time
        first."""
        return self._calls_by_time

    @cached_property
    def _calls_by_time(self) -> list[CallSummary]:
        """Returns the MPI calls of all ranks, summed by function, size class and code location, the longest time
        first."""
        groups: dict[tuple[str, int, str], list[tuple[CallGroup, int]]] = defaultdict(list)
        for rank in self.ranks:
            for one in rank.calls:
                groups[one.name, one.size_class, self._location_text(one.site)].append((one, rank.ranks))
        lines = [CallSummary(members, self.prices, where) for (_, _, where), members in groups.items()]
        return sorted(lines, key=lambda line: -line.seconds)

    def _location_text(self, site: CodeLocation | None) -> str:
        """Returns a code location as 'file.c:12 (function)', or as object and offset if the source line is unknown."""
        if not site:
            return "-"
        text = str(self._line_names.get(site, UNKNOWN))
        return text if not text.startswith(UNKNOWN) else f"{Path(site[0]).name}+{site[1]:#x}"

    @cached_property
    def _line_names(self) -> dict[CodeLocation, source_lines.Line]:
        """Returns the source lines of the code locations with the longest times. A lookup of all locations might take
        long."""
        seconds: dict[CodeLocation, float] = defaultdict(float)
        for rank in self.ranks:
            for one in rank.calls:
                if one.site:
                    seconds[one.site] += one.seconds
        return source_lines.lines_of(sorted(seconds, key=lambda site: -seconds[site])[:MAX_LOCATIONS])


class CallSummary:
    """The calls of one MPI function from one code location with one size class, summed over all ranks."""

    def __init__(self, members: Sequence[tuple[CallGroup, int]], prices: MessagePrices | None, where: str) -> None:
        self.name, self.where = members[0][0].name, where
        self.calls = sum(one.calls for one, _ in members)
        self.messages = sum(one.messages for one, _ in members)
        self.bytes = sum(one.bytes for one, _ in members)
        self.seconds = sum(one.seconds for one, _ in members)
        moved = [prices.transfer_s(one, ranks) if prices else None for one, ranks in members]
        known = [one for one in moved if one is not None]
        self.waiting: float | None = self.seconds - sum(known) if len(known) == len(moved) else None

    @property
    def mean_bytes(self) -> float:
        """Returns the mean size of a message in bytes; 0 without messages."""
        return self.bytes / self.messages if self.messages else 0.0
