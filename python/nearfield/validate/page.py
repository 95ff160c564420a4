"""Renders the HTML page of a validation: the table of scores, and plots with both the measured and the simulated
curves."""

from __future__ import annotations

from dataclasses import replace

from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.records import from_rows
from nearfield.report.overlay import overlay_profiles, selectable_distances
from nearfield.report.page import chart_scripts, place_selector_html, section_html
from nearfield.ui.html import framed_page, read_asset, table, tag, text
from nearfield.validate import table as tables
from nearfield.validate.cases import simulated_rows
from nearfield.validate.validation import Validation

MEASURED_LABEL, SIMULATED_LABEL = "measured", "simulated"
SCORE_LEGEND = (
    "Mean: geometric mean of simulated over measured. Spread: one standard deviation, as a factor. Error: mean of the "
    "absolute logarithm, as a factor. Live repeat: the same error of a second measurement; without one, the half width "
    "of the intervals."
)


def render_page(validation: Validation) -> str:
    """Returns the HTML page. It has no curves if the machine was compared with a table of times instead of a
    profile."""
    sections = (
        overlay_profiles(
            {MEASURED_LABEL: _measured_profile(validation), SIMULATED_LABEL: _simulated_profile(validation)}
        )
        if validation.profile
        else []
    )
    doubts = "".join(
        tag("p", text(f"Cannot tell: {doubt}."), class_="banner", role="alert") for doubt in validation.doubts
    )
    rows = [[text(cell) for cell in row] for row in tables.table_rows(validation)]
    notes = tag("ul", "".join(tag("li", text(capitalize(note) + ".")) for note in tables.table_notes(validation)))
    summary = table(list(tables.TABLE_HEADER), rows, class_="numbers") + tag("p", SCORE_LEGEND, class_="quiet") + notes
    main = doubts + tag("section", tag("h2", "How far predictions are from measurements") + summary, id="scores")
    main += "".join(map(section_html, sections))
    title = tag("h1", text(f"{validation.machine.name} against {', '.join(validation.reference_names)}"))
    charts = [chart for part in sections for chart in part.charts]
    return framed_page(
        title=f"nearfield: {validation.machine.name} validated",
        verb="machine validate",
        headline=title + tag("p", text(validation.machine.title), class_="facts-line"),
        links=[("scores", "Scores"), *((f"s-{part.scenario}", part.navigation_title) for part in sections)],
        main=main,
        controls=place_selector_html(selectable_distances(sections)),
        style=read_asset("comparison.css"),
        scripts=chart_scripts(charts, validation.machine.title) if charts else "",
    )


def _measured_profile(validation: Validation) -> Profile:
    """Returns the measured profile with only those records for which there is a simulated time."""
    assert validation.profile
    return replace(
        validation.profile,
        records=from_rows(_without_nulls(pair.measured_row) for pair in validation.simulated_cases.pairs),
    )


def _simulated_profile(validation: Validation) -> Profile:
    """Returns the simulated times as a profile of the same machine."""
    assert validation.profile
    records = from_rows(simulated_rows(validation.simulated_cases.pairs))
    run = validation.profile.run.model_copy(
        update={"backend": "sim", "simulated": validation.machine.name, "switch": []}
    )
    return replace(validation.profile, run=run, records=records)


def _without_nulls(row: dict[str, object]) -> dict[str, object]:
    return {name: one for name, one in row.items() if one is not None}
