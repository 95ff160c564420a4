"""Converts a chart to a CSV table: a row for each point of each curve, for each choice of the chart's options."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from nearfield.report.plots.chart import Chart, collect_options
from nearfield.report.plots.series import Trace

POINT_COLUMNS = ("value", "low", "high", "unit", "n", "stable", "state")


def as_csv(chart: Chart) -> str:
    """Returns the CSV table of a chart, with a column for each option. `low` and `high` are the ends of the 95 %
    interval; `state` is the verdict on the buffers' cache state. In plots of yes/no questions, the value is a word and
    the other cells are empty."""
    names = list(collect_options(variant.choice for variant in chart.variants))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, "curve", "x", *POINT_COLUMNS])
    for variant in chart.variants:
        choice = [variant.choice.get(name, "") for name in names]
        for trace in variant.figure["data"]:
            writer.writerows([*choice, *row] for row in _csv_rows(trace))
    return out.getvalue()


def _csv_rows(trace: Trace) -> Iterator[list[Any]]:
    if trace["type"] == "heatmap":
        for name, cells in zip(trace["y"], trace["z"], strict=True):
            yield from _pad_rows(name, zip(trace["x"], cells, strict=True))
    elif "points" in trace:
        for x, p in zip(trace["x"], trace["points"], strict=True):
            yield [trace["name"], x, p.value, p.low, p.high, p.unit, p.n, p.is_stable, p.verdict or ""]
    elif "meta" in trace:
        yield from _pad_rows(trace["name"], zip(trace["x"], trace["meta"]["cells"], strict=True))


def _pad_rows(name: str, cells: Iterable[tuple[Any, Any]]) -> Iterator[list[Any]]:
    """Yields rows for (x, value) pairs, padded with empty cells. Skips missing values."""
    for x, value in cells:
        if value is not None:
            yield [name, x, value, *[""] * (len(POINT_COLUMNS) - 1)]
