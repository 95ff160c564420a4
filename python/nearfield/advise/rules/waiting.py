"""Shared code of the checks late-sender and late-receiver: computes by how much calls take longer than their messages
need according to the profile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.advise.rule import LossSum, delay_evidence, delay_text, delay_without_core_ns, time_evidence
from nearfield.advise.run import MessageGroup, MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate, sum_of_estimates
from nearfield.notes import Note, NoteRule

_MUTUAL_WAITING_ADVICE = (
    "No rank is late alone: they take turns, in a chain of sends and receives, or share cores with each other or with "
    "other programs. Post receives before sends, and give each rank a core."
)


@dataclass
class WaitsAtSite:
    """The time that ranks wait for their peers at one source line."""

    wait_loss: LossSum = field(default_factory=LossSum)
    # Number of messages by waiting rank and peer rank.
    num_messages_by_rank_and_peer: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    expected_ns: list[Estimate] = field(default_factory=list)  # time of the messages according to the profile


def find_waits(run: ObservedRun, rule: NoteRule, advice: str, *, sends: bool) -> Iterator[Note]:
    """Yields a note for each source line whose calls take longer than their messages need. `sends` selects calls that
    complete sends, or calls that complete receives."""
    for site, waits in _waits_by_site(run.timing_run, sends):
        worst = waits.wait_loss.worst_rank
        num_messages_by_peer = waits.num_messages_by_rank_and_peer[worst]
        per_message = waits.wait_loss.format_loss_per_call().replace("call", "message")
        is_mutual, main_peer = (
            waits.wait_loss.has_several_losing_ranks,
            max(num_messages_by_peer, key=num_messages_by_peer.__getitem__),
        )
        awaited_text = "; all ranks that call it wait about as long" if is_mutual else f", mostly for rank {main_peer}"
        delay = delay_without_core_ns(run.timing_run, worst, site, num_messages_by_peer)
        yield Note(
            rule, site.place,
            f"{rule.id.replace('-', ' ')}: {site.name} waits {per_message}{awaited_text}"
            f"{delay_text(delay, waits.wait_loss.worst_loss_ns().value)}",
            _MUTUAL_WAITING_ADVICE if is_mutual else advice,
            waits.wait_loss.as_lost_time(run, delay),
            evidence=(
                time_evidence("these messages by the profile", sum_of_estimates(waits.expected_ns), run.node_costs),
                delay_evidence("this rank in these calls, others in all", delay),
            ),
        )  # fmt: skip


def _waits_by_site(run: ObservedRun, sends: bool) -> Iterator[tuple[MpiCallSite, WaitsAtSite]]:
    """Yields the source lines whose calls waited for sends (`sends`) or for receives. Calls that complete both kinds
    count as receives."""
    waits_by_site: dict[MpiCallSite, WaitsAtSite] = defaultdict(WaitsAtSite)
    for rank_number, rank in enumerate(run.ranks):
        own_messages = [m for m in run.messages if m.rank == rank_number]
        ended_messages_by_call: dict[int, list[tuple[MessageGroup, int]]] = defaultdict(list)
        for one in rank.result.ended_in:
            ended_messages_by_call[one.call].append((own_messages[one.messages], one.times))
        for call, messages in ended_messages_by_call.items():
            if all(m.counts.sends for m, _ in messages) == sends:
                _add_excess_time(
                    waits_by_site[run.call_sites[rank_number][call]],
                    rank_number,
                    rank.result.calls[call].time_ns,
                    messages,
                )
    yield from ((site, waited) for site, waited in waits_by_site.items() if waited.wait_loss.num_calls_by_rank)


def _add_excess_time(waits: WaitsAtSite, rank: int, spent_ns: int, messages: list[tuple[MessageGroup, int]]) -> None:
    """Adds the time of a rank's calls beyond the time of their messages. Adds nothing if the profile lacks the time of
    a message."""
    costs = [(m.costs.message_time(m.counts.bytes), times) for m, times in messages]
    known_times = [cost * times for cost, times in costs if cost]
    if len(known_times) < len(costs):
        return
    expected = sum_of_estimates(known_times)
    if all(one.counts.world_peer == rank for one, _ in messages):
        return  # a rank does not wait for itself
    excess = Estimate(spent_ns, spent_ns, spent_ns) - expected
    if excess.low <= 0:
        return
    calls = sum(times for _, times in messages)
    excess_per_call = Estimate(excess.value / calls, excess.low / calls, excess.high / calls)
    waits.wait_loss.add_calls(rank, excess_per_call, spent_ns / calls, calls)
    waits.expected_ns.append(expected)
    for one, times in messages:
        if one.counts.world_peer != rank:
            waits.num_messages_by_rank_and_peer[rank][one.counts.world_peer] += times
