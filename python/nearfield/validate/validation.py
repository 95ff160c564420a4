"""Runs a validation: compares a described machine with one or two profiles, or with a table of times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfield.base.errors import ProfileError
from nearfield.base.frames import pl
from nearfield.base.progress import Report, ignore
from nearfield.machine import DescribedMachine
from nearfield.profile import Profile, load
from nearfield.profile.records import CORE_COLUMNS, from_rows
from nearfield.validate import cases, trust
from nearfield.validate.scores import (
    Score,
    StateOrder,
    StepScore,
    order_of_states,
    score_pairs,
    score_steps,
    scores_by_metric,
)

MAX_BYTES = 4 << 20  # longer messages take long to simulate, and their time depends on memory bandwidth alone
MAX_PARAMETER = 1 << 31
DEFAULT_METRICS = {"pingpong": "half_round_trip", "stride": "half_round_trip", "pollution": "traverse"}


@dataclass
class Validation:
    """A described machine, the profiles or table with which it was compared, and the scores. `doubts` are reasons why
    the scores are meaningless."""

    machine: DescribedMachine
    against: list[str]
    simulated: cases.SimulatedCases
    doubts: list[str]
    scores: list[Score]
    order: StateOrder
    steps: list[StepScore]
    profile: Profile | None = None
    repeats: dict[Any, float] = field(default_factory=dict)

    @property
    def total(self) -> Score | None:
        """Returns the score of all pairs together; None without pairs."""
        pairs = self.simulated.pairs
        return score_pairs("all", "", pairs, self.repeats) if pairs else None

    def scores_beyond(self, bar: float) -> list[Score]:
        """Returns the scores whose error exceeds this factor."""
        return [one for one in self.scores if one.error > bar]

    def as_dict(self) -> dict[str, Any]:
        """Returns the validation as a dict for --json."""
        return {
            "machine": self.machine.name,
            "against": self.against,
            "doubts": self.doubts,
            "scores": [one.as_dict() for one in self.scores],
            "all": self.total.as_dict() if self.total else None,
            "order_of_states": {"right": self.order.right_count, "of": self.order.all},
            "steps": [
                {"kind": s.kind, "bytes": s.bytes, "curve": s.curve, "measured": s.measured, "simulated": s.simulated,
                 "in_place": s.is_in_place, "right_sign": s.has_right_sign}
                for s in self.steps
            ],
            "fitted": self.simulated.fitted,
            "skipped": {name: {"records": n, "reason": why} for name, (n, why) in self.simulated.skipped.items()},
        }  # fmt: skip


def validate(
    machine: DescribedMachine, against: list[Path], report: Report = ignore, max_bytes: int = MAX_BYTES
) -> Validation:
    """Simulates the cases of the first profile or table in `against`, up to `max_bytes`, and computes the scores. A
    second profile shows how well measured times repeat. Raises ProfileError if one cannot be read."""
    if against[0].suffix == ".csv":
        return _validate_table(machine, against[0], report, max_bytes)
    profiles = [load(path) for path in against]
    first = profiles[0]
    doubts = list(trust.find_doubts(first, machine))
    repeats: dict[Any, float] = {}
    for other in profiles[1:2]:
        doubts += [f"{other.path}: {why}" for why in trust.find_doubts(other, machine)]
        repeats = {cases.record_key(row): row["value"] for row in _times_above_zero(other.records)}
    found = cases.simulate_records(machine, _without_longer_messages(first.records, max_bytes), first.run, report)
    described = machine.messaging.node_eager_bytes if machine.messaging else None
    return Validation(
        machine,
        [str(path) for path in against],
        found,
        doubts,
        scores_by_metric(found.pairs, repeats),
        order_of_states(found.pairs),
        score_steps(found.pairs, first.run.switch, described.value if described else None),
        first,
        repeats,
    )


def _validate_table(machine: DescribedMachine, path: Path, report: Report, max_bytes: int) -> Validation:
    records = _without_longer_messages(read_times(path), max_bytes)
    found = cases.simulate_records(machine, records, None, report)
    order = order_of_states(found.pairs)
    return Validation(machine, [str(path)], found, [], scores_by_metric(found.pairs), order, [])


def _without_longer_messages(records: pl.DataFrame, max_bytes: int) -> pl.DataFrame:
    """Returns the records without those of messages longer than `max_bytes`."""
    if "size_bytes" not in records.columns or not records["size_bytes"].dtype.is_numeric():
        return records
    return records.filter(pl.col("size_bytes").is_null() | (pl.col("size_bytes") <= max_bytes))


def read_times(path: Path) -> pl.DataFrame:
    """Returns the times of a CSV file as records. The columns are `scenario`, `ns` and the scenario's parameters, for
    example size_bytes and state; `metric` and `side` are optional. Raises ProfileError if the file is invalid."""
    remedy = "Its first line names the columns: scenario,size_bytes,state,ns (docs/how-to/machine.md)."
    try:
        table = pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ProfileError(f"{path} cannot be read as CSV: {error}", remedy) from error
    missing = [name for name in ("scenario", "ns") if name not in table.columns]
    if missing or not table.height:
        raise ProfileError(f"{path} has no {' and no '.join(missing) or 'lines'}", remedy)
    rows = [_time_row(row, path, remedy) for row in table.iter_rows(named=True)]
    return from_rows(rows)


def _time_row(row: dict[str, Any], path: Path, remedy: str) -> dict[str, Any]:
    ns, scenario = row["ns"], row["scenario"]
    if not isinstance(ns, (int, float)) or not math.isfinite(ns) or ns <= 0:
        raise ProfileError(f"{path}: ns = {ns!r} is no time above 0", remedy)
    known = {"scenario", "ns", "metric", "side"}
    parameters = {k: v for k, v in row.items() if k not in known and k not in CORE_COLUMNS and v is not None}
    for name, one in parameters.items():
        if isinstance(one, (int, float)) and not 1 <= one <= MAX_PARAMETER:
            raise ProfileError(f"{path}: {name} = {one:g} is not from 1 to {MAX_PARAMETER}", remedy)
    metric = row.get("metric") or DEFAULT_METRICS.get(str(scenario), "time")
    of = {"scenario": scenario, "metric": metric, "side": row.get("side"), "unit": "ns", "value": float(ns)}
    return of | {"n": 1, "stable": True, "source": "live"} | parameters


def _times_above_zero(records: pl.DataFrame) -> Iterable[dict[str, Any]]:
    return records.filter((pl.col("unit") == "ns") & (pl.col("value") > 0)).iter_rows(named=True)
