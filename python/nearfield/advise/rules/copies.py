"""Shared code of same-node-copies and unseen-buffer: messages inside a node, compared with a single copy of the
data."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import Lost, number, size_text
from nearfield.advise.run import Messages, Run, by_site
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Note, Rule


def notes(run: Run, rule: Rule, sent: list[Messages], what: str, advice: str) -> Iterator[Note]:
    """Yields a note for each line that sends such messages. `what` is the text between their sizes and their loss."""
    for site, messages in by_site(sent):
        lost, slow = Lost(), []
        for one in messages:
            found = _times(one)
            saved = found[0] - found[1] if found else None
            if found and saved and saved.low > 0:
                lost.add(one.rank, saved, found[0].value, one.found.messages)
                slow.append(one)
        if not slow:
            continue
        example = max(slow, key=lambda m: m.found.bytes * m.found.messages)
        message, copy = _times(example) or (Estimate(0, 0, 0),) * 2
        subject = what.format(f"{site.name} of {size_text(slow)}")
        yield Note(
            rule, site.place, f"{subject} would save {lost.per_call()}", advice, lost.loss(run),
            evidence=(
                number(f"message of {format_bytes(example.found.bytes)}", message, example.costs),
                number("one copy of as much", copy, example.costs),
            ),
        )  # fmt: skip


def _times(one: Messages) -> tuple[Estimate, Estimate] | None:
    message, copy = one.costs.message(one.found.bytes), one.costs.copied_once(one.found.bytes)
    return (message, copy) if message and copy else None
