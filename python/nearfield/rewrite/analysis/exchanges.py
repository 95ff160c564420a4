"""Splits a region with several exchanges into a region for each exchange."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest, Region


def split_exchanges(region: Region) -> Iterator[Region]:
    """Yields the region. If loops separate several exchanges in the region, also yields a region for each exchange with
    the loops before and after it."""
    yield region
    open_messages, group, groups = 0, [], []
    for number, item in enumerate(region.items):
        if isinstance(item, CommunicationStatement):
            group.append(number)
            open_messages += item.begins_messages - item.completes_messages
        elif group and open_messages <= 0:
            groups.append(group)
            group = []
    groups += [group] if group else []
    if len(groups) < 2:
        return
    for place, numbers in enumerate(groups):
        first = groups[place - 1][-1] + 1 if place else 0
        last = groups[place + 1][0] if place + 1 < len(groups) else len(region.items)
        items = region.items[first:last]
        calls = [item for item in items if isinstance(item, CommunicationStatement)]
        if any(isinstance(item, LoopNest) and item.loops for item in items) and any(call.messages for call in calls):
            yield region.subregion(items, region.items[numbers[0]].line)
