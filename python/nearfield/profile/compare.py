"""Compares two profiles A and B: ratios B/A with intervals, verdicts, and agreement. Pure functions without I/O.

The profiles were measured at different times, so the samples are unpaired. The intervals do not cover differences
between whole runs (clock frequency, page placement, other load). Therefore a change below the threshold counts as the
same, however narrow the intervals are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Literal

from nearfield.base.estimates import Estimate, ratio_of_estimates
from nearfield.base.frames import pl
from nearfield.profile.records import estimate_of_record, identity_columns

if TYPE_CHECKING:
    from nearfield.profile.schema import Run

DEFAULT_THRESHOLD = 0.05

Verdict = Literal["faster", "slower", "changed", "same", "unstable"]
OverallVerdict = Literal["cannot tell", "no sure change", "faster", "slower", "changed"]
MIN_STABLE_SHARE = 0.5  # minimum share of times that are stable in both profiles, for an overall verdict


def is_near_one(ratio: float, threshold: float) -> bool:
    """Returns whether the larger of two values is less than `threshold` (0.05 = 5 %) above the smaller one, given their
    ratio. A ratio and its inverse give the same result."""
    return ratio > 0 and abs(math.log(ratio)) < math.log1p(threshold)


def verdict_of(ratio: Estimate | None, is_stable: bool, unit: str, threshold: float) -> Verdict:
    """Returns the verdict on a ratio B/A. `is_stable` means that both records are stable. The verdict is "faster" or
    "slower" for times only; values in other units are "changed"."""
    if not is_stable:
        return "unstable"
    if ratio is not None and (ratio.low <= 1 <= ratio.high or is_near_one(ratio.value, threshold)):
        return "same"
    if ratio is None or unit != "ns":
        return "changed"
    return "faster" if ratio.value < 1 else "slower"


def values_agree(a: Estimate, b: Estimate, threshold: float = DEFAULT_THRESHOLD) -> bool:
    """Returns whether the intervals overlap, or the values are within `threshold` of each other."""
    overlap = a.low <= b.high and b.low <= a.high
    return overlap or (a.value > 0 and b.value > 0 and is_near_one(b.value / a.value, threshold))


# ---- changes of records


@dataclass(frozen=True)
class RecordChange:
    """A record that both profiles have, with its ratio B/A and verdict. A value is None if the record of that profile
    is null."""

    key: dict[str, Any]
    unit: str
    a: Estimate | None
    b: Estimate | None
    ratio: Estimate | None
    verdict: Verdict | None  # None: one profile has no value; `note` has the reason
    diagnostic: bool  # the scenario does not declare the metric; excluded from summary and agreement
    note: str | None


@dataclass(frozen=True)
class Comparison:
    """The changes of the records that both profiles have, and the records that only one has."""

    changes: list[RecordChange]
    only_a: pl.DataFrame
    only_b: pl.DataFrame


def compare_records(a: pl.DataFrame, b: pl.DataFrame, runs: tuple[Run, Run], threshold: float) -> Comparison:
    """Compares the records of two profiles that agree in all identifying columns except the source. If every distance
    has only one pair, the pair may differ, too, since PU numbers have no meaning on another machine."""
    a, b = _with_union_of_columns(a, b)
    ignored = ("source", "pair") if _has_one_pair_per_distance(a, b) else ("source",)
    keys = [name for name in [*identity_columns(a), "unit"] if name not in ignored]
    both = a.join(b, on=keys, how="inner", suffix="_b", nulls_equal=True, maintain_order="left")
    declared = declared_metrics(*runs)
    changes = [_make_change(row, keys, declared, threshold) for row in both.iter_rows(named=True)]
    only = [x.join(y, on=keys, how="anti", nulls_equal=True, maintain_order="left") for x, y in ((a, b), (b, a))]
    return Comparison(changes, *only)


def declared_metrics(*runs: Run) -> set[tuple[str, str]]:
    """Returns the (scenario, metric) pairs that the runs declare; empty if they declare none."""
    return {(s.name, m.name) for run in runs for s in run.scenario for m in s.metrics}


def summarize_by_scenario(changes: Iterable[RecordChange]) -> dict[str, dict[str, Any]]:
    """Returns for each scenario the number of records by verdict, the number of records without a value, and the
    geometric mean of the ratios of stable times. Excludes diagnostic metrics."""
    groups: dict[str, list[RecordChange]] = {}
    for change in changes:
        if not change.diagnostic:
            groups.setdefault(change.key["scenario"], []).append(change)
    return {scenario: _summarize_scenario(group) for scenario, group in groups.items()}


def count_agreeing_times(changes: Iterable[RecordChange]) -> dict[str, Any]:
    """Returns the share and number of times, among those stable in both profiles, whose values agree, and the number of
    unstable times. Excludes counts, which always agree, and diagnostic metrics, which need not repeat."""
    times = [c for c in changes if c.unit == "ns" and not c.diagnostic and c.a and c.b]
    stable = [c for c in times if c.verdict != "unstable"]
    agreeing = sum(values_agree(c.a, c.b) for c in stable if c.a and c.b)
    return {
        "share": agreeing / len(stable) if stable else None,
        "agreeing": agreeing,
        "stable": len(stable),
        "unstable": len(times) - len(stable),
    }


def overall_verdict(changes: Iterable[RecordChange]) -> OverallVerdict:
    """Returns the verdict on all changes: "cannot tell" unless at least half of the times are stable in both profiles,
    "changed" if some times are faster and others slower."""
    changes = list(changes)
    counts = count_agreeing_times(changes)
    times = counts["stable"] + counts["unstable"]
    if not times or counts["stable"] < MIN_STABLE_SHARE * times:
        return "cannot tell"
    verdicts = {change.verdict for change in largest_changes(changes)}
    if not verdicts:
        return "no sure change"
    return "faster" if verdicts == {"faster"} else "slower" if verdicts == {"slower"} else "changed"


def largest_changes(changes: Iterable[RecordChange]) -> list[RecordChange]:
    """Returns the changes with verdict faster, slower or changed, largest first. Changes without a ratio (from or to 0)
    come before all others."""
    decided = [c for c in changes if c.verdict in ("faster", "slower", "changed") and not c.diagnostic]
    return sorted(decided, key=lambda c: -abs(math.log(c.ratio.value)) if c.ratio else -math.inf)


def _summarize_scenario(group: list[RecordChange]) -> dict[str, Any]:
    counts = {
        word: sum(c.verdict == word for c in group) for word in ("faster", "slower", "changed", "same", "unstable")
    }
    times = [c.ratio.value for c in group if c.ratio and c.unit == "ns" and c.verdict != "unstable"]
    missing = sum(c.verdict is None for c in group)
    mean = geometric_mean(times) if times else None
    return {"records": len(group), **counts, "missing": missing, "geometric_mean": mean}


def _with_union_of_columns(a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns both tables with the union of their columns. A parameter that is a number in one table and text in the
    other becomes text; one that is an integer in only one table becomes a floating-point number."""
    types = {**b.schema, **a.schema}
    for name in set(a.columns) & set(b.columns):
        if a[name].dtype != b[name].dtype:
            types[name] = pl.Float64() if a[name].dtype.is_numeric() and b[name].dtype.is_numeric() else pl.String()

    def widen(frame: pl.DataFrame) -> pl.DataFrame:
        have = frame.columns
        return frame.select(
            (pl.col(name) if name in have else pl.lit(None)).cast(dtype).alias(name) for name, dtype in types.items()
        )

    return widen(a), widen(b)


