"""The HTML page of a validation: the table of scores, and measured and simulated curves in the same plots."""

from __future__ import annotations

from dataclasses import replace

from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.records import from_rows
from nearfield.report.overlay import distances, overlay_profiles
from nearfield.report.page import chart_scripts, place_selector, section_html
from nearfield.ui.html import framed_page, read_asset, table, tag, text
from nearfield.validate import table as tables
from nearfield.validate.cases import simulated_rows
from nearfield.validate.validation import Validation

MEASURED, SIMULATED = "measured", "simulated"
LEGEND = (
    "Mean: geometric mean of simulated over measured. Spread: one standard deviation, as a factor. Error: mean of the "
    "absolute logarithm, as a factor. Live repeat: the same error of a second measurement; without one, the half width "
    "of the intervals."
)


def render_page(found: Validation) -> str:
    """Returns the HTML page; without a profile, without curves."""
    parts = (
        overlay_profiles({MEASURED: _measured_profile(found), SIMULATED: _simulated_profile(found)})
        if found.profile
        else []
    )
    doubts = "".join(tag("p", text(f"Cannot tell: {doubt}."), class_="banner", role="alert") for doubt in found.doubts)
    rows = [[text(cell) for cell in row] for row in tables.table_rows(found)]
    notes = tag("ul", "".join(tag("li", text(capitalize(note) + ".")) for note in tables.table_notes(found)))
    summary = table(list(tables.HEADER), rows, class_="numbers") + tag("p", LEGEND, class_="quiet") + notes
    main = doubts + tag("section", tag("h2", "How far predictions are from measurements") + summary, id="scores")
    main += "".join(map(section_html, parts))
    title = tag("h1", text(f"{found.machine.name} against {', '.join(found.against)}"))
    charts = [chart for part in parts for chart in part.charts]
    return framed_page(
        title=f"nearfield: {found.machine.name} validated",
        verb="machine validate",
        headline=title + tag("p", text(found.machine.title), class_="facts-line"),
        links=[("scores", "Scores"), *((f"s-{part.scenario}", part.short) for part in parts)],
        main=main,
        controls=place_selector(distances(parts)),
        style=read_asset("comparison.css"),
        scripts=chart_scripts(charts, found.machine.title) if charts else "",
    )


def _measured_profile(found: Validation) -> Profile:
    """Returns the profile reduced to the records that have a simulated time."""
    assert found.profile
    return replace(found.profile, records=from_rows(_without_nulls(pair.row) for pair in found.simulated.pairs))


def _simulated_profile(found: Validation) -> Profile:
    """Returns the simulated times as a profile of the same machine."""
    assert found.profile
    records = from_rows(simulated_rows(found.simulated.pairs))
    run = found.profile.run.model_copy(update={"backend": "sim", "simulated": found.machine.name, "switch": []})
    return replace(found.profile, run=run, records=records)


def _without_nulls(row: dict[str, object]) -> dict[str, object]:
    return {name: one for name, one in row.items() if one is not None}
