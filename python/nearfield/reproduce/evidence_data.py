"""Collects the evidence for a verdict, for display: the judged curve, the curve with which it is compared, and every
record that contributed to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nearfield.base.units import format_bytes
from nearfield.reproduce.checks import curves_of, other_curve
from nearfield.reproduce.curves import Points, Records, Row, metrics_of, single_valued_columns, x_of
from nearfield.reproduce.outcome import Line, Series, ShownEvidence
from nearfield.reproduce.schema import Curve, Statement
from nearfield.reproduce.writers import BYTE_PARAMETERS


def number_kind_of(curve: Curve, records: Records) -> str:
    """Returns the kind of the curve's numbers, a key of WRITERS."""
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


def collect_evidence(statement: Statement, curve: Points, than: Points | None, records: Records) -> ShownEvidence:
    """Returns the finite points of the judged curve and of the other one, and the records behind them."""
    assert statement.curve
    own, other = _curve_names(statement)
    lines = [Line(name=own, points=_finite_points(curve))]
    if than:
        lines.append(Line(name=other, points=_finite_points(than)))
    return ShownEvidence(
        by=statement.curve.by,
        kind=number_kind_of(statement.curve, records),
        lines=lines,
        records=[series for one in curves_of(statement) for series in _record_series(one, statement, records)],
    )


def _finite_points(points: Points) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points.items() if math.isfinite(y)]


def _curve_names(statement: Statement) -> tuple[str, str]:
    """Returns names of the statement's curve and of the other one, from the columns in which they differ."""
    if statement.than is None or statement.curve is None:
        return "ours", ""
    one, other = statement.curve, other_curve(statement)
    keys = [key for key in {**one.where, **other.where} if one.where.get(key) != other.where.get(key)]
    parts = [
        [_column_text(key, curve.where[key]) for key in keys if key in curve.where]
        + [value for value in (curve.profile, curve.metric) if _is_distinguishing(one, other, value)]
        for curve in (one, other)
    ]
    return " ".join(parts[0]) or "ours", " ".join(parts[1]) or "the other"


def _is_distinguishing(one: Curve, other: Curve, value: str) -> bool:
    return (one.profile != other.profile and value in (one.profile, other.profile)) or (
        one.metric != other.metric and value in (one.metric, other.metric)
    )


def _column_text(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_column_text(key, one) for one in value)
    if isinstance(value, str):
        return value
    return f"{key} {format_bytes(float(value)) if key in BYTE_PARAMETERS else value}"


def _record_series(curve: Curve, statement: Statement, records: Records) -> Iterator[Series]:
    """Yields the records behind a curve and its base, as series over the curve's parameter; each profile, metric and
    set of columns once."""
    seen = []
    for where in single_valued_columns(curve.where):
        for profile, columns in ((curve.profile, where), (curve.base or curve.profile, where | (curve.versus or {}))):
            for metric in metrics_of(curve):
                key = (profile, metric, columns)
                if key in seen or (columns is not where and curve.how is None):
                    continue
                seen.append(key)
                yield _make_series(curve, statement, records.get(profile, []), *key)


def _make_series(
    curve: Curve, statement: Statement, rows: list[Row], profile: str, metric: str, columns: dict[str, Any]
) -> Series:
    points = []
    for row in rows:
        if row["metric"] == metric and all(row.get(name) == value for name, value in columns.items()):
            x = x_of(curve, row)
            if x is not None and row["value"] is not None and _is_relevant(statement, x, fixed=curve.by in columns):
                points.append((x, float(row["value"])))
    return Series(profile=profile, metric=metric, unit=_unit_of(rows, metric), where=columns, by=curve.by,
                  points=sorted(points))  # fmt: skip


def _is_relevant(statement: Statement, x: float, *, fixed: bool) -> bool:
    """Returns whether the statement covers the value `x` of the parameter. With `fixed`, all points have the same base,
    and the base's record is relevant at any x."""
    if fixed:
        return True
    if statement.over and not statement.over[0] <= x <= statement.over[1]:
        return False
    return not statement.points or statement.judge == "steps" or x in statement.points
