"""Plots the time of an operation over the values of swept keys of a simulated machine's description file."""

from __future__ import annotations

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.records import parameter_names, swept_parameters
from nearfield.report.plots.chart import Chart, ChartVariant
from nearfield.report.plots.generic import make_figure

TITLE = "Sweeps over the machine"
NAVIGATION_TITLE = "Sweeps"
SWEPT_METRIC = "mean_time"
_CASE_COLUMNS = ("operation", "ranks", "size_bytes")


def charts(profile: Profile) -> list[Chart]:
    """Returns a chart for each combination of swept keys, with a figure per operation, number of ranks and size, and a
    line per policy, memory speed and value of the other keys. The key with the most values is on the x axis."""
    rows = profile.records.filter(pl.col("metric") == SWEPT_METRIC)
    keys = swept_parameters(rows)
    if not keys:
        return []
    is_swept_rows = rows.select(pl.col(name).is_not_null() for name in keys)
    sweep_charts = []
    for number, is_swept in enumerate(row for row in is_swept_rows.unique(maintain_order=True).iter_rows() if any(row)):
        swept_keys = [name for name, is_given in zip(keys, is_swept, strict=True) if is_given]
        sweep_rows = rows.filter(*(pl.col(name).is_not_null() == (name in swept_keys) for name in keys))
        sweep_charts.append(
            Chart(f"sweep-{number}", _chart_title(swept_keys), _CAPTION, _variants(sweep_rows, swept_keys))
        )
    return sweep_charts


_CAPTION = (
    "The mean time of the simulated repetitions if the machine's file had these values, and all others as they are."
)


def _chart_title(keys: list[str]) -> str:
    return f"Time by {' and '.join(format_key(key) for key in keys)}"


def format_key(key: str) -> str:
    """Converts the column name 'machine_memory_latency_ns' to 'memory latency ns'."""
    return key.partition("_")[2].replace("_", " ")


def _variants(rows: pl.DataFrame, keys: list[str]) -> list[ChartVariant]:
    variants = []
    for (operation, ranks, size), case_rows in rows.group_by(*_CASE_COLUMNS, maintain_order=True):
        choice = {"operation": str(operation), "ranks": str(ranks), "size": format_bytes(int(str(size)))}
        variants.append(
            ChartVariant(choice, make_figure(_rename_columns(case_rows, keys), SWEPT_METRIC, map(format_key, keys)))
        )
    return variants


def _rename_columns(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Returns the rows without parameters that have only one value, and with display names for the swept keys."""
    constant_parameters = [name for name in parameter_names(rows) if name not in keys and rows[name].n_unique() == 1]
    return rows.drop(constant_parameters).rename({key: format_key(key) for key in keys})
