"""Renders the records from which a statement was judged as a collapsible HTML table, with links to the profiles and
with commands that print the records."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.base.units import FORMATTER_BY_UNIT, counted
from nearfield.reproduce.outcome import JudgedStatement, RecordSeries
from nearfield.reproduce.writers import parameter_formatter
from nearfield.ui.html import escape_html, folded_html, table, tag, text


def supporting_records_html(judged: JudgedStatement, folder: Path) -> str:
    """Returns the HTML table of the records from which the statement was judged; '' if there are none. `folder`
    contains the profiles."""
    if judged.shown is None:
        return ""
    records = judged.shown.records
    xs = sorted({x for series in records for x, _ in series.points})
    header = ["profile", "metric", "of", *(text(parameter_formatter(judged.shown.by)(x)) for x in xs)]
    commands = dict.fromkeys(_format_show_command(series, folder) for series in records)
    inner = table(header, [_series_row(series, xs) for series in records]) + tag(
        "pre", tag("code", escape_html("\n".join(commands)))
    )
    count = sum(len(series.points) for series in records)
    return folded_html(f"{counted(count, 'record')}", inner, class_="behind")


def _series_row(series: RecordSeries, xs: list[float]) -> list[str]:
    values, write = dict(series.points), FORMATTER_BY_UNIT[series.unit]
    columns = ", ".join(f"{name} {value}" for name, value in series.where.items())
    profile = tag("a", text(series.profile), href=f"{series.profile}/")
    return [profile, text(series.metric), text(columns), *(text(write(values[x])) if x in values else "" for x in xs)]


def _format_show_command(series: RecordSeries, folder: Path) -> str:
    where = [word for name, value in series.where.items() for word in ("--where", f"{name}={value}")]
    return own_command.command_line(
        "show", folder.absolute() / series.profile, "--metric", series.metric, *where, works_in_any_folder=True
    )
