"""S1 and S2: messages between ranks of one node, which could share memory."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield import itself
from nearfield.advise.costs import difference
from nearfield.advise.rule import Lost, RuleSpec, number, size_text
from nearfield.advise.run import Messages, Run, by_site
from nearfield.notes import Note, Rule
from nearfield.profile.compare import Estimate
from nearfield.units import format_bytes

RULE = Rule(
    "same-node-copies",
    "Ranks of one node send messages that one copy would do for",
    "An MPI copies a message inside a node twice, or asks the kernel to. Ranks that share memory copy it once, or read "
    "it where it is.",
    "S1, section 3, and S2",
)


def find(run: Run) -> Iterator[Note]:
    """Yields a note for each line that sends messages inside a node which one copy would bring there sooner."""
    for site, messages in by_site([m for m in run.messages if m.found.sends and m.costs is run.inside]):
        lost, slow = Lost(), []
        for one in messages:
            found = _times(one)
            saved = difference(found[0], found[1]) if found else None
            if found and saved and saved.low > 0:
                lost.add(one.rank, saved, found[0].value, one.found.messages)
                slow.append(one)
        if not slow:
            continue
        one = max(slow, key=lambda m: m.found.bytes * m.found.messages)
        message, copy = _times(one) or (Estimate(0, 0, 0),) * 2
        yield Note(
            RULE, site.place,
            f"same node: one copy would do for {site.name} of {size_text(slow)} to a rank of this node; that would "
            f"save {lost.per_call()}",
            f"Run the program by {itself.command('run')}, which copies messages from heap blocks once, or exchange "
            "halos by nearfield's library.",
            lost.loss(run),
            evidence=(
                number(f"message of {format_bytes(one.found.bytes)}", message, one.costs),
                number("one copy of as much", copy, one.costs),
            ),
        )  # fmt: skip


def _times(one: Messages) -> tuple[Estimate, Estimate] | None:
    message, copy = one.costs.message(one.found.bytes), one.costs.copied_once(one.found.bytes)
    return (message, copy) if message and copy else None


SPEC = RuleSpec(RULE, find, scenarios=("floor",))
