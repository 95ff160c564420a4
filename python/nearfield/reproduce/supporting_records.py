"""The records behind a judged statement as HTML: a folding table with links to the profiles and with commands that show
the records."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.base.units import UNITS, counted
from nearfield.reproduce.outcome import JudgedStatement, Series
from nearfield.reproduce.writers import parameter_writer
from nearfield.ui.html import escape_html, folded_html, table, tag, text


def supporting_records_html(judged: JudgedStatement, folder: Path) -> str:
    """Returns the table of the records that judged the statement; '' without records. `folder` has the profiles."""
    if judged.shown is None:
        return ""
    records = judged.shown.records
    xs = sorted({x for series in records for x, _ in series.points})
    header = ["profile", "metric", "of", *(text(parameter_writer(judged.shown.by)(x)) for x in xs)]
    commands = dict.fromkeys(_show_command(series, folder) for series in records)
    inner = table(header, [_series_row(series, xs) for series in records]) + tag(
        "pre", tag("code", escape_html("\n".join(commands)))
    )
    count = sum(len(series.points) for series in records)
    return folded_html(f"{counted(count, 'record')}", inner, class_="behind")


def _series_row(series: Series, xs: list[float]) -> list[str]:
    values, write = dict(series.points), UNITS[series.unit]
    columns = ", ".join(f"{name} {value}" for name, value in series.where.items())
    profile = tag("a", text(series.profile), href=f"{series.profile}/")
    return [profile, text(series.metric), text(columns), *(text(write(values[x])) if x in values else "" for x in xs)]


def _show_command(series: Series, folder: Path) -> str:
    where = [word for name, value in series.where.items() for word in ("--where", f"{name}={value}")]
    return own_command.line(
        "show", folder.absolute() / series.profile, "--metric", series.metric, *where, anywhere=True
    )
