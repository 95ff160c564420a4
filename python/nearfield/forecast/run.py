"""Evaluates a recorded run of a program as a whole, and decides whether it supports conclusions."""

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
    processor_seconds,
    seconds_without_core,
    transfer_seconds,
)
from nearfield.forecast.message_times import MeasuredMessageTimes
from nearfield.forecast.ranks import CallGroup, RecordedRank, RecordingState
from nearfield.observe import source_lines
from nearfield.observe.source_lines import UNKNOWN_NAME, CodeLocation

MIN_CONCLUSIVE_S = 0.2  # shorter runs are not conclusive: the system counts CPU time in ticks of 0.01 s
MAX_LOCATIONS = 64  # maximum number of code locations whose source lines are looked up
MAX_LAYER_SHARE = 0.01  # if the layer itself took a larger share of the run, that is reported


@dataclass(frozen=True)
class RecordedRun:
    """The recorded ranks of a run of a program, and measured message times if there are any."""

    ranks: list[RecordedRank]
    message_times: MeasuredMessageTimes | None = None

    @cached_property
    def duration_s(self) -> float:
        """Returns the time from MPI_Init to MPI_Finalize in s, of the slowest rank."""
        return max((rank.duration_s for rank in self.ranks), default=0.0)

    @cached_property
    def mpi_shares(self) -> list[float]:
        """Returns the share of MPI calls in the time of each rank."""
        return [min(1.0, rank.in_mpi_s / max(1, rank.num_threads) / max(rank.duration_s, 1e-9)) for rank in self.ranks]

    @property
    def mpi_share(self) -> float:
        """Returns the share of MPI calls in the time of all ranks."""
        return sum(self.mpi_shares) / len(self.mpi_shares) if self.mpi_shares else 0.0

    @cached_property
    def transfer_share(self) -> float | None:
        """Returns the share of data transfer in the time of all ranks; None without measured message times."""
        if not self.message_times or not self.ranks:
            return None
        moved = sum(transfer_seconds(rank.call_groups, self.message_times, rank.num_ranks) for rank in self.ranks)
        return min(self.mpi_share, moved / sum(max(rank.duration_s, 1e-9) for rank in self.ranks))

    @cached_property
    def ceilings(self) -> list[SpeedupCeiling]:
        """Returns the likely and maximum speed-up of the run by each of nearfield's tools."""
        return compute_ceilings(self.ranks, self.message_times) if self.duration_s > 0 else []

    @property
    def rules_ceiling(self) -> SpeedupCeiling | None:
        """Returns the likely and maximum speed-up by rules with the shared heap; None if no rank was recorded."""
        return self.ceilings[0] if self.ceilings else None

    @property
    def is_complete(self) -> bool:
        """Returns whether all ranks recorded the system's data at their end; ranks that were killed did not."""
        return all(rank.end_usage for rank in self.ranks)

    @cached_property
    def share_without_core(self) -> float:
        """Returns the share of time that ranks waited for a core, in the time in which they ran or were ready to
        run."""
        delay, ran = (sum(map(what, self.ranks)) for what in (seconds_without_core, processor_seconds))
        return delay / (delay + ran) if delay + ran > 0 else 0.0

    @property
    def oversubscribed_node(self) -> tuple[int, int] | None:
        """Returns the number of ranks and of cores of an oversubscribed node; None if no node is oversubscribed."""
        for host in {rank.host for rank in self.ranks}:
            ranks_on_host = [rank for rank in self.ranks if rank.host == host]
            cores = len(frozenset.union(*(rank.cores for rank in ranks_on_host)))
            if len(ranks_on_host) > cores > 0:
                return len(ranks_on_host), cores
        return None

    @cached_property
    def cores_used_by_others(self) -> float:
        """Returns how many cores were used on the busiest node by other programs and, in a virtual machine, by its
        host."""
        return max((self._cores_used_by_others_on(host) for host in {rank.host for rank in self.ranks}), default=0.0)

    def _cores_used_by_others_on(self, host: str) -> float:
        """Returns how many cores were used on a node by other programs and, in a virtual machine, by its host."""
        ranks_on_host = [rank for rank in self.ranks if rank.host == host and rank.end_usage]
        if not ranks_on_host:
            return 0.0
        one = ranks_on_host[0]
        assert one.end_usage
        spent = (
            one.end_usage.busy_ticks
            + one.end_usage.stolen_ticks
            - one.begin_usage.busy_ticks
            - one.begin_usage.stolen_ticks
        )
        all_of_it = spent + one.end_usage.idle_ticks - one.begin_usage.idle_ticks
        if all_of_it <= 0:
            return 0.0
        cores = all_of_it / 100 / max(one.duration_s, 1e-9)  # the system counts in ticks of 0.01 s
        return max(
            0.0, cores * spent / all_of_it - sum(map(processor_seconds, ranks_on_host)) / max(one.duration_s, 1e-9)
        )

    @property
    def profiling_layer_share(self) -> float:
        """Returns the share of the run that the profiling layer itself took, on the rank with the largest share. It is
        a lower bound, since the layer's cost per call was measured with cached data and without a program that competes
        for memory."""
        spent = [
            (sum(one.num_calls for one in rank.call_groups) * rank.layer_call_ns / 1e9, rank.duration_s)
            for rank in self.ranks
        ]
        return max((layer / seconds for layer, seconds in spent if seconds > 0), default=0.0)

    def inconclusive_reasons(self) -> list[str]:
        """Returns the reasons why the run is not conclusive; empty if it is."""
        if not self.ranks:
            return ["no process called MPI_Init under the layer (it may be linked statically, or use MPI sessions)"]
        return [*self._missing_data_reasons(), *self._disturbance_reasons()]

    def _missing_data_reasons(self) -> list[str]:
        """Returns the reasons why the records of the run are not complete enough for conclusions."""
        reasons = []
        world = [rank for rank in self.ranks if not rank.is_spawned]
        expected = max((rank.num_ranks for rank in world), default=0)
        if 0 < len(world) < expected:
            reasons.append(f"{len(world)} of {expected} ranks were recorded (other nodes must see the folder: --out)")
        if len(world) > expected == 1:
            reasons.append(f"each of {len(world)} processes was alone in MPI_COMM_WORLD: the launcher is another MPI's")
        if dead := [f"rank {rank.rank}" for rank in self.ranks if rank.state is not RecordingState.FINALIZED]:
            reasons.append(f"{join_and(dead[:8])} ended without MPI_Finalize")
        if lost := sum(rank.num_lost_threads for rank in self.ranks):
            reasons.append(f"{counted(lost, 'thread')} called MPI beyond those that are recorded")
        if not any(rank.call_groups for rank in self.ranks):
            reasons.append("no rank called MPI between MPI_Init and MPI_Finalize")
        if self.duration_s < MIN_CONCLUSIVE_S:
            reasons.append(f"the run took {self.duration_s:.2f} s, which is too short")
        return reasons

    def _disturbance_reasons(self) -> list[str]:
        """Returns the reasons why other processes have disturbed the run."""
        if self.share_without_core <= BUSY_SHARE:
            return []
        share = f"{self.share_without_core:.0%} of the time in which the ranks could run they had no core"
        if crowded := self.oversubscribed_node:
            return [f"{share}: {crowded[0]} ranks share {crowded[1]} cores"]
        return [f"{share}: other programs ran there"]

    def call_summaries(self) -> list[CallSummary]:
        """Returns the MPI calls of all ranks, summed by function, size class and code location, the longest time
        first."""
        return self._call_summaries

    @cached_property
    def _call_summaries(self) -> list[CallSummary]:
        """Returns the MPI calls of all ranks, summed by function, size class and code location, the longest time
        first."""
        groups: dict[tuple[str, int, str], list[tuple[CallGroup, int]]] = defaultdict(list)
        for rank in self.ranks:
            for one in rank.call_groups:
                groups[one.name, one.size_class, self._location_text(one.site)].append((one, rank.num_ranks))
        lines = [CallSummary(members, self.message_times, where) for (_, _, where), members in groups.items()]
        return sorted(lines, key=lambda line: -line.duration_s)

    def _location_text(self, site: CodeLocation | None) -> str:
        """Returns a code location as 'file.c:12 (function)', or as object and offset if the source line is unknown."""
        if not site:
            return "-"
        text = str(self._source_lines.get(site, UNKNOWN_NAME))
        return text if not text.startswith(UNKNOWN_NAME) else f"{Path(site[0]).name}+{site[1]:#x}"

    @cached_property
    def _source_lines(self) -> dict[CodeLocation, source_lines.SourceLine]:
        """Returns the source lines of the code locations with the longest times. A lookup of all locations might take
        long."""
        seconds: dict[CodeLocation, float] = defaultdict(float)
        for rank in self.ranks:
            for one in rank.call_groups:
                if one.site:
                    seconds[one.site] += one.duration_s
        return source_lines.find_source_lines(sorted(seconds, key=lambda site: -seconds[site])[:MAX_LOCATIONS])


class CallSummary:
    """The calls of one MPI function from one code location with one size class, summed over all ranks."""

    def __init__(
        self, members: Sequence[tuple[CallGroup, int]], message_times: MeasuredMessageTimes | None, source_line: str
    ) -> None:
        self.name, self.source_line = members[0][0].name, source_line
        self.num_calls = sum(one.num_calls for one, _ in members)
        self.num_messages = sum(one.num_messages for one, _ in members)
        self.total_bytes = sum(one.total_bytes for one, _ in members)
        self.duration_s = sum(one.duration_s for one, _ in members)
        moved = [message_times.transfer_s(one, ranks) if message_times else None for one, ranks in members]
        known_transfers = [one for one in moved if one is not None]
        self.waiting_s: float | None = (
            self.duration_s - sum(known_transfers) if len(known_transfers) == len(moved) else None
        )

    @property
    def mean_bytes(self) -> float:
        """Returns the mean size of a message in bytes; 0 without messages."""
        return self.total_bytes / self.num_messages if self.num_messages else 0.0
