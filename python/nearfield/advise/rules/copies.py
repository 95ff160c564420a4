"""Shared code of the checks same-node-copies and unseen-buffer: compares messages inside a node with a single copy of
the data."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import find_losing_messages, size_text, time_evidence
from nearfield.advise.run import MessageGroup, ObservedRun, group_by_site
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule


def slow_copy_notes(
    run: ObservedRun, rule: NoteRule, sent: list[MessageGroup], what: str, advice: str
) -> Iterator[Note]:
    """Yields a note for each source line whose messages in `sent` take longer than a single copy of their data. `what`
    is the sentence's part with their size, before the loss."""
    for site, messages in group_by_site(sent):
        losing = find_losing_messages(messages, _message_and_copy_times)
        if not losing:
            continue
        lost, slow, example, (message, copy) = losing
        subject = what.format(f"{site.name} of {size_text(slow)}")
        yield Note(
            rule, site.place, f"{subject} would save {lost.per_call_text()}", advice, lost.as_lost_time(run),
            evidence=(
                time_evidence(f"message of {format_bytes(example.found.bytes)}", message, example.costs),
                time_evidence("one copy of as much", copy, example.costs),
            ),
        )  # fmt: skip


def _message_and_copy_times(one: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the time of a message and of a single copy of its data, if the copy is significantly faster; None
    otherwise."""
    message, copy = one.costs.message(one.found.bytes), one.costs.remote_copy_time(one.found.bytes)
    return (message, copy) if message and copy and (message - copy).low > 0 else None
