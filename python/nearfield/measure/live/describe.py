"""Collects what run.toml says of a measured profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from nearfield.base.toml import Table
from nearfield.base.topology import Topology
from nearfield.measure.live.collect import Collection, disturbed_share
from nearfield.measure.live.facts import capture_host
from nearfield.measure.live.lines import DescribedScenario, LaunchLine
from nearfield.measure.live.switches import add_steps, name_switches
from nearfield.measure.request import Request
from nearfield.measure.row import Row
from nearfield.mpi import Installation
from nearfield.profile import schema

Kind = TypeVar("Kind", bound=Table)
COUNTERS = ("page_faults", "context_switches", "l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses")


@dataclass(frozen=True)
class Facts:
    """The facts of a run that do not come from its measurements."""

    request: Request
    inst: Installation
    transport: tuple[str | None, str]  # None and the reason if it is not known
    topology: Topology
    scenarios: list[DescribedScenario]
    launches: list[schema.Launch]


def circumstances(facts: Facts, found: Collection, rows: list[Row], skipped: dict[str, str]) -> dict[str, Any]:
    """Returns what `run_of` is to know. `skipped`: scenarios that could not be launched, and why."""
    header = found.headers[0]
    return {
        "mpi": _mpi(facts, header),
        "host": capture_host(facts.topology),
        "scenarios": [_part(s, schema.Scenario) for s in facts.scenarios],
        "switch": add_steps(name_switches(found.switches, header.variables), rows, header.variables),
        "skipped": _skipped(found, skipped),
        "counters": _counters(rows),
        "clock": schema.RunClock(
            resolution_ns=header.clock_resolution_ns,
            overhead_ns=header.clock_overhead_ns,
            ticks_per_ns=header.ticks_per_ns,
        ),
        "calibration": _part(header, schema.Calibration),
        "disturbed_share": disturbed_share(found),
        "launch": facts.launches,
    }


def _mpi(facts: Facts, header: LaunchLine) -> schema.Mpi:
    transport, reason = facts.transport
    return schema.Mpi(
        name=facts.inst.name,
        family=facts.inst.family,
        version=facts.inst.version,
        library=header.library,
        transport=transport,
        transport_reason=reason or None,
        launcher=facts.request.launcher or str(facts.inst.launcher),
        variables=header.variables,
    )


def _skipped(found: Collection, not_launched: dict[str, str]) -> list[schema.Skipped]:
    """Returns each reason once, although every launch gives it."""
    reasons = [schema.Skipped(scenario=name, reason=reason) for name, reason in not_launched.items()]
    return list({(one.scenario, one.reason, one.distance): one for one in reasons + found.skipped}.values())


def _counters(rows: list[Row]) -> dict[str, str]:
    counted = {row["metric"]: "available" for row in rows if row["value"] is not None}
    missing = {row["metric"]: row["note"] for row in rows if row["value"] is None}
    told = missing | counted
    return {name: told.get(name, "not counted: no scenario came to its end") for name in COUNTERS}


def _part(line: Table, kind: type[Kind]) -> Kind:
    """Returns what the line has of such a table."""
    return kind.model_validate(line.model_dump(include=set(kind.model_fields)))
