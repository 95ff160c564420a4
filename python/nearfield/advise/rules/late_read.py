"""Check for received data that are read after they have left the caches. Guidelines 1 and 3 of Pellegrini et al. (S0),
for receivers: use received data while they are cached."""

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
    for site, messages in group_by_site([m for m in run.messages if not m.found.sends]):
        losing = find_uncached(run, [m for m in messages if 2 * m.found.bytes < _whole_llc(m)], _read_times)
        if not losing:
            continue
        lost, late, example, (far, near) = losing
        between = mean_reuse_distance(late)
        reader = main_access_place(late, site.place)
        where = line_text(reader, site.place, "the first read")
        yield Note(
            RULE, site.place,
            f"late read: {format_bytes(between, digits=2)} are touched between this {site.name} of {size_text(late)} "
            f"and {where}, which reads the data first; reading at once would save {lost.per_call_text()}",
            f"Receive right before {where}, or do first what needs the data.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("touched between receive and read", between, "bytes", "counted"),
                time_evidence(f"reading {format_bytes(example.found.bytes)} from memory", far, example.costs),
                time_evidence("the same, right after the receive", near, example.costs),
            ),
            related=related_place(reader, "the data are read here first"),
        )  # fmt: skip


def _whole_llc(one: MessageGroup) -> int:
    """Returns the size of the machine's last-level cache in bytes; 0 if it is unknown."""
    return one.costs.profile.machine.llc_bytes or 0


def _read_times(one: MessageGroup) -> tuple[Estimate, Estimate] | None:
    """Returns the times of reading a received message from memory and right after the receive; None if one is
    unknown."""
    far, near = one.costs.traverse(one.found.bytes, "base-invalid"), one.costs.traverse(one.found.bytes, "invalid")
    return (far, near) if far and near else None


SPEC = RuleSpec(RULE, find_late_reads, needs_accesses=True, scenarios=("pollution",))
