"""Renders the times between pairs of cores: as a heat map if any core distance has several measured pairs, and as a
small table."""

from __future__ import annotations

import re

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import (
    MAX_PLOTTED_PLACES,
    Place,
    Point,
    first_place_per_distance,
    places_of_scenario,
    point_of,
    select_records,
)
from nearfield.report.derived_metrics import explain_invalid_floor
from nearfield.report.plots.chart import Chart, ChartVariant, Figure
from nearfield.report.plots.series import point_text
from nearfield.ui.html import table, tag, text

TABLE_SIZES = (8, 4096, 65536, 1 << 20)


def pairs_table_html(profile: Profile) -> str:
    """Returns an HTML table with the core-to-core latency and the times of some message sizes for each pair of cores.
    If there is also a heat map, the table has only one pair per core distance. Returns '' if no pair was measured."""
    columns = _points_by_column(profile)
    places = _measured_places(profile)
    rows = [
        [
            text(place.distance or ""),
            text(place.pair or ""),
            *(_point_html(points[place]) if place in points else "" for points in columns.values()),
        ]
        for place in (first_place_per_distance(places) if _has_multiple_pairs_per_distance(places) else places)
    ]
    failures = (explain_invalid_floor(profile.records, place) for place in first_place_per_distance(places))
    failures_html = "".join(tag("p", text(failure), class_="quiet") for failure in failures if failure)
    return table(["distance", "PUs", *map(text, columns)], rows, class_="numbers") + failures_html if rows else ""


def heat_map_charts(profile: Profile) -> list[Chart]:
    """Returns a list with the heat map over pairs of PUs (hardware threads); [] unless some core distance has several
    pairs."""
    places = _measured_places(profile)
    if not _has_multiple_pairs_per_distance(places):
        return []
    variants = [
        ChartVariant({"show": show}, _heat_map_figure(points)) for show, points in _points_by_column(profile).items()
    ]
    caption = "One cell for each pair measured, at the PUs of its row and its column; both directions are one pair."
    if len(places) > MAX_PLOTTED_PLACES:
        caption += f" The plots below show one pair for each distance; {len(places)} were measured."
    return [Chart("core-to-core", "Core to core", caption, variants)] if variants else []


def _points_by_column(profile: Profile) -> dict[str, dict[Place, Point]]:
    """Returns column title -> pair -> value. Computes each column in one pass, since there may be thousands of
    pairs."""
    flags = select_records(profile.records, scenario="floor", metric="time", kind="flag")
    messages = select_records(profile.records, scenario="pingpong", metric="half_round_trip", state="reused")
    columns = {"flag, one way": flags}
    columns |= {f"message of {format_bytes(s)}": select_records(messages, size_bytes=s) for s in TABLE_SIZES}
    points_by_title = {title: _points_by_place(rows) for title, rows in columns.items()}
    return {title: points for title, points in points_by_title.items() if points}


def _point_html(point: Point) -> str:
    """Returns the HTML of a point. In a narrow column, the line can break only before the interval."""
    value, bracket, interval = text(point_text(point)).partition("[")
    return value + bracket + interval.replace(" ", "\u00a0")


def _points_by_place(rows: pl.DataFrame) -> dict[Place, Point]:
    values = rows.filter(pl.col("value").is_not_null())
    return {Place(row["distance"], row["pair"]): point_of(row) for row in values.iter_rows(named=True)}


def _has_multiple_pairs_per_distance(places: list[Place]) -> bool:
    pairs = [place for place in places if _pus_of_pair(place)]
    return len(pairs) > len({place.distance for place in pairs})


def _heat_map_figure(points: dict[Place, Point]) -> Figure:
    points = {place: point for place, point in points.items() if _pus_of_pair(place)}
    pus = sorted({pu for place in points for pu in _pus_of_pair(place)})
    cells: dict[tuple[tuple[str, int], tuple[str, int]], tuple[Place, Point]] = {}
    for place, point in points.items():
        a, b = _pus_of_pair(place)
        cells[a, b] = cells[b, a] = (place, point)
    grid = [[cells.get((row, column)) for column in pus] for row in pus]
    labels = _pu_labels(pus)
    has_cell_texts = len(pus) <= 16
    data = {
        "type": "heatmap", "x": labels, "y": labels, "xgap": 1, "ygap": 1, "colorscale": "Cividis",
        "z": [[c[1].value if c else None for c in row] for row in grid],
        "text": [[format_ns(c[1].value) if c else "" for c in row] for row in grid],
        "texttemplate": "%{text}" if has_cell_texts else "",
        "customdata": [[f"{c[0].label}<br>{point_text(c[1])}" if c else "" for c in row] for row in grid],
        "hovertemplate": "%{customdata}<extra></extra>", "hoverongaps": False,
        "colorbar": {"title": {"text": "ns"}, "thickness": 12, "outlinewidth": 0},
    }  # fmt: skip
    axis = {"type": "category", "showgrid": False, "automargin": True, "linecolor": "@line", "constrain": "domain"}
    return {
        "data": [data],
        "layout": {
            "xaxis": {**axis, "title": {"text": "PU"}},
            "yaxis": {**axis, "title": {"text": "PU"}, "autorange": "reversed", "scaleanchor": "x"},
            "margin": {"l": 56, "r": 8, "t": 8, "b": 48},
        },
    }


def _pu_labels(pus: list[tuple[str, int]]) -> list[str]:
    """Returns labels such as '3' for PU 3, or 'host:3' if there are several hosts."""
    has_several_hosts = len({host for host, _ in pus}) > 1
    return [f"{host}:{pu}" if has_several_hosts else str(pu) for host, pu in pus]


def _measured_places(profile: Profile) -> list[Place]:
    return list(
        dict.fromkeys([*places_of_scenario(profile.records, "pingpong"), *places_of_scenario(profile.records, "floor")])
    )


def _pus_of_pair(place: Place) -> list[tuple[str, int]]:
    """Returns (host, PU) of both ends of a pair, where the host is '' for pairs within a node; [] if the pair has
    another format."""
    match = re.fullmatch(r"(?:(.+):)?(\d+)-(?:(.+):)?(\d+)", place.pair or "")
    return [(match[1] or "", int(match[2])), (match[3] or "", int(match[4]))] if match else []
