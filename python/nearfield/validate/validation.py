"""Runs a validation: compares the simulation of a described machine with one or two measured profiles, or with a table
of measured times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfield.base.errors import ProfileError
from nearfield.base.frames import pl
from nearfield.base.progress import Report, ignore_progress
from nearfield.machine import DescribedMachine
from nearfield.profile import Profile, load
from nearfield.profile.records import STANDARD_COLUMNS, from_rows
from nearfield.validate import cases, trust
from nearfield.validate.scores import (
    Score,
    StateOrder,
    StepScore,
    score_pairs,
    score_state_order,
    score_steps,
    scores_by_metric,
)

MAX_MESSAGE_BYTES = 4 << 20  # longer messages take long to simulate, and only memory bandwidth determines their time
MAX_PARAMETER = 1 << 31
DEFAULT_METRICS = {"pingpong": "half_round_trip", "stride": "half_round_trip", "pollution": "traverse"}


@dataclass
class Validation:
    """The result of a validation: the described machine, the paths of the profiles or the table with which it was
    compared, and the scores. `doubts` are reasons why the scores are not meaningful."""

    machine: DescribedMachine
    reference_names: list[str]
    simulated_cases: cases.SimulatedCases
    doubts: list[str]
    scores: list[Score]
    state_order: StateOrder
    steps: list[StepScore]
    profile: Profile | None = None
    repeats: dict[Any, float] = field(default_factory=dict)

    @property
    def total_score(self) -> Score | None:
        """Returns the score over all pairs of measured and simulated times; None if there are no pairs."""
        pairs = self.simulated_cases.pairs
        return score_pairs("all", "", pairs, self.repeats) if pairs else None

    def scores_beyond(self, max_error: float) -> list[Score]:
        """Returns the scores whose error exceeds the factor `max_error`."""
        return [one for one in self.scores if one.error > max_error]

    def as_dict(self) -> dict[str, Any]:
        """Returns the validation as a dict for --json."""
        return {
            "machine": self.machine.name,
            "against": self.reference_names,
            "doubts": self.doubts,
            "scores": [one.as_dict() for one in self.scores],
            "all": self.total_score.as_dict() if self.total_score else None,
            "order_of_states": {"right": self.state_order.num_right, "of": self.state_order.num_pairs},
            "steps": [
                {"kind": s.switch_kind, "bytes": s.switch_bytes, "curve": s.curve, "measured": s.measured,
                 "simulated": s.simulated, "in_place": s.is_in_place, "right_sign": s.has_right_sign}
                for s in self.steps
            ],
            "fitted": self.simulated_cases.num_fitted_by_scenario,
            "skipped": {
                name: {"records": n, "reason": why}
                for name, (n, why) in self.simulated_cases.skipped_by_scenario.items()
            },
        }  # fmt: skip


def validate(
    machine: DescribedMachine,
    reference_paths: list[Path],
    report: Report = ignore_progress,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> Validation:
    """Simulates the cases of the first profile or table in `reference_paths`, up to messages of `max_message_bytes`,
    and computes the scores. A second profile, if there is one, shows how reproducible measured times are. Raises
    ProfileError if a file cannot be read."""
    if reference_paths[0].suffix == ".csv":
        return _validate_table(machine, reference_paths[0], report, max_message_bytes)
    profiles = [load(path) for path in reference_paths]
    reference_profile = profiles[0]
    doubts = list(trust.find_doubts(reference_profile, machine))
    repeats: dict[Any, float] = {}
    for other in profiles[1:2]:
        doubts += [f"{other.path}: {why}" for why in trust.find_doubts(other, machine)]
        repeats = {cases.record_key(row): row["value"] for row in _times_above_zero(other.records)}
    simulated = cases.simulate_records(
        machine, _without_longer_messages(reference_profile.records, max_message_bytes), reference_profile.run, report
    )
    described = machine.messaging.node_eager_bytes if machine.messaging else None
    return Validation(
        machine,
        [str(path) for path in reference_paths],
        simulated,
        doubts,
        scores_by_metric(simulated.pairs, repeats),
        score_state_order(simulated.pairs),
        score_steps(simulated.pairs, reference_profile.run.switch, described.value if described else None),
        reference_profile,
        repeats,
    )


def _validate_table(machine: DescribedMachine, path: Path, report: Report, max_message_bytes: int) -> Validation:
    records = _without_longer_messages(read_times(path), max_message_bytes)
    simulated = cases.simulate_records(machine, records, None, report)
    order = score_state_order(simulated.pairs)
    return Validation(machine, [str(path)], simulated, [], scores_by_metric(simulated.pairs), order, [])


def _without_longer_messages(records: pl.DataFrame, max_message_bytes: int) -> pl.DataFrame:
    """Returns the records without those of messages longer than `max_message_bytes`."""
    if "size_bytes" not in records.columns or not records["size_bytes"].dtype.is_numeric():
        return records
    return records.filter(pl.col("size_bytes").is_null() | (pl.col("size_bytes") <= max_message_bytes))


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
    known_columns = {"scenario", "ns", "metric", "side"}
    parameters = {
        k: v for k, v in row.items() if k not in known_columns and k not in STANDARD_COLUMNS and v is not None
    }
    for name, value in parameters.items():
        if isinstance(value, (int, float)) and not 1 <= value <= MAX_PARAMETER:
            raise ProfileError(f"{path}: {name} = {value:g} is not from 1 to {MAX_PARAMETER}", remedy)
    metric = row.get("metric") or DEFAULT_METRICS.get(str(scenario), "time")
    columns = {"scenario": scenario, "metric": metric, "side": row.get("side"), "unit": "ns", "value": float(ns)}
    return columns | {"n": 1, "stable": True, "source": "live"} | parameters


def _times_above_zero(records: pl.DataFrame) -> Iterable[dict[str, Any]]:
    return records.filter((pl.col("unit") == "ns") & (pl.col("value") > 0)).iter_rows(named=True)
