"""The plots of the report. Each scenario has a module with TITLE, NAVIGATION_TITLE (its title in the navigation) and
charts(profile).

A scenario without a module gets a generic plot. To add a plot, add a module and an entry in SCENARIOS."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

from nearfield.profile import Profile
from nearfield.profile.curves import restrict_to_one_machine, without_swept_records
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
class PlotSection:
    """The section of a scenario on the page. `summary` is the description that the benchmark engine gives, for a
    scenario without a module; `remarks` say what has no plot, and why."""

    scenario: str
    title: str
    navigation_title: str
    summary: str
    charts: list[Chart] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def sections(profile: Profile) -> list[PlotSection]:
    """Returns a section for every scenario that was measured or skipped, and one for simulated sweeps over values of
    the machine's description."""
    described = without_swept_records(profile)
    present_scenarios = list(
        dict.fromkeys([*described.records["scenario"], *(s.scenario for s in profile.run.skipped)])
    )
    ordered_scenarios = [name for name in SCENARIOS if name in present_scenarios]
    found = [
        _section_of_scenario(described, name)
        for name in [*ordered_scenarios, *(n for n in present_scenarios if n not in SCENARIOS)]
    ]
    charts = sweep.charts(profile)
    return [*found, *([PlotSection("sweep", sweep.TITLE, sweep.NAVIGATION_TITLE, "", charts)] if charts else [])]


def _section_of_scenario(profile: Profile, scenario: str) -> PlotSection:
    module = SCENARIOS.get(scenario)
    charts: list[Chart] = []
    if has_values(profile.records, scenario):
        one_machine = restrict_to_one_machine(profile)
        charts = module.charts(one_machine) if module else []
        charts = charts or generic.charts(one_machine, scenario)
        charts += machines.charts(profile, scenario)
    remarks = _skipped_remarks(profile, scenario)
    if not charts and not remarks:
        remarks = ["Nothing was measured here: every record is without a value."]
    if module:
        return PlotSection(scenario, module.TITLE, module.NAVIGATION_TITLE, "", charts, remarks)
    summary = next((s.summary for s in profile.run.scenario if s.name == scenario), "")
    return PlotSection(scenario, scenario, scenario, summary, charts, remarks)


def _skipped_remarks(profile: Profile, scenario: str) -> list[str]:
    return [
        f"Not measured: {s.reason}{f' ({s.distance})' if s.distance else ''}."
        for s in profile.run.skipped
        if s.scenario == scenario
    ]


__all__ = ["SCENARIOS", "PlotSection", "sections"]
