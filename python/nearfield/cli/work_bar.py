"""The progress bar of verbs that simulate: its unit is estimated work."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def work_bar(console: Console) -> Progress:
    """Gone when it ends; in a log, nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    quiet = not console.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console, refresh_per_second=2, transient=True, disable=quiet)
