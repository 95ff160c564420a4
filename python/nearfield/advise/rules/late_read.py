"""Check for received data that are read only after they have been evicted from the caches. It applies guidelines 1 and
3 of paper S0 (Pellegrini et al., papers/S0/README.md) to receivers: use received data while they are cached."""

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
    "late-read",
    "A message is read after it has left the caches",
    "Where a receive leaves its data in the caches, reading them at once is fast; after other memory of the cache's "
    "size was touched, they come from a farther cache or from memory. Data that the receive does not leave in a cache, "
    "as large messages from other nodes, lose nothing, and messages of half the last level and more drive themselves "
    "out.",
    "S0 (Pellegrini, Hoefler, Fahringer, 2012), rules 1 and 3",
)


def find_late_reads(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that receives messages which are read late."""
    for site, messages in group_by_site([m for m in run.messages if not m.counts.sends]):
        losing = sum_cache_miss_losses(
            run, [m for m in messages if 2 * m.counts.bytes < _llc_bytes_of_machine(m)], _read_times
        )
        if not losing:
            continue
        lost, late_messages, example, (memory_time, cached_time) = losing
        touched_bytes = mean_reuse_distance(late_messages)
        reader = main_access_place(late_messages, site.place)
        where = source_line_text(reader, site.place, "the first read")
        yield Note(
            RULE, site.place,
            f"late read: {format_bytes(touched_bytes, digits=2)} are touched between this {site.name} of "
            f"{message_size_text(late_messages)} "
            f"and {where}, which reads the data first; reading at once would save {lost.format_loss_per_call()}",
            f"Receive right before {where}, or do first what needs the data.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("touched between receive and read", touched_bytes, "bytes", "counted"),
                time_evidence(f"reading {format_bytes(example.counts.bytes)} from memory", memory_time, example.costs),
                time_evidence("the same, right after the receive", cached_time, example.costs),
            ),
            related=related_place(reader, "the data are read here first"),
        )  # fmt: skip


def _llc_bytes_of_machine(message: MessageGroup) -> int:
    """Returns the size of the machine's last-level cache in bytes; 0 if it is unknown."""
    return message.costs.profile.machine.llc_bytes or 0


def _read_times(message: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the time of reading a received message from memory, and of reading it right after the receive; None if
    one of them is unknown."""
    far, near = (
        message.costs.traverse_time(message.counts.bytes, "base-invalid"),
        message.costs.traverse_time(message.counts.bytes, "invalid"),
    )
    return (far, near) if far and near else None


SPEC = RuleSpec(RULE, find_late_reads, needs_recorded_accesses=True, scenarios=("pollution",))
