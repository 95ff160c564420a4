"""The table of a validation's scores, for the terminal and as Markdown."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.validate.scores import Score, interval_factor
from nearfield.validate.validation import Validation

HEADER = ("scenario", "cases", "mean", "spread", "error", "stable only", "live repeat")


def table_rows(found: Validation) -> list[tuple[str, ...]]:
    """Returns the rows of the table as text. Factors of 1 mean agreement."""
    made = [_score_row(f"{one.scenario} {one.metric}", one, _repeat_text(found, one)) for one in found.scores]
    if found.total and len(found.scores) > 1:
        made.append(_score_row("all", found.total, _repeat_text(found, found.total)))
    return made


def _score_row(name: str, one: Score, repeat: str) -> tuple[str, ...]:
    stable = f"x{one.stable_error:.2f} ({one.stable_cases})" if one.stable_error else "-"
    return name, str(one.cases), f"{one.mean:.2f}", f"x{one.spread:.2f}", f"x{one.error:.2f}", stable, repeat


def _repeat_text(found: Validation, one: Score) -> str:
    """Returns the error of a second measurement; without one, the half width of the measured intervals."""
    if one.repeat is not None:
        return f"x{one.repeat:.2f}"
    if found.profile is None:
        return "-"
    group = [p for p in found.simulated.pairs if one.scenario == "all" or _is_scored_by(one, p.row)]
    return f"x{interval_factor(group):.2f} (intervals)"


def _is_scored_by(one: Score, row: dict[str, object]) -> bool:
    return (row["scenario"], row["metric"]) == (one.scenario, one.metric)


def table_notes(found: Validation) -> list[str]:
    """Returns the notes below the table: order of buffer states, steps, and records that were not compared."""
    lines = []
    if found.order.all:
        lines.append(
            f"order of buffer states that differ by 10 %: {found.order.right_count} of {found.order.all} right"
        )
    for step in found.steps:
        place = "in place" if step.is_in_place else f"described at {format_bytes(step.described_bytes or 0)}"
        sign = "right sign" if step.has_right_sign else "WRONG sign"
        lines.append(
            f"step at {step.bytes} B ({step.kind}), {step.curve}: measured x{step.measured:.2f}, simulated "
            f"x{step.simulated:.2f}: {place}, {sign}, x{step.error:.2f} apart"
        )
    for scenario, count in found.simulated.fitted.items():
        lines.append(f"{scenario}: {count} records are not scored, since the description was fitted to them")
    for scenario, (count, why) in found.simulated.skipped.items():
        lines.append(f"{scenario}: {count} times not compared: {why}")
    return lines


def as_markdown(found: Validation) -> str:
    """Returns the table and its notes as Markdown."""
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(found)]
    return "\n".join([*lines, "", *(f"- {note}" for note in table_notes(found))]) + "\n"
