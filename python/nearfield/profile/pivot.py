"""Arranges the records of one scenario and metric as tables for display. Pure functions.

Rows are the numeric parameters (sizes). Columns are the values of one categorical parameter (state, method). There is
one table, called grid, for each distance, pair, side and source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from nearfield.base.frames import pl
from nearfield.profile.records import PLACE_COLUMNS, parameter_names

# Parameters preferred as columns, most preferred first; other categorical parameters come after these.
PREFERRED_COLUMN_PARAMETERS = ("state", "method", "kind", "memory", "operation")
MAX_COLUMNS = 8

Record = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """A table of records. `cells[row, column]` is a record; cells that were not measured are absent."""

    scenario: str
    metric: str
    fixed_values: dict[str, Any]  # columns with one value in all records: distance, pair, side and parameters
    row_parameters: list[str]
    rows: list[tuple[Any, ...]]
    column_parameter: str | None
    columns: list[Any]
    cells: dict[tuple[tuple[Any, ...], Any], Record]
    num_excluded: int = 0  # number of records that `overview_grid` excluded


def grids_of_places(records: pl.DataFrame) -> list[Grid]:
    """Returns one grid per distance, pair, side and source, for records of one scenario and metric, in their order."""
    places = [name for name in (*PLACE_COLUMNS, "source") if records[name].n_unique() > 1]
    if not places:
        return [_make_grid(records)] if records.height else []
    return [_make_grid(group) for group in records.partition_by(places, maintain_order=True)]


def overview_grid(records: pl.DataFrame, max_rows: int = 12) -> Grid | None:
    """Returns one small representative grid: of the first place, with the numeric parameter of most values as rows, and
    other parameters at their most frequent value. Returns None if there are no records."""
    if records.is_empty():
        return None
    total = records.height
    for name in (*PLACE_COLUMNS, "source"):
        records = _filter_by_value(records, name, records[name][0])
    column = _choose_column_parameter(records)
    rest = [name for name in parameter_names(records) if name != column]
    numbers = [name for name in rest if records[name].dtype.is_numeric()]
    longest = max(numbers, key=lambda name: records[name].n_unique(), default=None)
    for name in rest:
        if name != longest:
            counts = Counter(records[name])
            records = _filter_by_value(records, name, max(counts, key=counts.__getitem__))
    return _thin_out_rows(_make_grid(records), max_rows, total)


def headline_metric(records: pl.DataFrame) -> str:
    """Returns the metric to show by default: the first time that belongs to no side, otherwise the first metric."""
    whole = records.filter((pl.col("unit") == "ns") & pl.col("side").is_null())
    return str((whole if whole.height else records)["metric"][0])


def _filter_by_value(records: pl.DataFrame, name: str, value: Any) -> pl.DataFrame:
    return records.filter(pl.col(name).is_null() if value is None else pl.col(name) == value)


def _make_grid(records: pl.DataFrame) -> Grid:
    column = _choose_column_parameter(records)
    varying = [name for name in parameter_names(records) if records[name].n_unique() > 1 and name != column]
    constant = [
        name for name in (*PLACE_COLUMNS, *parameter_names(records)) if records[name].n_unique() == 1 and name != column
    ]
    distinct_rows = list(dict.fromkeys(tuple(row) for row in records.select(varying).iter_rows()))
    first_seen = [{row[i]: None for row in distinct_rows} for i in range(len(varying))]
    text_order_by_parameter = [{value: position for position, value in enumerate(seen)} for seen in first_seen]
    rows = sorted(distinct_rows, key=lambda row: _row_sort_key(row, text_order_by_parameter))
    cells = {
        (tuple(record[name] for name in varying), record[column] if column else None): record
        for record in records.iter_rows(named=True)
    }
    return Grid(
        scenario=records["scenario"][0],
        metric=records["metric"][0],
        fixed_values={name: records[name][0] for name in constant if records[name][0] is not None},
        row_parameters=varying,
        rows=rows if varying else [()],
        column_parameter=column,
        columns=_column_values(records, column) if column else [None],
        cells=cells,
    )


def _choose_column_parameter(records: pl.DataFrame) -> str | None:
    """Returns the parameter whose values become columns: a categorical one with at most MAX_COLUMNS values, otherwise
    the last of several numeric ones with at most MAX_COLUMNS; None if there is none."""
    varying = [name for name in parameter_names(records) if 1 < records[name].n_unique() <= MAX_COLUMNS]
    text_parameters = [name for name in varying if records[name].dtype == pl.String]
    preferred_parameters = [name for name in PREFERRED_COLUMN_PARAMETERS if name in text_parameters]
    if preferred_parameters or text_parameters:
        return (preferred_parameters or text_parameters)[0]
    numbers = [name for name in varying if name != "size_bytes"]
    several = sum(records[name].n_unique() > 1 for name in parameter_names(records)) > 1
    return numbers[-1] if numbers and several else None


def _column_values(records: pl.DataFrame, column: str) -> list[Any]:
    values = records[column].unique(maintain_order=True).to_list()
    return sorted(values, key=lambda v: (v is None, v)) if records[column].dtype.is_numeric() else values


def _row_sort_key(row: tuple[Any, ...], text_order_by_parameter: list[dict[Any, int]]) -> tuple[Any, ...]:
    """Returns a sort key of a row: numbers by size, text in the order of the records, null first."""
    as_numbers = (
        position_by_text[value] if isinstance(value, str) else value or 0
        for value, position_by_text in zip(row, text_order_by_parameter, strict=True)
    )
    return tuple((value is not None, number) for value, number in zip(row, as_numbers, strict=True))


def _thin_out_rows(grid: Grid, max_rows: int, num_records: int) -> Grid:
    """Returns the grid with at most `max_rows` rows, evenly spaced, including the first and the last."""
    rows = grid.rows
    if len(rows) > max_rows:
        step = (len(rows) - 1) / (max_rows - 1)
        rows = [rows[round(i * step)] for i in range(max_rows)]
    shown = set(rows)
    cells = {place: record for place, record in grid.cells.items() if place[0] in shown}
    return Grid(**{**vars(grid), "rows": rows, "cells": cells, "num_excluded": num_records - len(cells)})