def _has_one_pair_per_distance(*tables: pl.DataFrame) -> bool:
    """Returns whether in every table each scenario has at most one pair per distance."""
    per_place = (t.drop_nulls("pair").group_by("scenario", "distance").agg(pl.col("pair").n_unique()) for t in tables)
    return all((pairs["pair"] <= 1).all() for pairs in per_place)


def _make_change(
    row: Mapping[str, Any], keys: list[str], declared: set[tuple[str, str]], threshold: float
) -> RecordChange:
    a, b = estimate_of_record(row), estimate_of_record(row, "_b")
    ratio = ratio_of_estimates(a, b) if a and b else None
    stable = row["stable"] and row["stable_b"]
    return RecordChange(
        key={name: row[name] for name in keys if name != "unit" and row[name] is not None},
        unit=row["unit"],
        a=a,
        b=b,
        ratio=ratio,
        verdict=verdict_of(ratio, stable, row["unit"], threshold) if a and b else None,
        diagnostic=bool(declared) and (row["scenario"], row["metric"]) not in declared,
        note=_join_notes(row),
    )


def _join_notes(row: Mapping[str, Any]) -> str | None:
    notes = [f"{name}: {row[column]}" for name, column in (("A", "note"), ("B", "note_b")) if row[column]]
    return "; ".join(notes) or None


# ---- values of parameters that only one profile has


@dataclass(frozen=True)
class UnmatchedValues:
    """The values of the parameter `column` that only one of two profiles has in a scenario. If `column` is "scenario",
    only one profile has the scenario at all."""

    profile: Literal["A", "B"]
    scenario: str
    column: str
    values: list[Any]


def find_unmatched_values(a: pl.DataFrame, b: pl.DataFrame) -> list[UnmatchedValues]:
    """Returns the parameter values that only one of the profiles has, by scenario and column. Pairs do not count as a
    parameter; see `compare_records`."""
    scenarios = list(dict.fromkeys([*a["scenario"], *b["scenario"]]))
    return [
        axis
        for scenario in scenarios
        for axis in _unmatched_values_of_scenario(
            scenario, a.filter(pl.col("scenario") == scenario), b.filter(pl.col("scenario") == scenario)
        )
    ]


def _unmatched_values_of_scenario(scenario: str, a: pl.DataFrame, b: pl.DataFrame) -> Iterable[UnmatchedValues]:
    if a.is_empty() or b.is_empty():
        yield UnmatchedValues("A" if b.is_empty() else "B", scenario, "scenario", [scenario])
        return
    columns = [
        name for name in identity_columns(_with_union_of_columns(a, b)[0]) if name not in ("scenario", "source", "pair")
    ]
    for column in columns:
        has_a, has_b = _distinct_values(a, column), _distinct_values(b, column)
        if lone := [value for value in has_a if value not in has_b]:
            yield UnmatchedValues("A", scenario, column, lone)
        if lone := [value for value in has_b if value not in has_a]:
            yield UnmatchedValues("B", scenario, column, lone)


def _distinct_values(records: pl.DataFrame, column: str) -> list[Any]:
    if column not in records.columns:
        return []
    values = records[column].drop_nulls().unique(maintain_order=True).to_list()
    return sorted(values) if values and isinstance(values[0], (int, float)) else values
