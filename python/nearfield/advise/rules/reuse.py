"""Shared code of the checks cold-send and late-read: the loss of a message whose cache lines have left the inner
caches."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.advise.rule import LossSum, find_losing_messages
from nearfield.advise.run import MessageGroup, ObservedRun
from nearfield.base.estimates import Estimate, sum_of

# Returns two times of the profile: with the message in memory, and in the cache to which it was written or received.
Times = Callable[[MessageGroup], tuple[Estimate, Estimate] | None]


def find_uncached(
    run: ObservedRun, messages: list[MessageGroup], times: Times
) -> tuple[LossSum, list[MessageGroup], MessageGroup, tuple[Estimate, Estimate]] | None:
    """Returns the loss of messages according to the cache levels that still had their lines; for the result see
    `find_losing_messages`."""
    touched = [one for one in messages if one.found.messages and one.found.lines]
    return find_losing_messages(touched, times, lambda one, found: _loss_of_message(run, one, *found))


def _loss_of_message(run: ObservedRun, one: MessageGroup, cold: Estimate, warm: Estimate) -> Estimate | None:
    """Returns the loss of one message in ns; None if its lines are cached. The loss for lines in memory is the
    difference of two records of the profile. The loss for lines in an intermediate cache is a part of that difference,
    by the latencies of the caches, with a lower end of 0."""
    levels = one.costs.levels(run.ranks_on_node)
    near = next((i for i, level in enumerate(levels) if 2 * one.found.bytes <= level.size_bytes), len(levels) - 1)
    whole = cold - warm
    parts = []
    for level, share in enumerate(one.shares_by_cache_level()):
        part = one.costs.share_of_memory(level, near) if share else 0.0
        if not part:
            continue
        each = whole * (share * part)
        parts.append(each if level == len(levels) else Estimate(each.value, min(0.0, each.low), each.high))
    return sum_of(parts) if parts else None
