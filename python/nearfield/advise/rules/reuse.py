"""Shared code of cold-send and late-read: the loss of a message whose lines have left the inner caches."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.advise.rule import Lost
from nearfield.advise.run import Messages, Run
from nearfield.base.estimates import Estimate, sum_of

# Returns two times of the profile: with the message in memory, and in the cache where it was written or received.
Times = Callable[[Messages], tuple[Estimate, Estimate] | None]


def lost_by(run: Run, messages: list[Messages], times: Times) -> tuple[Lost, list[Messages]]:
    """Returns the loss of these messages by the location of their lines, and those of them that lose."""
    lost, late = Lost(), []
    for one in messages:
        found = times(one) if one.found.messages and one.found.lines else None
        each = _each(run, one, *found) if found else None
        if found and each and each.value > 0:
            lost.add(one.rank, each, found[0].value, one.found.messages)
            late.append(one)
    return lost, late


def _each(run: Run, one: Messages, cold: Estimate, warm: Estimate) -> Estimate | None:
    """Returns the loss of one message. For lines in memory it is a difference of two records; for lines in an
    intermediate cache, a part of it by the latencies of the caches, with a lower end of 0."""
    levels = one.costs.levels(run.ranks_on_node)
    near = next((i for i, level in enumerate(levels) if 2 * one.found.bytes <= level.size_bytes), len(levels) - 1)
    whole = cold - warm
    parts = []
    for level, share in enumerate(one.shares()):
        part = one.costs.share_of_memory(level, near) if share else 0.0
        if not part:
            continue
        each = whole * (share * part)
        parts.append(each if level == len(levels) else Estimate(each.value, min(0.0, each.low), each.high))
    return sum_of(parts) if parts else None
