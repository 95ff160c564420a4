"""Formats the result of `tune` as text columns, like the OSU micro-benchmarks."""

from __future__ import annotations

from nearfield.rules.schema import PointTable, Rules
from nearfield.ui.html import escape_html, folded_html, tag

_TITLE = "size, baseline, tuned and gain as columns, to paste"


def osu_columns(rules: Rules) -> str:
    """Returns a block of lines for each confirmed core distance and pattern: size in bytes, time per message in us of
    the baseline and of the tuned MPI, and the gain with its 95 % interval; '' if nothing was confirmed."""
    blocks = []
    for rule in rules.rule:
        for pattern in dict.fromkeys(point.pattern for point in rule.point):
            head = f"# {rules.mpi.family} {rules.mpi.version}, {rule.distance}, {pattern}, time per message"
            rows = [_row(point) for point in rule.point if point.pattern == pattern]
            names = f"{'# size (B)':<12}{'baseline (us)':>16}{'tuned (us)':>16}{'gain':>8}  95 % interval"
            blocks.append("\n".join([head, names, *rows]))
    return "".join(f"{block}\n" for block in blocks)


def columns_html(rules: Rules) -> str:
    """Returns the text columns as folded HTML; '' if there are none."""
    text = osu_columns(rules)
    return folded_html(_TITLE, tag("pre", tag("code", escape_html(text)))) if text else ""


def _row(point: PointTable) -> str:
    gain = point.gain
    times = f"{point.baseline_ns / 1e3:>16.2f}{point.tuned_ns / 1e3:>16.2f}"
    return f"{point.size_bytes:<12}{times}{gain.value:>8.2f}  {gain.low:.2f} to {gain.high:.2f}"
