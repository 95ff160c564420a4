"""Check for messages that are larger than the last-level cache, and could be split into chunks that fit (paper S0,
papers/S0/README.md, sections IV-C and VI)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec, message_size_text, sum_message_losses, time_evidence
from nearfield.advise.run import ObservedRun, group_by_site
from nearfield.base.units import format_bytes
from nearfield.notes import Note, NoteRule

RULE = NoteRule(
    "oversized-message",
    "A message is larger than the last-level cache",
    "No part of such a message is in a cache when it is sent or read. In pieces, each of which is sent right after it "
    "was written and read right after it has come, all of it is.",
    "S0 (Pellegrini, Hoefler, Fahringer, 2012), sections IV-C and VI",
)


def find_oversized_messages(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends messages larger than a rank's part of the last-level cache."""
    for site, messages in group_by_site(
        [m for m in run.messages if m.counts.sends and m.counts.bytes > run.llc_bytes_per_rank]
    ):
        losing = sum_message_losses(messages, lambda one: one.costs.whole_and_chunked_times(one.counts.bytes))
        if not losing:
            continue
        lost, cut, one, (whole, pieces, piece) = losing
        yield Note(
            RULE, site.place,
            f"oversized message: {message_size_text(cut)} in one {site.name}, but a rank has "
            f"{format_bytes(run.llc_bytes_per_rank, digits=3)} of the last-level cache; pieces of "
            f"{format_bytes(piece)} would save {lost.format_loss_per_call()}",
            f"Cut the loops that write and read it, and the message, into pieces of about {format_bytes(piece)}: "
            "write, send; receive, read.",
            lost.as_lost_time(run),
            evidence=(
                time_evidence(f"{format_bytes(one.counts.bytes)} in one piece", whole, one.costs),
                time_evidence(f"the same in pieces of {format_bytes(piece)}", pieces, one.costs),
            ),
        )  # fmt: skip


SPEC = RuleSpec(RULE, find_oversized_messages, scenarios=("cut", "pingpong"))
