"""Check for sequences of small messages to one peer that could be aggregated into one message."""

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

MIN_MESSAGES_PER_BURST = 3  # minimum mean number of messages in a sequence for a note

RULE = NoteRule(
    "tiny-messages",
    "Many small messages go to one peer in a row",
    "Each message costs its latency, however small it is. Between these the rank used nothing that it received, and "
    "changed nothing that it had sent, so that their data could go in one.",
    "The sum of latencies against that of one message, both from the profile",
)


@dataclass(frozen=True)
class _MessageBursts:
    """The sequences of consecutive small messages (bursts) that one call of a rank sends to one peer."""

    rank: int
    costs: Costs
    num_bursts: int  # number of sequences
    messages_per_burst: float  # messages per sequence, on average
    mean_message_bytes: float


def find_tiny_messages(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends several consecutive small messages to one peer."""
    bursts_by_site: dict[MpiCallSite, list[_MessageBursts]] = defaultdict(list)
    for rank, observed in enumerate(run.ranks):
        for burst in observed.result.bursts:
            count = burst.messages / burst.bursts
            if count >= MIN_MESSAGES_PER_BURST:
                costs = run.costs_between(rank, burst.world_peer)
                bursts = _MessageBursts(rank, costs, burst.bursts, count, burst.bytes / burst.messages)
                bursts_by_site[run.call_sites[rank][burst.call]].append(bursts)
    for site, bursts_of_site in bursts_by_site.items():
        lost = LossSum()
        for bursts in bursts_of_site:
            separate_and_joined = _separate_and_joined_times(site, bursts)
            if separate_and_joined and separate_and_joined[0].value > separate_and_joined[1].value:
                lost.add_calls(
                    bursts.rank,
                    separate_and_joined[0] - separate_and_joined[1],
                    separate_and_joined[0].value,
                    bursts.num_bursts,
                )
        if not lost.num_calls_by_rank:
            continue
        largest = max(bursts_of_site, key=lambda one: one.num_bursts * one.messages_per_burst)
        separate_time, one = _separate_and_joined_times(site, largest) or (Estimate(0, 0, 0),) * 2
        size_text, count = format_bytes(largest.mean_message_bytes, digits=3), largest.messages_per_burst
        saved = lost.format_loss_per_call().replace("call", "row")
        yield Note(
            RULE, site.place,
            f"tiny messages: {count:.0f} messages of {size_text} to one rank in a row, {largest.num_bursts} times; "
            f"one message of {format_bytes(count * largest.mean_message_bytes, digits=3)} would save {saved}",
            "Collect the data and send them in one message, unless the receiver needs the first ones early.",
            lost.as_lost_time(run),
            evidence=(
                Evidence("messages in a row", count, "count", "counted"),
                time_evidence(f"{count:.0f} messages of {size_text}", separate_time, largest.costs),
                time_evidence("one message of all", one, largest.costs),
            ),
        )  # fmt: skip


def _separate_and_joined_times(site: MpiCallSite, bursts: _MessageBursts) -> tuple[Estimate, Estimate] | None:
    """Returns two times: the sum over the small messages of a sequence, and that of a single message with all their
    data; None if either time is unknown. The time of a message is that of its send call, or the whole transfer time if
    the sender waits for a reply."""
    waits_for_reply = "recv" in site.name.lower()
    costs = bursts.costs

    def message_cost(size_bytes: float) -> Estimate | None:
        size = max(1, round(size_bytes))
        return (
            costs.message_time(size)
            if waits_for_reply
            else costs.send_time(size, "modified") or costs.message_time(size)
        )

    message_time, joined_time = (
        message_cost(bursts.mean_message_bytes),
        message_cost(bursts.messages_per_burst * bursts.mean_message_bytes),
    )
    return (message_time * bursts.messages_per_burst, joined_time) if message_time and joined_time else None


SPEC = RuleSpec(RULE, find_tiny_messages, scenarios=("pingpong",))
