"""Builds records as rows (column -> value), and the contents of run.toml. Both backends use these functions, so that
measured and simulated records have the same columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nearfield
from nearfield.measure.request import Request
from nearfield.profile import schema
from nearfield.profile.records import STANDARD_COLUMNS, VERDICT_COLUMN

Row = dict[str, Any]
Parameters = Mapping[str, int | float | str]


def identity_columns(
    scenario: str,
    metric: str,
    unit: str,
    source: str,
    *,
    distance: str | None,
    pair: str | None,
    side: str | None,
    parameters: Parameters,
) -> Row:
    """Returns the columns that identify a record, to be merged with those of `value_columns` or
    `missing_value_columns`."""
    place = {"distance": distance, "pair": pair, "side": side}
    return {"scenario": scenario, "metric": metric, "unit": unit, "source": source, **place, **parameters}


def value_columns(
    value: float, low: float | None, high: float | None, n: int, *, is_stable: bool = True, note: str | None = None
) -> Row:
    """Returns the columns that hold a value: the number in the record's unit, its interval, repetitions, stability and
    note."""
    return {"value": value, "low": low, "high": high, "n": n, "stable": is_stable, "note": note}


def missing_value_columns(reason: str) -> Row:
    """Returns the columns of a record without a value, with the reason."""
    return {"value": None, "n": 0, "stable": False, "note": reason}


def parameters_of(row: Row) -> dict[str, int | float | str]:
    """Returns the parameters of a record: name -> value."""
    return {
        name: one
        for name, one in row.items()
        if name not in STANDARD_COLUMNS and name != VERDICT_COLUMN and one is not None
    }


def make_run(
    request: Request,
    rows: Iterable[Row],
    *,
    complete: bool,
    seconds: float,
    scenarios: Iterable[schema.Scenario],
    **backend_metadata: Any,
) -> schema.Run:
    """Returns the contents of run.toml for these records. `seconds` is the measuring time. `scenarios` are all
    scenarios of the backend; run.toml lists those that have records. `backend_metadata` are the other keys, from the
    backend's run_metadata()."""
    present = {row["scenario"] for row in rows}
    return schema.Run(
        schema_version=1,
        nearfield=nearfield.__version__,
        created=request.created,
        tier=request.effective_tier.name,
        command=request.command,
        seconds=seconds,
        complete=complete,
        scenario=[scenario for scenario in scenarios if scenario.name in present],
        **backend_metadata,
    )
