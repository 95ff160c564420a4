"""Writes the commit message for patches: what changes and why, what is measured, and what the proof assumes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from nearfield.base.units import counted
from nearfield.rewrite.patch import Patch

LINE_WIDTH = 72
# Subject lines by transformation; {of} is replaced by the function's name.
SUBJECT_BY_TRANSFORMATION = {
    "warm-send": "Send data of {of} while they are in the cache",
    "late-receive": "Receive in {of} just before the data are used",
    "reverse": "Go backwards in {of} to use data in the cache",
    "overlap": "Compute in {of} while messages travel",
    "strip-mine": "Exchange messages of {of} strip by strip",
    "cut": "Cut long messages of {of} into pieces",
    "late-wait": "Wait in {of} where messages are needed",
    "persistent": "Use persistent requests in {of}",
}
ASSUMED_CONDITIONS = (
    "the program has no errors: indices stay inside their arrays, signed integers do not overflow, and what a call "
    "sends and what it receives do not overlap",
    "no call of MPI fails, and neither an assert nor MPI_Abort ends the program",
    "no other thread, process or signal handler accesses the memory of these statements while they are executed",
)


def commit_message(patches: Sequence[Patch]) -> str:
    """Returns the commit message for patches of one file, of which there is at least one."""
    first = patches[0]
    parts = [
        _format_subject(first) if len(patches) == 1 else f"Move messages at {len(patches)} places of {first.path.name}"
    ]
    for patch in patches:
        start, end = patch.changed_lines
        place = f"{patch.path.name}, lines {start} to {end} ({patch.function}), {patch.transformation}: "
        parts.append(_wrap_paragraph(f"{place}{patch.reason}. {_describe_steps(patch)}"))
        parts.append(_wrap_paragraph(f"Measured: {'; '.join(patch.measured_checks) or 'nothing'}."))
        verification_checks = [check for check in patch.checks if check not in patch.measured_checks]
        parts.append(
            _wrap_paragraph(f"Runs of both versions: {'; '.join(verification_checks) or 'none, this is not verified'}.")
        )
    conditions = [
        *ASSUMED_CONDITIONS,
        *dict.fromkeys(assumption for patch in patches for assumption in patch.assumptions),
    ]
    proof_sentence = "It is proved that the program does the same as before, if"
    parts.append("\n".join([_wrap_paragraph(proof_sentence), *(_wrap_paragraph(check, "- ") for check in conditions)]))
    return "\n\n".join(parts) + "\n"


def _format_subject(patch: Patch) -> str:
    """Returns the first line of the message for one patch."""
    subject = SUBJECT_BY_TRANSFORMATION[patch.transformation].format(of=patch.function)
    return (
        subject
        if len(subject) <= LINE_WIDTH
        else SUBJECT_BY_TRANSFORMATION[patch.transformation].format(of=patch.path.name)
    )


def _describe_steps(patch: Patch) -> str:
    changed = f"It adds or changes {counted(patch.num_changed_lines, 'line')}."
    is_new = patch.order_description and patch.order_description not in patch.reason
    return f"The new order: {patch.order_description}. {changed}" if is_new else changed


def _wrap_paragraph(text: str, bullet: str = "") -> str:
    """Returns a paragraph in lines of at most LINE_WIDTH characters."""
    indent = " " * len(bullet)
    lines = textwrap.wrap(
        text,
        LINE_WIDTH,
        initial_indent=bullet,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
