"""The records behind a statement: a folding table, with links to their profiles and commands that show them."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.base.units import UNITS, counted
from nearfield.reproduce.outcome import Judged, Series
from nearfield.reproduce.writers import writer_x
from nearfield.ui.html import escape_html, folded_html, table, tag, text


def supporting_records_html(judged: Judged, folder: Path) -> str:
    """Returns every record that judged the statement; '' if there are none. The profiles are in `folder`."""
    if judged.shown is None:
        return ""
    records = judged.shown.records
    xs = sorted({x for series in records for x, _ in series.points})
    header = ["profile", "metric", "of", *(text(writer_x(judged.shown.by)(x)) for x in xs)]
    commands = dict.fromkeys(_command(series, folder) for series in records)
    inner = table(header, [_row(series, xs) for series in records]) + tag(
        "pre", tag("code", escape_html("\n".join(commands)))
    )
    count = sum(len(series.points) for series in records)
    return folded_html(f"{counted(count, 'record')}", inner, class_="behind")


def _row(series: Series, xs: list[float]) -> list[str]:
    values, write = dict(series.points), UNITS[series.unit]
    columns = ", ".join(f"{name} {value}" for name, value in series.where.items())
    profile = tag("a", text(series.profile), href=f"{series.profile}/")
    return [profile, text(series.metric), text(columns), *(text(write(values[x])) if x in values else "" for x in xs)]


def _command(series: Series, folder: Path) -> str:
    where = [word for name, value in series.where.items() for word in ("--where", f"{name}={value}")]
    return own_command.line(
        "show", folder.absolute() / series.profile, "--metric", series.metric, *where, anywhere=True
    )
