"""Check for sends of data that have left the caches. Guidelines 1 and 3 of Pellegrini et al. (S0), for senders: send
data while they are in the cache to which they were written."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import (
    RuleSpec,
    line_text,
    main_access_place,
    mean_reuse_distance,
    related_place,
    size_text,
    time_evidence,
)
from nearfield.advise.rules.reuse import find_uncached
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
    """Yields a note for each source line that sends uncached messages which the last-level cache could hold."""
    for site, messages in group_by_site([m for m in run.messages if m.found.sends and m.found.bytes <= run.llc_bytes]):
        losing = find_uncached(run, messages, _send_times)
        if not losing:
            continue
        lost, cold, example, (in_memory, cached) = losing
        between = mean_reuse_distance(cold)
        writer = main_access_place(cold, site.place)
        where = line_text(writer, site.place, "the last write")
        yield Note(
            RULE, site.place,
            f"cold send: {format_bytes(between, digits=2)} are touched between {where} and this {site.name} of "
            f"{size_text(cold)}; sending at once would save {lost.per_call_text()}",
            "Move the send next to the loop that writes the data"
            + (f", {where}" if writer else "")
            + ", or write them last.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("touched between write and send", between, "bytes", "counted"),
                time_evidence(f"Send of {format_bytes(example.found.bytes)}, data in memory", in_memory, example.costs),
                time_evidence("the same, data just written", cached, example.costs),
            ),
            related=related_place(writer, "the data are written here"),
        )  # fmt: skip


def _send_times(one: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the times of a send with its data in memory and in the cache; None if one is unknown."""
    cold, warm = one.costs.send(one.found.bytes, "invalid"), one.costs.send(one.found.bytes, "modified")
    return (cold, warm) if cold and warm else None


SPEC = RuleSpec(RULE, find_cold_sends, needs_accesses=True, scenarios=("pingpong",))
