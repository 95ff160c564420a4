"""Collects the evidence that the page shows for a verdict: the judged curve, the curve with which it is compared, and
every record from which they were computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nearfield.base.units import format_bytes
from nearfield.reproduce.checks import curves_of, other_curve
from nearfield.reproduce.curves import Points, Records, Row, columns_of_base_curve, expand_value_lists, metrics_of, x_of
from nearfield.reproduce.outcome import PlottedCurve, RecordSeries, ShownEvidence
from nearfield.reproduce.schema import CurveSpec, Statement
from nearfield.reproduce.writers import BYTE_PARAMETERS


def number_kind_of(curve: CurveSpec, records: Records) -> str:
    """Returns the kind of the curve's numbers, a key of NUMBER_FORMATTERS."""
    if curve.how == "gain":
        return "gain"
    if curve.how == "ratio":
        return "factor"
    if curve.unit:
        return curve.unit
    if curve.per_rest:
        return "factor"
    units = [_unit_of(records.get(curve.profile, []), name) for name in (curve.metric, curve.per) if name]
    return "share" if len(set(units)) < len(units) else units[0]


def _unit_of(rows: list[Row], metric: str) -> str:
    return next((str(row["unit"]) for row in rows if row["metric"] == metric), "count")


def collect_evidence(
    statement: Statement, points: Points, other_points: Points | None, records: Records
) -> ShownEvidence:
    """Returns the finite points of the judged curve and of the other curve, and the records from which both were
    computed."""
    assert statement.curve
    curve_name, other_curve_name = _curve_names(statement)
    lines = [PlottedCurve(name=curve_name, points=_finite_points(points))]
    if other_points:
        lines.append(PlottedCurve(name=other_curve_name, points=_finite_points(other_points)))
    return ShownEvidence(
        by=statement.curve.by,
        kind=number_kind_of(statement.curve, records),
        lines=lines,
        records=[series for one in curves_of(statement) for series in _record_series(one, statement, records)],
    )


def _finite_points(points: Points) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points.items() if math.isfinite(y)]


def _curve_names(statement: Statement) -> tuple[str, str]:
    """Returns names for the statement's curve and for the other curve, made of the columns in which they differ."""
    if statement.than is None or statement.curve is None:
        return "ours", ""
    first, second = statement.curve, other_curve(statement)
    keys = [key for key in {**first.where, **second.where} if first.where.get(key) != second.where.get(key)]
    parts = [
        [_format_column(key, curve.where[key]) for key in keys if key in curve.where]
        + [value for value in (curve.profile, curve.metric) if _distinguishes_curves(first, second, value)]
        for curve in (first, second)
    ]
    return " ".join(parts[0]) or "ours", " ".join(parts[1]) or "the other"


def _distinguishes_curves(first: CurveSpec, second: CurveSpec, value: str) -> bool:
    return (first.profile != second.profile and value in (first.profile, second.profile)) or (
        first.metric != second.metric and value in (first.metric, second.metric)
    )


def _format_column(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_format_column(key, one) for one in value)
    if isinstance(value, str):
        return value
    return f"{key} {format_bytes(float(value)) if key in BYTE_PARAMETERS else value}"


def _record_series(curve: CurveSpec, statement: Statement, records: Records) -> Iterator[RecordSeries]:
    """Yields the records from which a curve and its base were computed, as series over the curve's parameter. Each
    combination of profile, metric and columns occurs once."""
    yielded_keys = []
    for where in expand_value_lists(curve.where):
        base_curve = curve.model_copy(update={"metric": curve.base_metric or curve.metric})
        sources = [(curve, curve.profile, where)]
        if curve.how is not None:
            sources.append((base_curve, curve.base or curve.profile, columns_of_base_curve(curve, where)))
        for source, profile, columns in sources:
            for metric in metrics_of(source):
                key = (profile, metric, columns)
                if key in yielded_keys:
                    continue
                yielded_keys.append(key)
                yield _make_series(curve, statement, records.get(profile, []), *key)


def _make_series(
    curve: CurveSpec, statement: Statement, rows: list[Row], profile: str, metric: str, columns: dict[str, Any]
) -> RecordSeries:
    points = []
    for row in rows:
        if row["metric"] == metric and all(row.get(name) == value for name, value in columns.items()):
            x = x_of(curve, row)
            if (
                x is not None
                and row["value"] is not None
                and _is_covered_by_statement(statement, x, is_x_fixed=curve.by in columns)
            ):
                points.append((x, float(row["value"])))
    return RecordSeries(profile=profile, metric=metric, unit=_unit_of(rows, metric), where=columns, by=curve.by,
                  points=sorted(points))  # fmt: skip


def _is_covered_by_statement(statement: Statement, x: float, *, is_x_fixed: bool) -> bool:
    """Returns whether the statement covers the value `x` of the parameter. With `is_x_fixed`, all points are compared
    with the same base record, which is covered at any x."""
    if is_x_fixed:
        return True
    if statement.over and not statement.over[0] <= x <= statement.over[1]:
        return False
    return not statement.points or statement.judge == "steps" or x in statement.points
