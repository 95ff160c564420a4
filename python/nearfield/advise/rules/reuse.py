"""What cold-send and late-read have in common: the loss of a message of which lines have left the near caches."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.advise.costs import difference, scaled, total
from nearfield.advise.rule import Lost
from nearfield.advise.run import Messages, Run
from nearfield.profile.compare import Estimate

# Returns a time of the profile with the message in memory, and one with it where it was written or received.
Times = Callable[[Messages], tuple[Estimate, Estimate] | None]


def lost_by(run: Run, messages: list[Messages], times: Times) -> tuple[Lost, list[Messages]]:
    """Returns what these messages lose because of where their lines were, and those of them that do."""
    lost, late = Lost(), []
    for one in messages:
        found = times(one) if one.found.messages and one.found.lines else None
        each = _each(run, one, *found) if found else None
        if found and each and each.value > 0:
            lost.add(one.rank, each, found[0].value, one.found.messages)
            late.append(one)
    return lost, late


def _each(run: Run, one: Messages, cold: Estimate, warm: Estimate) -> Estimate | None:
    """Returns the loss of one message. The loss of lines in memory is a difference of two records; of lines in a cache
    between, a part of it by the latencies of the caches, with nothing as its lower end."""
    levels = one.costs.levels(run.ranks_on_node)
    near = next((i for i, level in enumerate(levels) if 2 * one.found.bytes <= level.size_bytes), len(levels) - 1)
    whole = difference(cold, warm)
    parts = []
    for level, share in enumerate(one.shares()):
        part = one.costs.share_of_memory(level, near) if share else 0.0
        if not part:
            continue
        each = scaled(whole, share * part)
        parts.append(each if level == len(levels) else Estimate(each.value, min(0.0, each.low), each.high))
    return total(parts) if parts else None
