"""Shows times between pairs of cores: as a heat map if many pairs were measured, or as a small table if each core
distance has one pair."""

from __future__ import annotations

import re

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import (
    MAX_DRAWN_PLACES,
    Place,
    Point,
    first_per_distance,
    pick,
    places_of_scenario,
    point_of,
)
from nearfield.report.derived_metrics import floor_failure
from nearfield.report.plots.chart import Chart, Figure, Variant
from nearfield.report.plots.series import point_text
from nearfield.ui.html import table, tag, text

TABLE_SIZES = (8, 4096, 65536, 1 << 20)


def pairs_table(profile: Profile) -> str:
    """Returns an HTML table with the core-to-core latency and the times of some message sizes for each pair of cores;
    beside a heat map, only for one pair per core distance. Returns '' if no pair was measured."""
    columns = _collect_columns(profile)
    found = _all_places(profile)
    rows = [
        [
            text(place.distance or ""),
            text(place.pair or ""),
            *(_without_breaks(points[place]) if place in points else "" for points in columns.values()),
        ]
        for place in (first_per_distance(found) if _is_matrix(found) else found)
    ]
    failures = (floor_failure(profile.records, place) for place in first_per_distance(found))
    said = "".join(tag("p", text(failure), class_="quiet") for failure in failures if failure)
    return table(["distance", "PUs", *map(text, columns)], rows, class_="numbers") + said if rows else ""


def heat_map(profile: Profile) -> list[Chart]:
    """Returns a list with the heat map by pair of PUs; [] unless some core distance has several pairs."""
    found = _all_places(profile)
    if not _is_matrix(found):
        return []
    variants = [Variant({"show": show}, _figure(points)) for show, points in _collect_columns(profile).items()]
    caption = "One cell for each pair measured, at the PUs of its row and its column; both directions are one pair."
    if len(found) > MAX_DRAWN_PLACES:
        caption += f" The plots below show one pair for each distance; {len(found)} were measured."
    return [Chart("core-to-core", "Core to core", caption, variants)] if variants else []


def _collect_columns(profile: Profile) -> dict[str, dict[Place, Point]]:
    """Returns column title -> pair -> value. Computes each column in one pass, since there may be thousands of
    pairs."""
    flags = pick(profile.records, scenario="floor", metric="time", kind="flag")
    messages = pick(profile.records, scenario="pingpong", metric="half_round_trip", state="reused")
    columns = {"flag, one way": flags}
    columns |= {f"message of {format_bytes(s)}": pick(messages, size_bytes=s) for s in TABLE_SIZES}
    found = {title: _by_place(rows) for title, rows in columns.items()}
    return {title: points for title, points in found.items() if points}


def _without_breaks(point: Point) -> str:
    """Returns the HTML of a point, in which a narrow column can break the line only before the interval."""
    value, bracket, interval = text(point_text(point)).partition("[")
    return value + bracket + interval.replace(" ", "\u00a0")


def _by_place(rows: pl.DataFrame) -> dict[Place, Point]:
    values = rows.filter(pl.col("value").is_not_null())
    return {Place(row["distance"], row["pair"]): point_of(row) for row in values.iter_rows(named=True)}


def _is_matrix(found: list[Place]) -> bool:
    pairs = [place for place in found if _pus(place)]
    return len(pairs) > len({place.distance for place in pairs})


def _figure(points: dict[Place, Point]) -> Figure:
    points = {place: point for place, point in points.items() if _pus(place)}
    pus = sorted({pu for place in points for pu in _pus(place)})
    cells: dict[tuple[tuple[str, int], tuple[str, int]], tuple[Place, Point]] = {}
    for place, point in points.items():
        a, b = _pus(place)
        cells[a, b] = cells[b, a] = (place, point)
    grid = [[cells.get((row, column)) for column in pus] for row in pus]
    labels = _labels(pus)
    few = len(pus) <= 16
    data = {
        "type": "heatmap", "x": labels, "y": labels, "xgap": 1, "ygap": 1, "colorscale": "Cividis",
        "z": [[c[1].value if c else None for c in row] for row in grid],
        "text": [[format_ns(c[1].value) if c else "" for c in row] for row in grid],
        "texttemplate": "%{text}" if few else "",
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


def _labels(pus: list[tuple[str, int]]) -> list[str]:
    """Returns labels such as '3' for PU 3, or 'host:3' if there are several hosts."""
    several = len({host for host, _ in pus}) > 1
    return [f"{host}:{pu}" if several else str(pu) for host, pu in pus]


def _all_places(profile: Profile) -> list[Place]:
    return list(
        dict.fromkeys([*places_of_scenario(profile.records, "pingpong"), *places_of_scenario(profile.records, "floor")])
    )


def _pus(place: Place) -> list[tuple[str, int]]:
    """Returns (host, PU) of both ends of a pair, with host '' within a node; [] if the pair has another format."""
    match = re.fullmatch(r"(?:(.+):)?(\d+)-(?:(.+):)?(\d+)", place.pair or "")
    return [(match[1] or "", int(match[2])), (match[3] or "", int(match[4]))] if match else []
