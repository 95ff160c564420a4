"""Builds the contents of run.toml for a measured profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from nearfield.base.toml import Table
from nearfield.base.topology import Topology
from nearfield.measure.live.collect import CollectedOutput, disturbed_repetition_share
from nearfield.measure.live.facts import capture_host
from nearfield.measure.live.lines import DescribedScenario, LaunchLine
from nearfield.measure.live.switches import add_steps, name_switches
from nearfield.measure.request import Request
from nearfield.measure.row import Row
from nearfield.mpi import Installation
from nearfield.profile import schema

TableType = TypeVar("TableType", bound=Table)
PERFORMANCE_COUNTERS = ("page_faults", "context_switches", "l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses")


@dataclass(frozen=True)
class RunContext:
    """The facts of a run that do not come from the engine's output."""

    request: Request
    inst: Installation
    transport_or_reason: tuple[str | None, str]  # (name, ''), or (None, reason) if the transport is unknown
    topology: Topology
    scenarios: list[DescribedScenario]
    launches: list[schema.Launch]


def run_metadata(
    context: RunContext, collection: CollectedOutput, rows: list[Row], skip_reasons: dict[str, str]
) -> dict[str, Any]:
    """Returns the keyword arguments of `make_run` that only the live backend knows. `skip_reasons` maps scenarios that
    could not be launched to the reason."""
    header = collection.launch_lines[0]
    return {
        "mpi": _make_mpi_table(context, header),
        "host": capture_host(context.topology),
        "scenarios": [_copy_common_fields(s, schema.Scenario) for s in context.scenarios],
        "switch": add_steps(name_switches(collection.switches, header.variables), rows, header.variables),
        "skipped": _collect_skipped(collection, skip_reasons),
        "counters": _counter_availability(rows),
        "clock": schema.RunClock(
            resolution_ns=header.clock_resolution_ns,
            overhead_ns=header.clock_overhead_ns,
            ticks_per_ns=header.ticks_per_ns,
        ),
        "calibration": _copy_common_fields(header, schema.Calibration),
        "disturbed_share": disturbed_repetition_share(collection),
        "place": collection.places(),
        "launch": context.launches,
    }


def _make_mpi_table(context: RunContext, header: LaunchLine) -> schema.Mpi:
    transport, reason = context.transport_or_reason
    return schema.Mpi(
        name=context.inst.name,
        family=context.inst.family,
        version=context.inst.version,
        library=header.library,
        transport=transport,
        transport_reason=reason or None,
        launcher=context.request.launcher or str(context.inst.launcher),
        variables=header.variables,
    )


def _collect_skipped(collection: CollectedOutput, not_launched: dict[str, str]) -> list[schema.SkippedMeasurement]:
    """Returns every skipped scenario once, although each launch reports it."""
    reasons = [schema.SkippedMeasurement(scenario=name, reason=reason) for name, reason in not_launched.items()]
    return list({(one.scenario, one.reason, one.distance): one for one in reasons + collection.skipped}.values())


def _counter_availability(rows: list[Row]) -> dict[str, str]:
    """Returns performance counter -> "available", or the reason why it was not counted."""
    counted = {row["metric"]: "available" for row in rows if row["value"] is not None}
    missing = {row["metric"]: row["note"] for row in rows if row["value"] is None}
    states = missing | counted
    return {name: states.get(name, "not counted: no scenario was completed") for name in PERFORMANCE_COUNTERS}


def _copy_common_fields(line: Table, table_type: type[TableType]) -> TableType:
    """Returns a table of the given kind with the fields that the line has in common with it."""
    return table_type.model_validate(line.model_dump(include=set(table_type.model_fields)))
