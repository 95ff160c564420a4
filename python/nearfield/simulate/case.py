"""One run of the simulator: a collective or an application at one size on so many nodes, by several policies at several
memory speeds. What a process of a pool is sent, and what it sends back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from nearfield._native import simulation
from nearfield.machine import DescribedMachine
from nearfield.machine.native import native

LINES_OF_APPLICATION = 150  # per line of a rank's data, as it is gone through again and again


@dataclass(frozen=True)
class Case:
    machine: DescribedMachine
    operation: str  # a collective or an application
    size_bytes: int
    nodes: int
    ranks_per_node: int
    policies: tuple[str, ...]  # the first one's events set the order in which things happen
    slowdowns: tuple[float, ...]
    repetitions: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def work(self) -> float:
        """Roughly how long it takes, in units of a line's way through one cache system."""
        if is_application(self.operation):
            lines = self.size_bytes / 128 * LINES_OF_APPLICATION
        else:
            lines = collectives()[self.operation].whole_bytes(self.size_bytes, self.ranks) / 128
        return self.repetitions * self.ranks * (20 + lines) * len(self.policies)

    def __str__(self) -> str:
        return f"{self.operation} of {self.size_bytes} B on {self.nodes} nodes"


@dataclass(frozen=True)
class PolicyResult:
    policy: str
    times_ns: dict[float, list[float]]  # memory slowdown -> repetitions
    polls: dict[float, list[int]]
    counts: list[dict[str, int]]  # per repetition


@dataclass(frozen=True)
class Result:
    policies: list[PolicyResult]
    events: int
    network_messages: list[int]  # per repetition
    network_bytes: list[int]
    seconds: float  # of this process


def run_case(case: Case) -> Result:
    """ValueError for what the simulator refuses."""
    started = time.process_time()
    run = simulation.run_application if is_application(case.operation) else simulation.run_collective
    repetitions = run(
        native(case.machine), case.operation, case.size_bytes, case.nodes, case.ranks_per_node,
        policies=list(case.policies), memory_slowdown=list(case.slowdowns), repetitions=case.repetitions,
    )  # fmt: skip
    return Result(
        policies=[_of_policy(case, number, repetitions) for number in range(len(case.policies))],
        events=sum(one.events for one in repetitions),
        network_messages=[one.messages for one in repetitions],
        network_bytes=[one.network_bytes for one in repetitions],
        seconds=time.process_time() - started,
    )


def _of_policy(case: Case, number: int, repetitions: list[Any]) -> PolicyResult:
    variants = [one.variants[number] for one in repetitions]
    times = {factor: [v.time_ns[lane] for v in variants] for lane, factor in enumerate(case.slowdowns)}
    polls = {factor: [v.polls[lane] for v in variants] for lane, factor in enumerate(case.slowdowns)}
    return PolicyResult(case.policies[number], times, polls, [dict(v.counts) for v in variants])


@cache
def collectives() -> dict[str, simulation.Collective]:
    return {spec.name: spec for spec in simulation.collectives()}


@cache
def applications() -> dict[str, simulation.Application]:
    return {spec.name: spec for spec in simulation.applications()}


def is_application(operation: str) -> bool:
    return operation in applications()


@cache
def metrics() -> dict[str, tuple[str, str]]:
    """Metric of the records -> unit, what it says."""
    return {
        "time": ("ns", "until the last rank is done"),
        "mean_time": ("ns", "its mean over the repetitions, the first one included"),
        "first_time": ("ns", "of the first repetition, whose caches hold nothing that arrived"),
        "dram_reads": ("count", "lines read for loads and stores; counts are of all nodes, the mean repetition's"),
        "dram_writes": ("count", "lines that caches wrote back"),
        "dram_prefetches": ("count", "lines fetched ahead"),
        "dram_dma_reads": ("count", "lines read by NICs"),
        "dram_dma_writes": ("count", "lines written by NICs"),
        "dram_bytes": ("bytes", "all traffic of DRAM"),
        "nic_events": ("count", "entries of event queues"),
        "nic_polls": ("count", "looks of cores at their event queues, those that find nothing included"),
        "network_messages": ("count", "messages between nodes"),
        "network_bytes": ("bytes", "what they carried"),
        "lN_misses": ("count", "misses of cache level N"),
        "lN_injected": ("count", "lines that NICs put into it"),
        "lN_injected_unused": ("count", "of these, lost before they were used"),
        "lN_victims_missed": ("count", "lines that made room for these and were missed again"),
    }
