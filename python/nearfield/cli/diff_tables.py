"""Formats the differences of two profiles, as human-readable tables and data for scripts, and the verdict of the CI
gate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.units import format_ratio, format_value
from nearfield.profile import Profile
from nearfield.profile.compare import (
    Comparison,
    RecordChange,
    UnmatchedValues,
    count_agreeing_times,
    find_unmatched_values,
    largest_changes,
    overall_verdict,
    summarize_by_scenario,
)
from nearfield.profile.differences import (
    UNPAIRED_NOTE,
    agreement_line,
    profile_differences,
    record_location_text,
    same_setup_line,
    setup_differences,
    unmatched_values_line,
    variable_differences,
    verdict_sentence,
)
from nearfield.profile.gate import GateResult
from nearfield.ui.terminal import Column, Table

SHOWN_CHANGES = 15
STYLES = {"faster": "green", "slower": "red", "changed": "cyan"}
EXIT_CODES = {"not slower": 0, "slower": 1, "not decided": NOT_DECIDED_EXIT_CODE}


# ---- verdict of the CI gate


def gate_lines(gate: GateResult) -> list[str]:
    """Returns the gate's messages for standard error; [] if B is not slower."""
    lines = []
    for name, one in gate.scenarios.items():
        if one.verdict == "slower" and one.geometric_mean:
            lines.append(f"{name} is slower: {format_ratio(one.geometric_mean)} in the geometric mean")
        lines += [f"  {t.where}: {format_ratio(t.ratio)} (luck up to {format_ratio(t.limit)})" for t in one.slow_times]
    return lines + [f"cannot tell: {reason}" for reason in gate.reasons]


def gate_as_dict(gate: GateResult) -> dict[str, Any]:
    """Returns the gate's result for --json: the verdict, the reasons why it is undecided, and the counts of each
    scenario."""
    return {
        "verdict": gate.verdict,
        "exit_code": EXIT_CODES[gate.verdict],
        "reasons": gate.reasons,
        "scenarios": {name: asdict(one) for name, one in gate.scenarios.items()},
    }


# ---- output for scripts


def as_dict(a: Profile, b: Profile, comparison: Comparison, threshold: float) -> dict[str, Any]:
    """Returns the comparison for --json, with ratios B/A. A change without a verdict lacks a value; its note gives the
    reason."""
    return {
        "a": str(a.path),
        "b": str(b.path),
        "threshold": threshold,
        "verdict": overall_verdict(comparison.changes),
        "counts": Counter(change.verdict or "missing" for change in comparison.changes if not change.diagnostic),
        "differences": [{"what": what, "a": in_a, "b": in_b} for what, in_a, in_b in profile_differences(a, b)],
        "summary": summarize_by_scenario(comparison.changes),
        "only": [asdict(axis) for axis in find_unmatched_values(a.records, b.records)],
        "only_a": comparison.only_a.height,
        "only_b": comparison.only_b.height,
        "changes": [_replace_infinities(asdict(change)) for change in comparison.changes],
    }


