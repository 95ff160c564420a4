"""Puts one profile on one sheet, for a talk: the machine, its most important findings and one plot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nearfield.profile import Profile
from nearfield.report.evidence import narrowed
from nearfield.report.findings import Finding, findings
from nearfield.report.frame import asset, framed
from nearfield.report.markup import tag
from nearfield.report.page import banners, chart_place, finding_item, headline, label_of, scripts_of
from nearfield.report.plots import sections
from nearfield.report.plots.chart import Chart
from nearfield.report.tuned import tuned_section
from nearfield.report.writing import write_whole
from nearfield.tune.rules import Rules

MOST = 3  # number of findings


def render(profile: Profile, tuned: Rules | None = None, apply: str = "") -> str:
    """Returns the whole page, which prints on one sheet; reads only the package's own files."""
    found = findings(profile, tuned, apply)
    charts = _first_chart(profile, tuned)
    return framed(
        title=f"nearfield: {profile.machine.name}, {profile.run.mpi.name}",
        verb="summary",
        headline=headline(profile),
        links=[],
        main=banners(profile, found) + _most_important(found) + "".join(map(chart_place, charts)),
        style=asset("summary.css"),
        scripts=scripts_of(charts, label_of(profile)),
    )


def write(profile: Profile, path: Path, tuned: Rules | None = None, apply: str = "") -> Path:
    """Writes the page, whole or not at all. Raises ProfileError if it cannot be written."""
    return write_whole(path, render(profile, tuned, apply))


def _most_important(found: list[Finding]) -> str:
    told = [f for f in found if f.level not in ("warning", "note")][:MOST]
    return tag("ol", "".join(map(finding_item, told)), class_="findings")


def _first_chart(profile: Profile, tuned: Rules | None) -> list[Chart]:
    """Returns the first chart as it is drawn before a click; none if the profile has no values."""
    parts = ([tuned_section(tuned)] if tuned else []) + sections(narrowed(profile))
    charts = [replace(chart, variants=chart.variants[:1]) for part in parts for chart in part.charts]
    return charts[:1]
