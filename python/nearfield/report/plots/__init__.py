"""The plots of the report: one module per scenario with TITLE, SHORT (for the navigation) and charts(profile).

A scenario without a module gets a generic plot. To add a plot, add a module and an entry in SCENARIOS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

from nearfield.profile import Profile
from nearfield.profile.curves import restrict_to_one_machine, without_sweeps
from nearfield.report.derived_metrics import has_values
from nearfield.report.plots import (
    application,
    collective,
    floor,
    generic,
    load,
    machines,
    pages,
    pingpong,
    pollution,
    program,
    protocol,
    stride,
    sweep,
)
from nearfield.report.plots.chart import Chart

# scenario -> module with its plots, in the order of the page
SCENARIOS: dict[str, ModuleType] = {
    "pingpong": pingpong,
    "floor": floor,
    "protocol": protocol,
    "pollution": pollution,
    "stride": stride,
    "pages": pages,
    "collective": collective,
    "application": application,
    "program": program,
    "load": load,
}


@dataclass(frozen=True)
class Section:
    """The section of a scenario on the page. `summary` is the engine's description, for a scenario without a module;
    `remarks` explain what has no plot, and why."""

    scenario: str
    title: str
    short: str
    summary: str
    charts: list[Chart] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def sections(profile: Profile) -> list[Section]:
    """Returns a section for every scenario that was measured or skipped, and one for sweeps over keys of a machine
    file."""
    described = without_sweeps(profile)
    present = list(dict.fromkeys([*described.records["scenario"], *(s.scenario for s in profile.run.skipped)]))
    known = [name for name in SCENARIOS if name in present]
    found = [_section(described, name) for name in [*known, *(n for n in present if n not in SCENARIOS)]]
    charts = sweep.charts(profile)
    return [*found, *([Section("sweep", sweep.TITLE, sweep.SHORT, "", charts)] if charts else [])]


def _section(profile: Profile, scenario: str) -> Section:
    module = SCENARIOS.get(scenario)
    charts: list[Chart] = []
    if has_values(profile.records, scenario):
        same = restrict_to_one_machine(profile)
        charts = module.charts(same) if module else []
        charts = charts or generic.charts(same, scenario)
        charts += machines.charts(profile, scenario)
    remarks = _skipped(profile, scenario)
    if not charts and not remarks:
        remarks = ["Nothing was measured here: every record is without a value."]
    if module:
        return Section(scenario, module.TITLE, module.SHORT, "", charts, remarks)
    summary = next((s.summary for s in profile.run.scenario if s.name == scenario), "")
    return Section(scenario, scenario, scenario, summary, charts, remarks)


def _skipped(profile: Profile, scenario: str) -> list[str]:
    return [
        f"Not measured: {s.reason}{f' ({s.distance})' if s.distance else ''}."
        for s in profile.run.skipped
        if s.scenario == scenario
    ]


__all__ = ["SCENARIOS", "Section", "sections"]
