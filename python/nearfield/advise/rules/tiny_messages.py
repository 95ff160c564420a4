"""Check for many small messages to one peer that could be aggregated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.advise.rule import Lost, RuleSpec, number
from nearfield.advise.run import Run, Site
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Evidence, Note, Rule
from nearfield.profile.costs import Costs

MIN_MESSAGES = 3  # minimum mean number of consecutive messages for a note

RULE = Rule(
    "tiny-messages",
    "Many small messages go to one peer in a row",
    "Each message costs its latency, however small it is. Between these the rank used nothing that it received, and "
    "changed nothing that it had sent, so that their data could go in one.",
    "The sum of latencies against that of one message, both from the profile",
)


@dataclass(frozen=True)
class _Rows:
    """Sequences of consecutive small messages of one rank to one peer."""

    rank: int
    costs: Costs
    times: int  # number of sequences
    count: float  # messages per sequence, on average
    each_bytes: float


def find(run: Run) -> Iterator[Note]:
    """Yields a note for each source line that sends several consecutive small messages to one peer."""
    rows_by_site: dict[Site, list[_Rows]] = defaultdict(list)
    for rank, observed in enumerate(run.ranks):
        for burst in observed.found.bursts:
            count = burst.messages / burst.bursts
            if count >= MIN_MESSAGES:
                costs = run.costs(rank, burst.world_peer)
                rows = _Rows(rank, costs, burst.bursts, count, burst.bytes / burst.messages)
                rows_by_site[run.sites[rank][burst.call]].append(rows)
    for site, rows_of_site in rows_by_site.items():
        lost = Lost()
        for rows in rows_of_site:
            found = _times(site, rows)
            if found and found[0].value > found[1].value:
                lost.add(rows.rank, found[0] - found[1], found[0].value, rows.times)
        if not lost.calls:
            continue
        largest = max(rows_of_site, key=lambda one: one.times * one.count)
        many, one = _times(site, largest) or (Estimate(0, 0, 0),) * 2
        of, count = format_bytes(largest.each_bytes, digits=3), largest.count
        yield Note(
            RULE, site.place,
            f"tiny messages: {count:.0f} messages of {of} to one rank in a row, {largest.times} times; one message of "
            f"{format_bytes(count * largest.each_bytes, digits=3)} would save {lost.per_call().replace('call', 'row')}",
            "Collect the data and send them in one message, unless the receiver needs the first ones early.",
            lost.loss(run),
            evidence=(
                Evidence("messages in a row", count, "count", "counted"),
                number(f"{count:.0f} messages of {of}", many, largest.costs),
                number("one message of all", one, largest.costs),
            ),
        )  # fmt: skip


def _times(site: Site, rows: _Rows) -> tuple[Estimate, Estimate] | None:
    """Returns the time of all small messages, and of one message with all their data; None if one is unknown. If
    senders wait for no reply, messages cost the time of the send call, otherwise the whole time of the message."""
    answered = "recv" in site.name.lower()
    costs = rows.costs

    def time(size_bytes: float) -> Estimate | None:
        size = max(1, round(size_bytes))
        return costs.message(size) if answered else costs.send(size, "modified") or costs.message(size)

    each, whole = time(rows.each_bytes), time(rows.count * rows.each_bytes)
    return (each * rows.count, whole) if each and whole else None


SPEC = RuleSpec(RULE, find, scenarios=("pingpong",))
