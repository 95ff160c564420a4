"""Computes curves (value of the curve's parameter -> number) from the records of simulated profiles. The functions are
pure and independent of claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from nearfield.reproduce.schema import ColumnValues, CurveSpec

Row = Mapping[str, Any]
Points = dict[float, float]  # parameter -> number
Records = Mapping[str, list[Row]]  # profile name -> rows
DEFAULT_CACHE_LINE_BYTES = 64  # cache line size of profiles without an entry in `cache_line_bytes`


def points_of(curve: CurveSpec, records: Records, cache_line_bytes: Mapping[str, int]) -> Points:
    """Returns the points of the curve: at each x, the maximum over the curve's alternatives (see alternatives_of); with
    `mean_over`, the mean of these maxima over the values of its columns that have records (--quick simulates fewer), at
    each x that all of them have. Returns {} without records. Omits points for which the base curve has no value."""
    maxima = []
    for fixed in expand_value_lists({name: curve.where[name] for name in curve.mean_over}):
        fixed_curve = curve.model_copy(update={"where": curve.where | fixed})
        if points := _pointwise_maximum(alternatives_of(fixed_curve, records, cache_line_bytes)):
            maxima.append(points)
    common_xs = sorted(set(maxima[0]).intersection(*maxima[1:])) if maxima else []
    return {x: sum(points[x] for points in maxima) / len(maxima) for x in common_xs}


def _pointwise_maximum(curves: Iterable[Points]) -> Points:
    points: Points = {}
    for one in curves:
        for x, y in one.items():
            points[x] = max(y, points.get(x, y))
    return points


def alternatives_of(curve: CurveSpec, records: Records, cache_line_bytes: Mapping[str, int]) -> list[Points]:
    """Returns the alternatives of the curve: the points for each combination of single values of the lists in
    `where`."""
    return [_curve_relative_to_base(curve, one, records, cache_line_bytes) for one in expand_value_lists(curve.where)]


def columns_of_base_curve(curve: CurveSpec, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns that select the records of the base, for the columns that select those of the curve."""
    return {name: value for name, value in {**columns, **(curve.versus or {})}.items() if value != ""}


def _curve_relative_to_base(
    curve: CurveSpec, columns: dict[str, Any], records: Records, cache_line_bytes: Mapping[str, int]
) -> Points:
    points = _points_of_profile(curve, curve.profile, columns, records, cache_line_bytes)
    if curve.how is None:
        return points
    base_points = _points_of_profile(
        curve.model_copy(update={"metric": curve.base_metric or curve.metric}),
        curve.base or curve.profile,
        columns_of_base_curve(curve, columns),
        records,
        cache_line_bytes,
    )
    if curve.by in (curve.versus or {}):  # if `versus` fixes the parameter, all points have the same base
        base_points = dict.fromkeys(points, next(iter(base_points.values()))) if base_points else {}
    return {x: _compare_with_base(curve.how, y, base_points[x]) for x, y in points.items() if x in base_points}


def _compare_with_base(comparison: str, value: float, base_value: float) -> float:
    if comparison == "minus":
        return value - base_value
    ratio = value / base_value if base_value else (1.0 if value == base_value else float("inf"))
    return ratio if comparison == "ratio" else 1 - ratio


def _points_of_profile(
    curve: CurveSpec, profile: str, columns: dict[str, Any], records: Records, cache_line_bytes: Mapping[str, int]
) -> Points:
    points = _metric_values(curve, curve.metric, profile, columns, records, cache_line_bytes)
    if curve.plus is not None:
        added_points = _metric_values(curve, curve.plus, profile, columns, records, cache_line_bytes)
        points = {x: y + added_points[x] for x, y in points.items() if x in added_points}
    if curve.per is None:
        return points
    divisors = _metric_values(curve, curve.per, profile, columns, records, cache_line_bytes)
    if curve.per_rest:
        divisors = {x: divisor - points[x] for x, divisor in divisors.items() if x in points}
    return {x: y / divisors[x] for x, y in points.items() if divisors.get(x)}


def _metric_values(
    curve: CurveSpec,
    metric: str,
    profile: str,
    columns: dict[str, Any],
    records: Records,
    cache_line_bytes: Mapping[str, int],
) -> Points:
    values: Points = {}
    for row in records.get(profile, []):
        if row["metric"] != metric or row["value"] is None:
            continue
        if any(row.get(name) != value for name, value in columns.items()):
            continue
        x = x_of(curve, row)
        if x is None:
            continue
        if x in values:
            raise ValueError(f"several records of {metric} in {profile} for {curve.by} = {x:g}: say more in where")
        values[x] = _convert_to_unit(curve.unit, row, cache_line_bytes.get(profile, DEFAULT_CACHE_LINE_BYTES))
    return values


def x_of(curve: CurveSpec, row: Row) -> float | None:
    """Returns the row's value of the curve's parameter; None if the row has none."""
    x = row.get("whole_bytes", row.get("size_bytes")) if curve.by == "whole_bytes" else row.get(curve.by)
    return None if x is None else float(x)


def metrics_of(curve: CurveSpec) -> list[str]:
    """Returns the metrics from which the curve is computed."""
    return [name for name in (curve.metric, curve.plus, curve.per) if name]


def _convert_to_unit(unit: str | None, row: Row, cache_line_bytes: int) -> float:
    value, size_bytes = float(row["value"]), row.get("size_bytes", 0)
    if unit == "mb_per_s":
        return float(1e3 * size_bytes / value)
    return value / max(1.0, size_bytes / cache_line_bytes) if unit == "per_line" else value


def expand_value_lists(columns: Mapping[str, ColumnValues]) -> Iterable[dict[str, Any]]:
    """Yields the columns with one value each, for every combination of the values in their lists."""
    value_lists = [value if isinstance(value, list) else [value] for value in columns.values()]
    return (dict(zip(columns, values, strict=True)) for values in product(*value_lists))
