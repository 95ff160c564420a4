"""Plots the time of an operation over swept keys of a simulated machine's description file."""

from __future__ import annotations

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.records import parameters, swept_parameters
from nearfield.report.plots.chart import Chart, Variant
from nearfield.report.plots.generic import figure

TITLE = "Sweeps over the machine"
SHORT = "Sweeps"
METRIC = "mean_time"
_CASE = ("operation", "ranks", "size_bytes")


def charts(profile: Profile) -> list[Chart]:
    """Returns a chart for each combination of swept keys, with a figure per operation, number of ranks and size, and a
    line per policy, memory speed and value of the other keys. The key with the most values is on the x axis."""
    rows = profile.records.filter(pl.col("metric") == METRIC)
    keys = swept_parameters(rows)
    if not keys:
        return []
    given = rows.select(pl.col(name).is_not_null() for name in keys)
    found = []
    for number, which in enumerate(row for row in given.unique(maintain_order=True).iter_rows() if any(row)):
        swept_keys = [name for name, is_given in zip(keys, which, strict=True) if is_given]
        same = rows.filter(*(pl.col(name).is_not_null() == (name in swept_keys) for name in keys))
        found.append(Chart(f"sweep-{number}", _title(swept_keys), _CAPTION, _variants(same, swept_keys)))
    return found


_CAPTION = (
    "The mean time of the simulated repetitions if the machine's file had these values, and all others as they are."
)


def _title(keys: list[str]) -> str:
    return f"Time by {' and '.join(key_words(key) for key in keys)}"


def key_words(key: str) -> str:
    """Converts the column name 'machine_memory_latency_ns' to 'memory latency ns'."""
    return key.partition("_")[2].replace("_", " ")


def _variants(rows: pl.DataFrame, keys: list[str]) -> list[Variant]:
    variants = []
    for (operation, ranks, size), own in rows.group_by(*_CASE, maintain_order=True):
        choice = {"operation": str(operation), "ranks": str(ranks), "size": format_bytes(int(str(size)))}
        variants.append(Variant(choice, figure(_rename_columns(own, keys), METRIC, map(key_words, keys))))
    return variants


def _rename_columns(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Returns the rows without parameters that have only one value, and with display names for the swept keys."""
    same = [name for name in parameters(rows) if name not in keys and rows[name].n_unique() == 1]
    return rows.drop(same).rename({key: key_words(key) for key in keys})
