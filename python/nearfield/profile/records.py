"""Records, one row per measured number: their columns, the rules for valid rows, and functions that select rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.units import FORMATTER_BY_UNIT
from nearfield.base.words import as_sentence, suggest_name

PolarsType = Literal["String", "Int64", "Float64", "Boolean"]  # names of polars data types

# Columns of every record, in the order of the file: name -> (type, description).
STANDARD_COLUMNS: dict[str, tuple[PolarsType, str]] = {
    "scenario": ("String", "what was measured"),
    "metric": ("String", "which of the scenario's numbers"),
    "unit": ("String", f"of value, low and high: {', '.join(FORMATTER_BY_UNIT)}"),
    "value": ("Float64", "median over the repetitions; null: this machine cannot give it, see note"),
    "low": ("Float64", "lower end of the 95 % interval of the median"),
    "high": ("Float64", "upper end of it"),
    "n": ("Int64", "repetitions"),
    "stable": ("Boolean", "the interval is narrow enough; no decision uses a record that is not stable"),
    "note": ("String", "why null, or why not stable"),
    "source": ("String", "live (measured) or sim (simulated)"),
    "distance": ("String", "class of the pair; null: all ranks took part"),
    "pair": ("String", "PU of sender and receiver, '0-1', with hosts across nodes: 'a:0-b:0'"),
    "side": ("String", "sender or receiver; null: the operation as a whole"),
}
# Column of the verdict on the buffer state, always the last one. The verdict is a result and does not identify a
# record.
VERDICT_COLUMN = "verdict"
VERDICT_SUMMARY = "did the buffers have their state: verified, refuted or unverifiable; null: no state was requested"

Unit = Literal["ns", "bytes", "count", "share"]
Side = Literal["sender", "receiver"]
Verdict = Literal["verified", "refuted", "unverifiable"]
ALLOWED_WORDS_BY_COLUMN: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit),
    "source": ("live", "sim"),
    "side": get_args(Side),
    VERDICT_COLUMN: get_args(Verdict),
}
# Unit -> smallest and largest valid value, with room for future machines; other values mean that the file is damaged.
UNIT_BOUNDS: dict[str, tuple[float, float]] = {
    "ns": (0, 1e12),
    "bytes": (0, 1e15),
    "count": (0, 1e15),
    "share": (0, 1e3),
}
MAX_PARAMETER_BYTES = 1 << 50  # maximum of a parameter in bytes
LEGACY_TEXT_COLUMNS = ("memory_slowdown",)  # numeric parameters that older versions of nearfield wrote as text
SWEPT_PARAMETER_PREFIX = "machine_"  # prefix of parameters that are keys of the simulated machine's file
REQUIRED_COLUMNS = ("scenario", "metric", "unit", "n", "stable", "source")
PLACE_COLUMNS = ("distance", "pair", "side")
# Parameters that must be nonnegative integers, in addition to those in bytes.
COUNT_PARAMETERS = ("stride", "ranks", "nodes")
# Parameters whose values are words.
CATEGORICAL_PARAMETERS = ("kind", "state", "method", "mode", "operation", "policy", "face", "call")


def select_reliable_records(records: pl.DataFrame) -> pl.DataFrame:
    """Returns the records on which a decision may be based: those with a stable value whose buffer state was not
    refuted."""
    return records.filter(
        pl.col("stable") & pl.col("value").is_not_null() & pl.col(VERDICT_COLUMN).ne_missing("refuted")
    )


def estimate_of_record(row: Mapping[str, Any], suffix: str = "") -> Estimate | None:
    """Returns the value of a record with its interval; None without a value. Without an interval, the value counts as
    exact. `suffix` is appended to the names of the columns."""
    value, low, high = (row[name + suffix] for name in ("value", "low", "high"))
    return None if value is None else Estimate(value, value if low is None else low, value if high is None else high)


def parameter_names(records: pl.DataFrame) -> list[str]:
    """Returns the parameter columns in which at least one of these records has a value, in column order."""
    return [name for name in _parameter_columns(records) if records[name].null_count() < records.height]


def swept_parameters(records: pl.DataFrame) -> list[str]:
    """Returns the parameter columns that are swept keys of the simulated machine's file. Records without values in
    these columns belong to the machine as its file describes it."""
    return [name for name in parameter_names(records) if name.startswith(SWEPT_PARAMETER_PREFIX)]


def identity_columns(records: pl.DataFrame) -> list[str]:
    """Returns the columns that identify a record: no two records of a profile have equal values in all of them."""
    return ["scenario", "metric", "source", *PLACE_COLUMNS, *_parameter_columns(records)]


def from_rows(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Returns a checked table of records from dicts of column -> value, with null for missing columns. Parameters are
    int, float or str. Raises ProfileError as `check_records` does."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    types = {
        name: _column_type(name, rows) for name in [*STANDARD_COLUMNS, *(n for n in names if n not in STANDARD_COLUMNS)]
    }
    for row in rows:
        _check_types(row, types)
    frame = pl.DataFrame([[row.get(name) for name in types] for row in rows], schema=types, orient="row")
    return check_records(frame)


def check_records(records: pl.DataFrame) -> pl.DataFrame:
    """Returns the records with their columns in order, and with a verdict column. Raises ProfileError that names the
    invalid column or the first invalid record."""
    records = _convert_legacy_text_columns(records)
    _check_columns(records)
    if VERDICT_COLUMN not in records.columns:
        records = records.with_columns(pl.lit(None, pl.String).alias(VERDICT_COLUMN))
    records = records.select(*STANDARD_COLUMNS, *_parameter_columns(records), VERDICT_COLUMN)
    for problem, wrong in _row_error_rules(records):
        bad = records.filter(wrong)
        if bad.height:
            raise ProfileError(f"{describe_record(bad.row(0, named=True))}: {problem}{_format_more_count(bad.height)}")
    _check_unique(records)
    return records


def where(records: pl.DataFrame, **conditions: Any) -> pl.DataFrame:
    """Returns the records whose columns have these values: where(r, scenario="pingpong", state=["invalid",
    "modified"]). A list admits each of its values; None admits null. Raises UsageError for a column that does not
    exist."""
    for name, value in conditions.items():
        if name not in records.columns:
            raise UsageError(f"records have no column '{name}'", as_sentence(suggest_name(name, records.columns)))
        values = list(value) if isinstance(value, (list, tuple, set)) else [value]
        if records[name].dtype == pl.Float64:
            values = [float(v) if isinstance(v, int) else v for v in values]
        wanted_rows = pl.col(name).is_in([v for v in values if v is not None])
        if None in values:
            wanted_rows = wanted_rows.fill_null(False) | pl.col(name).is_null()
        try:
            records = records.filter(wanted_rows)
        except pl.exceptions.PolarsError as error:
            raise UsageError(f"column '{name}' holds {records[name].dtype}, not {value!r}") from error
    return records


def describe_record(record: Mapping[str, Any]) -> str:
    """Returns a record as text for error messages: 'pingpong send (shared-l3, sender, size_bytes=8, state=invalid)'."""
    place = [str(record[name]) for name in PLACE_COLUMNS if record.get(name) is not None]
    rest = [
        f"{name}={value}"
        for name, value in record.items()
        if name not in STANDARD_COLUMNS and name != VERDICT_COLUMN and value is not None
    ]
    return f"{record['scenario']} {record['metric']}" + (f" ({', '.join(place + rest)})" if place + rest else "")


def _parameter_columns(records: pl.DataFrame) -> list[str]:
    return [name for name in records.columns if name not in STANDARD_COLUMNS and name != VERDICT_COLUMN]


def _polars_type(name: PolarsType) -> type[pl.DataType]:
    polars_type: type[pl.DataType] = getattr(pl, name)
    return polars_type


def _column_type(name: str, rows: list[Mapping[str, Any]]) -> type[pl.DataType]:
    """Returns the polars type of a column. The type of a parameter is that of its first value, or floating point if any
    value is."""
    if name in STANDARD_COLUMNS:
        return _polars_type(STANDARD_COLUMNS[name][0])
    values = [row[name] for row in rows if row.get(name) is not None]
    if not values or isinstance(values[0], bool) or not isinstance(values[0], (int, float)):
        return pl.String
    fractions = any(isinstance(value, float) for value in values) and not name.endswith("_bytes")  # bytes are integers
    return pl.Float64 if fractions else pl.Int64


def _convert_legacy_text_columns(records: pl.DataFrame) -> pl.DataFrame:
    """Converts the columns that older versions of nearfield wrote as text to numbers. A column with text that is no
    number stays unchanged, and the checks of the records reject it."""
    for name in LEGACY_TEXT_COLUMNS:
        if name in records.columns and records[name].dtype == pl.String:
            numbers = records[name].cast(pl.Float64, strict=False)
            if numbers.null_count() == records[name].null_count():
                records = records.with_columns(numbers)
    return records


def _check_types(row: Mapping[str, Any], types: Mapping[str, type[pl.DataType]]) -> None:
    """Raises ProfileError for a value of a wrong type, since polars would silently convert 2.5 to 2 and 5 to "5"."""
    for name, value in row.items():
        expected = _PYTHON_TYPES[types[name].__name__]
        if value is not None and (
            not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)
        ):
            record = {"scenario": "?", "metric": "?", **row}
            raise ProfileError(f"{describe_record(record)}: {name} = {value!r} is not {types[name].__name__}")


_PYTHON_TYPES = {"String": (str,), "Int64": (int,), "Float64": (float, int), "Boolean": (bool,)}


def _check_columns(records: pl.DataFrame) -> None:
    for name, (kind, _) in STANDARD_COLUMNS.items():
        if name not in records.columns:
            raise ProfileError(f"records have no column '{name}'")
        if records[name].dtype != _polars_type(kind):
            raise ProfileError(f"column '{name}' is {records[name].dtype} and must be {kind}")
    for name in _parameter_columns(records):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ProfileError(f"'{name}' is no name for a column: it must be in snake_case")
        if records[name].dtype not in (pl.Int64, pl.Float64, pl.String):
            raise ProfileError(f"column '{name}' is {records[name].dtype}; a parameter is Int64, Float64 or String")
        if (
            name in LEGACY_TEXT_COLUMNS
            and records[name].dtype == pl.String
            and records[name].null_count() < records.height
        ):
            raise ProfileError(f"column '{name}' is {records[name].dtype}, with values that are no numbers")
        if name.endswith("_bytes") and records[name].dtype != pl.Int64 and records[name].null_count() < records.height:
            raise ProfileError(f"column '{name}' is {records[name].dtype}; bytes are counted, so it must be Int64")
    for name, dtype in (
        dict.fromkeys(COUNT_PARAMETERS, pl.Int64) | dict.fromkeys([*CATEGORICAL_PARAMETERS, VERDICT_COLUMN], pl.String)
    ).items():
        actual_type = records[name].dtype if name in records.columns else dtype
        if actual_type != dtype and (name == VERDICT_COLUMN or records[name].null_count() < records.height):
            raise ProfileError(f"column '{name}' is {actual_type} and must be {dtype.__name__}")


def _row_error_rules(records: pl.DataFrame) -> Iterable[tuple[str, pl.Expr]]:
    """Yields (error message, expression that selects the rows with this error)."""
    for name in REQUIRED_COLUMNS:
        yield f"{name} is null", pl.col(name).is_null()
    for name, words in ALLOWED_WORDS_BY_COLUMN.items():
        unknown = pl.col(name).is_not_null() & ~pl.col(name).is_in(list(words))
        yield f"{name} is none of {', '.join(words)}", unknown
    value, low, high = pl.col("value"), pl.col("low"), pl.col("high")
    for name in ("value", "low", "high"):
        yield f"{name} is not finite", ~pl.col(name).is_finite()
    yield "only one end of the interval is there", low.is_null() != high.is_null()
    yield "the interval does not contain the value", (value < low) | (value > high)
    for unit, (minimum, maximum) in UNIT_BOUNDS.items():
        yield (
            f"no value in {unit} is below {minimum:g} or above {maximum:g}",
            (pl.col("unit") == unit) & ((low < minimum) | (value < minimum) | (value > maximum) | (high > maximum)),
        )
    for name in _parameter_columns(records):
        if name.endswith("_bytes") and records[name].dtype == pl.Int64:
            yield f"{name} is not from 0 to {MAX_PARAMETER_BYTES}", ~pl.col(name).is_between(0, MAX_PARAMETER_BYTES)
        if records[name].dtype == pl.Float64:
            yield f"{name} is not finite", ~pl.col(name).is_finite()
    for name in ("n", *(name for name in COUNT_PARAMETERS if name in records.columns)):
        if records[name].dtype == pl.Int64:
            yield f"{name} is negative", pl.col(name) < 0
    yield "there is a value but no repetition (n = 0)", value.is_not_null() & (pl.col("n") == 0)
    yield (
        "the value is null and there is no note with the reason",
        value.is_null() & (pl.col("note").fill_null("") == ""),
    )
    yield "the value is null and there is an interval", value.is_null() & low.is_not_null()
    yield "the value is null and called stable", value.is_null() & pl.col("stable")


def _check_unique(records: pl.DataFrame) -> None:
    twice = records.filter(records.select(identity_columns(records)).is_duplicated())
    if twice.height:
        raise ProfileError(f"{describe_record(twice.row(0, named=True))}: this record is there more than once")


def _format_more_count(num_records: int) -> str:
    return f" (and {num_records - 1} more like it)" if num_records > 1 else ""
