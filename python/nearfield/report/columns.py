"""Formats the result of `nearfield tune` as text columns, like the output of the OSU micro-benchmarks."""

from __future__ import annotations

from nearfield.rules.schema import PointTable, Rules
from nearfield.ui.html import escape_html, folded_html, tag

_FOLD_TITLE = "size, baseline, tuned and gain as columns, to paste"


def format_osu_columns(rules: Rules) -> str:
    """Returns a block of lines for each confirmed core distance and communication pattern; '' if nothing was confirmed.
    The columns are the size in bytes, the time per message in us of the baseline and of the tuned MPI, and the gain
    with its 95 % interval."""
    blocks = []
    for rule in rules.rule:
        for pattern in dict.fromkeys(point.pattern for point in rule.point):
            head = f"# {rules.mpi.family} {rules.mpi.version}, {rule.distance}, {pattern}, time per message"
            rows = [_format_row(point) for point in rule.point if point.pattern == pattern]
            names = f"{'# size (B)':<12}{'baseline (us)':>16}{'tuned (us)':>16}{'gain':>8}  95 % interval"
            blocks.append("\n".join([head, names, *rows]))
    return "".join(f"{block}\n" for block in blocks)


def gain_columns_html(rules: Rules) -> str:
    """Returns the text columns as a collapsed HTML element; '' if there are none."""
    text = format_osu_columns(rules)
    return folded_html(_FOLD_TITLE, tag("pre", tag("code", escape_html(text)))) if text else ""


def _format_row(point: PointTable) -> str:
    gain = point.gain
    times = f"{point.baseline_ns / 1e3:>16.2f}{point.tuned_ns / 1e3:>16.2f}"
    return f"{point.size_bytes:<12}{times}{gain.value:>8.2f}  {gain.low:.2f} to {gain.high:.2f}"
