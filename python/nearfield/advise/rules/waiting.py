"""Shared code of the checks late-sender and late-receiver: the time in calls beyond that of their messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.advise.rule import LossSum, delay_evidence, delay_text, time_evidence, without_core_ns
from nearfield.advise.run import MessageGroup, MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate, sum_of
from nearfield.notes import Note, NoteRule

_MUTUAL_WAITING_ADVICE = (
    "No rank is late alone: they take turns, in a chain of sends and receives, or share cores with each other or with "
    "other programs. Post receives before sends, and give each rank a core."
)


@dataclass
class WaitsAtSite:
    """The time that ranks wait for their peers at one source line."""

    lost: LossSum = field(default_factory=LossSum)
    # Number of messages by waiting rank and peer rank.
    peers: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    took: list[Estimate] = field(default_factory=list)  # time of the messages according to the profile


def waiting_notes(run: ObservedRun, rule: NoteRule, advice: str, *, sends: bool) -> Iterator[Note]:
    """Yields a note for each source line whose calls take longer than their messages."""
    for site, waited in _waits_by_site(run.timing_run, sends):
        worst = waited.lost.worst_rank
        peers = waited.peers[worst]
        per_message = waited.lost.per_call_text().replace("call", "message")
        alike, main_peer = waited.lost.has_several_losing_ranks, max(peers, key=peers.__getitem__)
        whom = "; all ranks that call it wait about as long" if alike else f", mostly for rank {main_peer}"
        delay = without_core_ns(run.timing_run, worst, site, peers)
        yield Note(
            rule, site.place,
            f"{rule.id.replace('-', ' ')}: {site.name} waits {per_message}{whom}"
            f"{delay_text(delay, waited.lost.worst_loss_ns().value)}",
            _MUTUAL_WAITING_ADVICE if alike else advice,
            waited.lost.as_lost_time(run, delay),
            evidence=(
                time_evidence("these messages by the profile", sum_of(waited.took), run.inside),
                delay_evidence("this rank in these calls, others in all", delay),
            ),
        )  # fmt: skip


def _waits_by_site(run: ObservedRun, sends: bool) -> Iterator[tuple[MpiCallSite, WaitsAtSite]]:
    """Yields the source lines whose calls waited for sends (`sends`) or for receives. Calls that complete both kinds
    count as receives."""
    found: dict[MpiCallSite, WaitsAtSite] = defaultdict(WaitsAtSite)
    for at, rank in enumerate(run.ranks):
        own_messages = [m for m in run.messages if m.rank == at]
        ended: dict[int, list[tuple[MessageGroup, int]]] = defaultdict(list)
        for one in rank.found.ended_in:
            ended[one.call].append((own_messages[one.messages], one.times))
        for call, messages in ended.items():
            if all(m.found.sends for m, _ in messages) == sends:
                _add_excess_time(found[run.sites[at][call]], at, rank.found.calls[call].time_ns, messages)
    yield from ((site, waited) for site, waited in found.items() if waited.lost.calls)


def _add_excess_time(waited: WaitsAtSite, rank: int, spent_ns: int, messages: list[tuple[MessageGroup, int]]) -> None:
    """Adds the time of a rank's calls beyond the time of their messages. Adds nothing if the profile lacks the time of
    a message."""
    costs = [(m.costs.message(m.found.bytes), times) for m, times in messages]
    known = [cost * times for cost, times in costs if cost]
    if len(known) < len(costs):
        return
    expected = sum_of(known)
    if all(one.found.world_peer == rank for one, _ in messages):
        return  # a rank does not wait for itself
    excess = Estimate(spent_ns, spent_ns, spent_ns) - expected
    if excess.low <= 0:
        return
    calls = sum(times for _, times in messages)
    each = Estimate(excess.value / calls, excess.low / calls, excess.high / calls)
    waited.lost.add_calls(rank, each, spent_ns / calls, calls)
    waited.took.append(expected)
    for one, times in messages:
        if one.found.world_peer != rank:
            waited.peers[rank][one.found.world_peer] += times
