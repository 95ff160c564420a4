"""Shared code of the checks cold-send and late-read: computes the time lost by a message whose cache lines have been
evicted from the inner caches."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.advise.rule import MessageLosses, sum_message_losses
from nearfield.advise.run import MessageGroup, ObservedRun
from nearfield.base.estimates import Estimate, sum_of_estimates

# A function that returns two times of a message from the profile: with its data in memory, and with its data in the
# cache to which they were written or received.
FindTimes = Callable[[MessageGroup], tuple[Estimate, Estimate] | None]


def sum_cache_miss_losses(
    run: ObservedRun, messages: list[MessageGroup], find_times: FindTimes
) -> MessageLosses[tuple[Estimate, Estimate]] | None:
    """Sums the losses of messages whose lines had been evicted, depending on the cache levels that still had their
    lines; returns None if no message loses time."""
    touched_messages = [message for message in messages if message.counts.messages and message.counts.lines]
    return sum_message_losses(
        touched_messages, find_times, lambda message, times: _loss_of_message(run, message, *times)
    )


def _loss_of_message(run: ObservedRun, message: MessageGroup, cold: Estimate, warm: Estimate) -> Estimate | None:
    """Returns the loss of one message in ns; None if all its lines are cached. For lines in memory, the loss is the
    difference `cold` - `warm` of two times of the profile. For lines in an outer cache, it is a part of that
    difference, in proportion to the latencies of the caches, and the lower end of its interval is 0."""
    levels = message.costs.cache_levels(run.max_ranks_on_node)
    warm_level = next(
        (i for i, level in enumerate(levels) if 2 * message.counts.bytes <= level.size_bytes), len(levels) - 1
    )
    difference = cold - warm
    parts = []
    for level, share in enumerate(message.shares_by_cache_level()):
        part = message.costs.relative_latency_of_level(level, warm_level) if share else 0.0
        if not part:
            continue
        level_loss = difference * (share * part)
        parts.append(
            level_loss
            if level == len(levels)
            else Estimate(level_loss.value, min(0.0, level_loss.low), level_loss.high)
        )
    return sum_of_estimates(parts) if parts else None
