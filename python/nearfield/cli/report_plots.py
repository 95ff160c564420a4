"""`nearfield report --format svg` and `csv`: writes the plots of a page as files in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors

if TYPE_CHECKING:
    from nearfield.profile import Profile
    from nearfield.rules.schema import Rules

FORMATS = ("html", "svg", "csv")
_OTHER_FOLDER_REMEDY = "Give another folder with -o."


def require_format(name: str) -> None:
    """Raises UsageError unless `name` is one of FORMATS."""
    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'", f"Write --format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")


def write_plots(kind: str, profiles: Sequence[Profile], tuned: Rules | None, out: Path | None) -> Path:
    """Writes files for each plot into a folder: for `csv` the table behind the plot, for `svg` a picture for each
    choice of its options. Returns the folder. Raises ProfileError if a file cannot be written."""
    folder = out or _default_folder(kind, profiles)
    files = csv_by_file_name(profiles, tuned) if kind == "csv" else svg_by_file_name(profiles, tuned)
    with os_errors_as_profile_errors(folder, _OTHER_FOLDER_REMEDY):
        folder.mkdir(exist_ok=True)
    for name, content in files.items():
        atomic_write(folder / name, content.encode(errors="replace"), _OTHER_FOLDER_REMEDY)
    return folder


def _default_folder(kind: str, profiles: Sequence[Profile]) -> Path:
    return profiles[0].path / f"report-{kind}" if len(profiles) == 1 else Path(f"comparison-{kind}")


def csv_by_file_name(profiles: Sequence[Profile], tuned: Rules | None) -> dict[str, str]:
    """Returns file name -> CSV for each plot, and a text file with the gains of the rules as columns."""
    from nearfield.report import comparison, page
    from nearfield.report.columns import format_osu_columns
    from nearfield.report.plots.table import as_csv

    one = len(profiles) == 1
    charts = page.charts_of(profiles[0], tuned) if one else comparison.charts_of(profiles)
    gains = {"tuned.txt": format_osu_columns(tuned)} if tuned and format_osu_columns(tuned) else {}
    return {f"{chart.id}.csv": as_csv(chart) for chart in charts} | gains


def svg_by_file_name(profiles: Sequence[Profile], tuned: Rules | None) -> Mapping[str, str]:
    """Returns a dict from file name to SVG, with an entry for each combination of a plot and a choice of its options.
    Raises UsageError if no browser is installed."""
    from nearfield.report import comparison, page
    from nearfield.report.pictures import draw_pictures

    return draw_pictures(
        page.render_report(profiles[0], tuned) if len(profiles) == 1 else comparison.render_comparison(profiles)
    )
