"""Check for sends of data that have been evicted from the caches. It applies guidelines 1 and 3 of paper S0 (Pellegrini
et al., papers/S0/README.md) to senders: send data while they are in the cache to which they were written."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import (
    RuleSpec,
    main_access_place,
    mean_reuse_distance,
    message_size_text,
    related_place,
    source_line_text,
    time_evidence,
)
from nearfield.advise.rules.reuse import sum_cache_miss_losses
from nearfield.advise.run import MessageGroup, ObservedRun, group_by_site
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Evidence, Note, NoteRule

RULE = NoteRule(
    "cold-send",
    "A message is sent after its data have left the caches",
    "Send reads its buffer. Right after it was written that is fast; after other memory of the cache's size was "
    "touched, the data come from a farther cache or from memory.",
    "S0 (Pellegrini, Hoefler, Fahringer, 2012), rules 1 and 3",
)


def find_cold_sends(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends messages from memory although they would fit into the last-level
    cache."""
    for site, messages in group_by_site(
        [m for m in run.messages if m.counts.sends and m.counts.bytes <= run.llc_bytes_per_rank]
    ):
        losing = sum_cache_miss_losses(run, messages, _send_times)
        if not losing:
            continue
        lost, cold_messages, example, (in_memory, cached) = losing
        touched_bytes = mean_reuse_distance(cold_messages)
        writer = main_access_place(cold_messages, site.place)
        where = source_line_text(writer, site.place, "the last write")
        yield Note(
            RULE, site.place,
            f"cold send: {format_bytes(touched_bytes, digits=2)} are touched between {where} and this {site.name} of "
            f"{message_size_text(cold_messages)}; sending at once would save {lost.format_loss_per_call()}",
            "Move the send next to the loop that writes the data"
            + (f", {where}" if writer else "")
            + ", or write them last.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("touched between write and send", touched_bytes, "bytes", "counted"),
                time_evidence(
                    f"Send of {format_bytes(example.counts.bytes)}, data in memory", in_memory, example.costs
                ),
                time_evidence("the same, data just written", cached, example.costs),
            ),
            related=related_place(writer, "the data are written here"),
        )  # fmt: skip


def _send_times(message: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the times of a send with its data in memory and in the cache; None if one is unknown."""
    cold, warm = (
        message.costs.send_time(message.counts.bytes, "invalid"),
        message.costs.send_time(message.counts.bytes, "modified"),
    )
    return (cold, warm) if cold and warm else None


SPEC = RuleSpec(RULE, find_cold_sends, needs_recorded_accesses=True, scenarios=("pingpong",))
