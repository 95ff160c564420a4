"""Collects what run.toml says of a measured profile."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.measure.live.collect import Collection, disturbed_share
from nearfield.measure.live.facts import capture_host
from nearfield.measure.live.lines import DescribedScenario, LaunchLine
from nearfield.measure.live.switches import add_steps, name_switches
from nearfield.measure.request import Request
from nearfield.measure.row import Row
from nearfield.measure.run_toml import Circumstances
from nearfield.mpi import Installation
from nearfield.profile import schema
from nearfield.topology import Topology

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


def circumstances(facts: Facts, found: Collection, rows: list[Row], skipped: dict[str, str]) -> Circumstances:
    """Returns what run.toml says. `skipped` maps a scenario that could not be launched to the reason."""
    header = found.headers[0]
    return Circumstances(
        mpi=_mpi(facts, header),
        host=capture_host(facts.topology),
        scenarios=[_described(s) for s in facts.scenarios],
        switches=add_steps(name_switches(found.switches, header.variables), rows, header.variables),
        skipped=_skipped(found, skipped),
        counters=_counters(rows),
        clock=schema.RunClock(
            resolution_ns=header.clock_resolution_ns,
            overhead_ns=header.clock_overhead_ns,
            ticks_per_ns=header.ticks_per_ns,
        ),
        calibration=_calibration(header),
        disturbed_share=disturbed_share(found),
        launches=facts.launches,
    )


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


def _calibration(header: LaunchLine) -> schema.Calibration:
    return schema.Calibration.model_validate(header.model_dump(include=set(schema.Calibration.model_fields)))


def _skipped(found: Collection, not_launched: dict[str, str]) -> list[schema.Skipped]:
    """Returns each reason once, although every launch gives it."""
    reasons = [schema.Skipped(scenario=name, reason=reason) for name, reason in not_launched.items()]
    return list({(one.scenario, one.reason, one.distance): one for one in reasons + found.skipped}.values())


def _counters(rows: list[Row]) -> dict[str, str]:
    counted = {row["metric"]: "available" for row in rows if row["value"] is not None}
    missing = {row["metric"]: row["note"] for row in rows if row["value"] is None}
    told = missing | counted
    return {name: told.get(name, "not counted: no scenario came to its end") for name in COUNTERS}


def _described(scenario: DescribedScenario) -> schema.Scenario:
    return schema.Scenario.model_validate(scenario.model_dump(include=set(schema.Scenario.model_fields)))
