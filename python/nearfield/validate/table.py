"""Formats the scores of a validation as a table, for the terminal and as Markdown."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.validate.scores import Score, mean_interval_factor
from nearfield.validate.validation import Validation

TABLE_HEADER = ("scenario", "cases", "mean", "spread", "error", "stable only", "live repeat")


def table_rows(validation: Validation) -> list[tuple[str, ...]]:
    """Returns the rows of the table, with cells as text. A factor of 1 means perfect agreement."""
    rows = [
        _format_score_row(f"{score.scenario} {score.metric}", score, _format_repeat(validation, score))
        for score in validation.scores
    ]
    if validation.total_score and len(validation.scores) > 1:
        rows.append(
            _format_score_row("all", validation.total_score, _format_repeat(validation, validation.total_score))
        )
    return rows


def _format_score_row(name: str, score: Score, repeat_text: str) -> tuple[str, ...]:
    stable = f"x{score.stable_error:.2f} ({score.stable_cases})" if score.stable_error else "-"
    return (
        name,
        str(score.cases),
        f"{score.mean:.2f}",
        f"x{score.spread:.2f}",
        f"x{score.error:.2f}",
        stable,
        repeat_text,
    )


def _format_repeat(validation: Validation, score: Score) -> str:
    """Returns the error of a second measurement as text; without one, the half width of the measured intervals."""
    if score.repeat is not None:
        return f"x{score.repeat:.2f}"
    if validation.profile is None:
        return "-"
    group = [
        p for p in validation.simulated_cases.pairs if score.scenario == "all" or _is_scored_by(score, p.measured_row)
    ]
    return f"x{mean_interval_factor(group):.2f} (intervals)"


def _is_scored_by(score: Score, row: dict[str, object]) -> bool:
    return (row["scenario"], row["metric"]) == (score.scenario, score.metric)


def table_notes(validation: Validation) -> list[str]:
    """Returns the notes below the table: order of buffer states, steps, and records that were not compared."""
    lines = []
    if validation.state_order.num_pairs:
        lines.append(
            f"order of buffer states that differ by 10 %: {validation.state_order.num_right} of "
            f"{validation.state_order.num_pairs} right"
        )
    for step in validation.steps:
        place_text = "in place" if step.is_in_place else f"described at {format_bytes(step.described_bytes or 0)}"
        sign_text = "right sign" if step.has_right_sign else "WRONG sign"
        lines.append(
            f"step at {step.switch_bytes} B ({step.switch_kind}), {step.curve}: measured x{step.measured:.2f}, "
            f"simulated x{step.simulated:.2f}: {place_text}, {sign_text}, x{step.error:.2f} apart"
        )
    for scenario, count in validation.simulated_cases.num_fitted_by_scenario.items():
        lines.append(f"{scenario}: {count} records are not scored, since the description was fitted to them")
    for scenario, (count, reason) in validation.simulated_cases.skipped_by_scenario.items():
        lines.append(f"{scenario}: {count} times not compared: {reason}")
    return lines


def format_markdown(validation: Validation) -> str:
    """Returns the table and its notes as Markdown."""
    lines = [f"| {' | '.join(TABLE_HEADER)} |", f"|{'---|' * len(TABLE_HEADER)}"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(validation)]
    return "\n".join([*lines, "", *(f"- {note}" for note in table_notes(validation))]) + "\n"
