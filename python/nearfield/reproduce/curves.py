"""Converts records of simulated profiles to curves over one of their parameters. Pure functions that know nothing of
claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from nearfield.reproduce.schema import Curve, Values

Row = Mapping[str, Any]
Points = dict[float, float]  # parameter -> number
Records = Mapping[str, list[Row]]  # name of a profile -> rows
LINE_BYTES = 64  # cache line size of profiles without an entry in `line_bytes`


def points_of(curve: Curve, records: Records, line_bytes: Mapping[str, int]) -> Points:
    """Returns the points of the curve; at each x the maximum over the curve's alternatives. Returns {} without records.
    Omits points that the base lacks."""
    found: Points = {}
    for alternative in alternatives_of(curve, records, line_bytes):
        for x, y in alternative.items():
            found[x] = max(y, found.get(x, y))
    return dict(sorted(found.items()))


def alternatives_of(curve: Curve, records: Records, line_bytes: Mapping[str, int]) -> list[Points]:
    """Returns the points of the curve for each combination of single values of the lists in `where`."""
    return [_derive_from_base(curve, one, records, line_bytes) for one in single_valued_columns(curve.where)]


def _derive_from_base(curve: Curve, where: dict[str, Any], records: Records, line_bytes: Mapping[str, int]) -> Points:
    own = _points_of_profile(curve, curve.profile, where, records, line_bytes)
    if curve.how is None:
        return own
    base = _points_of_profile(
        curve, curve.base or curve.profile, {**where, **(curve.versus or {})}, records, line_bytes
    )
    if curve.by in (curve.versus or {}):  # `versus` fixes the curve's parameter: all points have the same base
        base = dict.fromkeys(own, next(iter(base.values()))) if base else {}
    return {x: _compare_with_base(curve.how, y, base[x]) for x, y in own.items() if x in base}


def _compare_with_base(how: str, own: float, base: float) -> float:
    if how == "minus":
        return own - base
    ratio = own / base if base else (1.0 if own == base else float("inf"))
    return ratio if how == "ratio" else 1 - ratio


def _points_of_profile(
    curve: Curve, profile: str, where: dict[str, Any], records: Records, lines: Mapping[str, int]
) -> Points:
    found = _metric_values(curve, curve.metric, profile, where, records, lines)
    if curve.plus is not None:
        added = _metric_values(curve, curve.plus, profile, where, records, lines)
        found = {x: y + added[x] for x, y in found.items() if x in added}
    if curve.per is None:
        return found
    divisors = _metric_values(curve, curve.per, profile, where, records, lines)
    if curve.per_rest:
        divisors = {x: divisor - found[x] for x, divisor in divisors.items() if x in found}
    return {x: y / divisors[x] for x, y in found.items() if divisors.get(x)}


def _metric_values(
    curve: Curve, metric: str, profile: str, where: dict[str, Any], records: Records, lines: Mapping[str, int]
) -> Points:
    found: Points = {}
    for row in records.get(profile, []):
        if row["metric"] != metric or row["value"] is None:
            continue
        if any(row.get(name) != value for name, value in where.items()):
            continue
        x = x_of(curve, row)
        if x is None:
            continue
        if x in found:
            raise ValueError(f"several records of {metric} in {profile} for {curve.by} = {x:g}: say more in where")
        found[x] = _convert_to_unit(curve.unit, row, lines.get(profile, LINE_BYTES))
    return found


def x_of(curve: Curve, row: Row) -> float | None:
    """Returns the row's value of the curve's parameter; None if the row has none."""
    x = row.get("whole_bytes", row.get("size_bytes")) if curve.by == "whole_bytes" else row.get(curve.by)
    return None if x is None else float(x)


def metrics_of(curve: Curve) -> list[str]:
    """Returns the metrics from which the curve is computed."""
    return [name for name in (curve.metric, curve.plus, curve.per) if name]


def _convert_to_unit(unit: str | None, row: Row, line_bytes: int) -> float:
    value, size_bytes = float(row["value"]), row.get("size_bytes", 0)
    if unit == "mb_per_s":
        return float(1e3 * size_bytes / value)
    return value / max(1.0, size_bytes / line_bytes) if unit == "per_line" else value


def single_valued_columns(where: Mapping[str, Values]) -> Iterable[dict[str, Any]]:
    """Yields the columns with single values, for every combination of the values of lists."""
    lists = [value if isinstance(value, list) else [value] for value in where.values()]
    return (dict(zip(where, values, strict=True)) for values in product(*lists))
