"""Builds machine.toml and run.toml of a simulated profile. A value that the machine's description lacks is absent."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable
from typing import Any

from nearfield._native import simulation
from nearfield.machine import DescribedMachine
from nearfield.measure.row import Row, parameters_of
from nearfield.measure.sim.cases import POLICY_COLUMN, SLOWDOWN_COLUMN, scenarios
from nearfield.measure.sim.places import SimulatedPair, all_places
from nearfield.profile import schema
from nearfield.profile.records import SWEPT_PARAMETER_PREFIX

SIMULATOR_VERSION = "2"  # version of the simulator; must change whenever the same input gives other results
SkippedScenario = tuple[str, str | None, str]  # scenario, distance, reason
# Parameters that any simulated scenario may have -> their summary.
SUMMARY_BY_AXIS = {
    "nodes": "on how many nodes",
    POLICY_COLUMN: "where the NIC puts incoming bytes; absent: as in the machine's file",
    SLOWDOWN_COLUMN: "how many times as slow memory is as the machine describes; absent: the number does not depend "
    "on it",
}
SWEPT_KEY_SUMMARY = "a key of the machine's file, that a sweep varies; absent: as in the file"
# Protocols between nodes that have an eager limit, beyond which a send waits for the posted receive.
_PROTOCOLS_WITH_EAGER_LIMIT = ("eager-rendezvous", "buffered-synchronous")


def describe_machine(machine: DescribedMachine) -> schema.Machine:
    """Returns the contents of machine.toml for a simulated machine."""
    assert machine.cores and machine.memory
    cores, memory = machine.cores.value, machine.memory
    pages = machine.pages
    return schema.Machine(
        schema_version=1,
        name=machine.name,
        cpu_model=machine.title,
        cores=cores,
        pus=cores,
        line_bytes=machine.cache[-1].line_bytes.value,
        cache=[
            schema.Cache(
                level=level,
                kind="unified" if level > 1 else "data",
                size_bytes=cache.size_bytes.value,
                ways=cache.ways.value,
                line_bytes=cache.line_bytes.value,
                shared_by=cache.shared_by.value,
                count=max(1, cores // cache.shared_by.value),
            )
            for level, cache in enumerate(machine.cache, 1)
        ],
        memory=schema.Memory(numa_nodes=max(1, cores // memory.shared_by.value) if memory.shared_by else 1),
        pages=schema.Pages(base_bytes=pages.page_bytes.value if pages else 4096),
    )


def run_metadata(
    machine: DescribedMachine, rows: list[Row], skipped_scenarios: Iterable[SkippedScenario]
) -> dict[str, Any]:
    """Returns the keyword arguments of `make_run` that only the sim backend knows."""
    distances = {row.get("distance") for row in rows}
    places = [place for place in all_places(machine) if place.distance in distances]
    return {
        "backend": "sim",
        "simulated": machine.name,
        "simulator": SIMULATOR_VERSION,
        "mpi": _make_mpi_table(machine),
        "host": schema.Host(name=socket.gethostname(), kernel=f"{platform.system()} {platform.release()}"),
        "scenarios": [describe_scenario(spec, [row for row in rows if row["scenario"] == spec.name])
                      for spec in scenarios().values()],
        "switch": [switch for place in places for switch in _eager_limit_switches(machine, place)],
        "skipped": [schema.SkippedMeasurement(scenario=s, distance=where, reason=why)
                    for s, where, why in skipped_scenarios],
        "counters": _counter_availability(rows),
    }  # fmt: skip


def _make_mpi_table(machine: DescribedMachine) -> schema.Mpi:
    node = machine.messaging.node if machine.messaging else None
    return schema.Mpi(
        name="simulated",
        family="simulated",
        version=SIMULATOR_VERSION,
        library="the simulator's own MPI: protocols and limits of the machine's description, MPICH 1.2.7's collectives",
        transport=node.value if node else "copy-in-copy-out",
        launcher="none",
    )


def _eager_limit_switches(machine: DescribedMachine, place: SimulatedPair) -> list[schema.ProtocolSwitch]:
    """Returns the eager limit in the machine's description as protocol switches of the pair at this place."""
    messaging = machine.messaging
    if messaging is None:
        return []
    key = "eager_bytes" if place.is_between_nodes else "node_eager_bytes"
    limit, protocol = (
        getattr(messaging, key),
        messaging.network.value if messaging.network else _PROTOCOLS_WITH_EAGER_LIMIT[0],
    )
    if not limit or not limit.value or (place.is_between_nodes and protocol not in _PROTOCOLS_WITH_EAGER_LIMIT):
        return []
    has_single_copy = (
        not place.is_between_nodes and messaging.node is not None and messaging.node.value == "single-copy"
    )
    kinds: list[schema.SwitchKind] = ["eager-limit", "single-copy"] if has_single_copy else ["eager-limit"]
    switch_fields = {"pair": place.pair, "distance": place.distance, "bytes": limit.value}
    return [
        schema.ProtocolSwitch(kind=kind, evidence=f"the machine's description: messaging.{key}", **switch_fields)
        for kind in kinds
    ]


def _counter_availability(rows: list[Row]) -> dict[str, str]:
    """Returns the simulated counters that measured profiles have, too: counter -> "available", or the reason why it has
    no value."""
    availability_by_counter = {row["metric"]: row.get("note") or "available" for row in rows if row["unit"] == "count"}
    names = ("page_faults", "l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses")
    return {name: availability_by_counter[name] for name in names if name in availability_by_counter}


def describe_scenario(spec: simulation.Scenario, rows: Iterable[Row] = ()) -> schema.Scenario:
    """Returns the [[scenario]] table of run.toml, with the axes and additional metrics that occur in the rows."""
    rows = list(rows)
    present = {name: None for row in rows for name in parameters_of(row)}
    axes = [name for name in SUMMARY_BY_AXIS if name in present]
    swept = [name for name in present if name.startswith(SWEPT_PARAMETER_PREFIX)]
    metrics = {row["metric"] for row in rows}
    return schema.Scenario(
        name=spec.name,
        summary=spec.summary,
        parameters=[schema.ParameterInfo(name=p.name, summary=p.summary) for p in spec.parameters]
        + [schema.ParameterInfo(name=name, summary=SUMMARY_BY_AXIS[name]) for name in axes]
        + [schema.ParameterInfo(name=name, summary=SWEPT_KEY_SUMMARY) for name in swept],
        metrics=[schema.MetricInfo(name=m.name, unit=m.unit, summary=m.summary) for m in spec.metrics]
        + [schema.MetricInfo(name=m.name, unit=m.unit, summary=m.summary)
           for m in spec.more_metrics if m.name in metrics],
    )  # fmt: skip
