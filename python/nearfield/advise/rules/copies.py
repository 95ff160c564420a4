"""Shared code of the checks same-node-copies and unseen-buffer: compares messages inside a node with a single copy of
the data."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import message_size_text, sum_message_losses, time_evidence
from nearfield.advise.run import MessageGroup, ObservedRun, group_by_site
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule


def find_slow_copies(
    run: ObservedRun, rule: NoteRule, sent_messages: list[MessageGroup], sentence_template: str, advice: str
) -> Iterator[Note]:
    """Yields a note for each source line whose messages in `sent_messages` take longer than a single copy of their
    data. `sentence_template` is the beginning of the note's sentence, with {} for the call and the size."""
    for site, messages in group_by_site(sent_messages):
        losing = sum_message_losses(messages, _message_and_copy_times)
        if not losing:
            continue
        lost, slow, example, (message, copy) = losing
        subject = sentence_template.format(f"{site.name} of {message_size_text(slow)}")
        yield Note(
            rule, site.place, f"{subject} would save {lost.format_loss_per_call()}", advice, lost.as_lost_time(run),
            evidence=(
                time_evidence(f"message of {format_bytes(example.counts.bytes)}", message, example.costs),
                time_evidence("one copy of as much", copy, example.costs),
            ),
        )  # fmt: skip


def _message_and_copy_times(message_group: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the time of a message and of a single copy of its data, if the copy is significantly faster; None
    otherwise."""
    message, copy = (
        message_group.costs.message_time(message_group.counts.bytes),
        message_group.costs.remote_copy_time(message_group.counts.bytes),
    )
    return (message, copy) if message and copy and (message - copy).low > 0 else None