def _replace_infinities(value: Any) -> Any:
    """Replaces infinities by None, because JSON has none. The upper end of an interval may be infinite."""
    if isinstance(value, dict):
        return {key: _replace_infinities(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


# ---- human-readable output


def comparison_view(a: Profile, b: Profile, comparison: Comparison, verbose: bool = False) -> RenderableType:
    """Returns the comparison of two profiles as tables and text; with `verbose`, lists all control variables that
    differ."""
    lone = find_unmatched_values(a.records, b.records)
    parts: list[RenderableType] = [*_profile_header(a, b), Text()]
    if not comparison.changes:
        parts += [Text("the two have no record in common"), *_list_lone_axes(lone, comparison)]
        return Group(*parts, *_list_changed_variables(a, b, verbose))
    parts += [_summary_table(comparison), Text(agreement_line(count_agreeing_times(comparison.changes)))]
    parts += [Text(), Text(verdict_sentence(comparison.changes), style="bold")]
    parts += _changes_table(largest_changes(comparison.changes))
    return Group(
        *parts,
        *_list_lone_axes(lone, comparison),
        *_list_changed_variables(a, b, verbose),
        Text(_format_caution(a, b), style="dim"),
    )


def _format_caution(a: Profile, b: Profile) -> str:
    """Returns a caution about what the ratios cannot show; "" if both profiles were simulated."""
    if a.path.resolve() == b.path.resolve():
        return "A and B are the same profile."
    return "" if a.run.backend == b.run.backend == "sim" else UNPAIRED_NOTE


def _list_changed_variables(a: Profile, b: Profile, verbose: bool) -> list[RenderableType]:
    """Returns the MPI control variables that differ, or, without `verbose`, only their number. There may be dozens."""
    different = variable_differences(a, b)
    if not different:
        return []
    if not verbose:
        return [Text(f"control variables of the MPI that differ: {len(different)} (-v lists them)", style="dim")]
    return [Text("control variables of the MPI that differ", style="bold"), _side_by_side(different), Text()]


def _side_by_side(pairs: Iterable[tuple[str, ...]]) -> Table:
    table = Table(Column(key=True), Column("A"), Column("B"))
    for what, *values in pairs:
        table.add_row(*map(Text, (what, *values)))
    return table


def _profile_header(a: Profile, b: Profile) -> list[RenderableType]:
    created = (f"{p.run.created:%Y-%m-%d %H:%M}" for p in (a, b))
    table = _side_by_side([("profile", str(a.path), str(b.path)), ("created", *created), *setup_differences(a, b)])
    return [table, Text(same_setup_line(a, b), style="bold")]


def _summary_table(comparison: Comparison) -> Table:
    """Returns the table of verdict counts and mean ratios B/A for each scenario."""
    words = ("records", "faster", "slower", "changed", "same", "unstable", "missing")
    headings = (*words, "geometric mean B/A")
    table = Table(Column("scenario", key=True), *(Column(heading, right=True) for heading in headings))
    for scenario, summary in summarize_by_scenario(comparison.changes).items():
        mean = summary["geometric_mean"]
        counts = [Text(str(summary[word] or "-"), style=STYLES.get(word, "")) for word in words]
        table.add_row(Text(scenario), *counts, "-" if mean is None else format_ratio(mean))
    return table


def _changes_table(changes: list[RecordChange]) -> list[RenderableType]:
    if not changes:
        return []
    numbers = (Column(heading, right=True) for heading in ("A", "B", "B/A"))
    table = Table(Column("what", key=True), Column("where", key=True), *numbers, Column())
    for change in changes[:SHOWN_CHANGES]:
        values = [format_value(e.value, change.unit) for e in (change.a, change.b) if e]
        what = Text(f"{change.key['scenario']} {change.key['metric']}")
        verdict = Text(change.verdict or "", style=STYLES.get(change.verdict or "", ""))
        table.add_row(what, Text(record_location_text(change.key)), *values, _ratio_text(change), verdict)
    return [
        Text(
            f"the largest of {len(changes)} changes" if len(changes) > SHOWN_CHANGES else "changes",
            style="bold",
        ),
        table,
    ]


def _ratio_text(change: RecordChange) -> str:
    if change.ratio is None:
        return "-"
    return f"{format_ratio(change.ratio.value)} ({change.ratio.low:.2f} to {change.ratio.high:.2f})"


def _list_lone_axes(lone: list[UnmatchedValues], comparison: Comparison) -> list[RenderableType]:
    """Returns lines on values of parameters that only one of the two profiles has, and whose records cannot be
    compared."""
    if not (comparison.only_a.height or comparison.only_b.height):
        return []
    title = f"not compared: {comparison.only_a.height} records only in A, {comparison.only_b.height} only in B"
    return [Text(), Text(title, style="bold"), *(Text(f"  {unmatched_values_line(axis)}") for axis in lone), Text()]
