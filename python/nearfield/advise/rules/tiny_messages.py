"""Check for many small messages to one peer that could be aggregated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.advise.rule import LossSum, RuleSpec, time_evidence
from nearfield.advise.run import MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.notes import Evidence, Note, NoteRule
from nearfield.profile.costs import Costs

MIN_MESSAGES = 3  # minimum mean number of consecutive messages for a note

RULE = NoteRule(
    "tiny-messages",
    "Many small messages go to one peer in a row",
    "Each message costs its latency, however small it is. Between these the rank used nothing that it received, and "
    "changed nothing that it had sent, so that their data could go in one.",
    "The sum of latencies against that of one message, both from the profile",
)


@dataclass(frozen=True)
class _MessageBursts:
    """Sequences of consecutive small messages of one rank to one peer."""

    rank: int
    costs: Costs
    times: int  # number of sequences
    count: float  # messages per sequence, on average
    each_bytes: float


def find_tiny_messages(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends several consecutive small messages to one peer."""
    rows_by_site: dict[MpiCallSite, list[_MessageBursts]] = defaultdict(list)
    for rank, observed in enumerate(run.ranks):
        for burst in observed.found.bursts:
            count = burst.messages / burst.bursts
            if count >= MIN_MESSAGES:
                costs = run.costs_between(rank, burst.world_peer)
                rows = _MessageBursts(rank, costs, burst.bursts, count, burst.bytes / burst.messages)
                rows_by_site[run.sites[rank][burst.call]].append(rows)
    for site, rows_of_site in rows_by_site.items():
        lost = LossSum()
        for rows in rows_of_site:
            found = _separate_and_joined_times(site, rows)
            if found and found[0].value > found[1].value:
                lost.add_calls(rows.rank, found[0] - found[1], found[0].value, rows.times)
        if not lost.calls:
            continue
        largest = max(rows_of_site, key=lambda one: one.times * one.count)
        many, one = _separate_and_joined_times(site, largest) or (Estimate(0, 0, 0),) * 2
        of, count = format_bytes(largest.each_bytes, digits=3), largest.count
        saved = lost.per_call_text().replace("call", "row")
        yield Note(
            RULE, site.place,
            f"tiny messages: {count:.0f} messages of {of} to one rank in a row, {largest.times} times; one message of "
            f"{format_bytes(count * largest.each_bytes, digits=3)} would save {saved}",
            "Collect the data and send them in one message, unless the receiver needs the first ones early.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("messages in a row", count, "count", "counted"),
                time_evidence(f"{count:.0f} messages of {of}", many, largest.costs),
                time_evidence("one message of all", one, largest.costs),
            ),
        )  # fmt: skip


def _separate_and_joined_times(site: MpiCallSite, rows: _MessageBursts) -> tuple[Estimate, Estimate] | None:
    """Returns the time of all small messages, and of one message with all their data; None if one is unknown. If
    senders wait for no reply, messages cost the time of the send call, otherwise the whole time of the message."""
    answered = "recv" in site.name.lower()
    costs = rows.costs

    def time(size_bytes: float) -> Estimate | None:
        size = max(1, round(size_bytes))
        return costs.message(size) if answered else costs.send(size, "modified") or costs.message(size)

    each, whole = time(rows.each_bytes), time(rows.count * rows.each_bytes)
    return (each * rows.count, whole) if each and whole else None


SPEC = RuleSpec(RULE, find_tiny_messages, scenarios=("pingpong",))
