"""Writes the commit message for patches: what changes and why, what is measured, and what the proof assumes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from nearfield.base.units import counted
from nearfield.rewrite.patch import Patch

WIDTH = 72
# Subject lines by transformation, for the function `of`.
SUBJECTS = {
    "warm-send": "Send data of {of} while they are in the cache",
    "late-receive": "Receive in {of} just before the data are used",
    "reverse": "Go backwards in {of} to use data in the cache",
    "overlap": "Compute in {of} while messages travel",
    "strip-mine": "Exchange messages of {of} strip by strip",
    "cut": "Cut long messages of {of} into pieces",
    "late-wait": "Wait in {of} where messages are needed",
    "persistent": "Use persistent requests in {of}",
}
ASSUMED = (
    "the program has no errors: indices stay inside their arrays, signed integers do not overflow, and what a call "
    "sends and what it receives do not overlap",
    "no call of MPI fails, and neither an assert nor MPI_Abort ends the program",
    "no other thread, process or signal handler accesses the memory of these statements while they are executed",
)


def commit_message(patches: Sequence[Patch]) -> str:
    """Returns the commit message for patches of one file, of which there is at least one."""
    first = patches[0]
    parts = [_subject(first) if len(patches) == 1 else f"Move messages at {len(patches)} places of {first.path.name}"]
    for patch in patches:
        start, end = patch.lines
        where = f"{patch.path.name}, lines {start} to {end} ({patch.function}), {patch.transformation}: "
        parts.append(_wrapped(f"{where}{patch.reason}. {_steps(patch)}"))
        parts.append(_wrapped(f"Measured: {'; '.join(patch.measured) or 'nothing'}."))
        verified = [one for one in patch.checks if one not in patch.measured]
        parts.append(_wrapped(f"Runs of both versions: {'; '.join(verified) or 'none, this is not verified'}."))
    needs = [*ASSUMED, *dict.fromkeys(assumption for patch in patches for assumption in patch.assumptions)]
    proof = "It is proved that the program does the same as before, if"
    parts.append("\n".join([_wrapped(proof), *(_wrapped(one, "- ") for one in needs)]))
    return "\n\n".join(parts) + "\n"


def _subject(patch: Patch) -> str:
    """Returns the first line of the message for one patch."""
    subject = SUBJECTS[patch.transformation].format(of=patch.function)
    return subject if len(subject) <= WIDTH else SUBJECTS[patch.transformation].format(of=patch.path.name)


def _steps(patch: Patch) -> str:
    changed = f"It adds or changes {counted(patch.changed_line_count, 'line')}."
    is_new = patch.steps and patch.steps not in patch.reason
    return f"The new order: {patch.steps}. {changed}" if is_new else changed


def _wrapped(text: str, bullet: str = "") -> str:
    """Returns a paragraph in lines of at most WIDTH characters."""
    indent = " " * len(bullet)
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=bullet, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)
