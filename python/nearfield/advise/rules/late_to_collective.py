"""Check for collectives in which ranks wait, call after call, for the same late rank.

No rank leaves a barrier, an allreduce or an alltoall before the last rank has arrived. The last rank spends the least
time in the call, so the additional time of each other rank is waiting. No clocks have to be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev

from nearfield._native import advise as native
from nearfield.advise.rule import LossSum, RuleSpec, delay_evidence, delay_text, without_core_ns
from nearfield.advise.run import MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate
from nearfield.base.units import counted
from nearfield.notes import Evidence, Note, NoteRule, RelatedPlace

MIN_CALLS = 8  # minimum calls for a note; with fewer, one rank may be the last each time by chance
_BATCHES = 20
_T = (5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878,
      2.861)  # fmt: skip  # Student's t at 99.5 %, for 3 to 19 degrees of freedom

RULE = NoteRule(
    "late-to-collective",
    "Ranks wait in a collective for one that comes late",
    "No rank leaves such a collective before the last one has come, which spends the least time in it. What others "
    "spend there beyond that, call by call, is waiting. It counts if its 99 % interval over the calls lies above zero: "
    "ranks that take turns in being late, as those that share cores do, get no note. This is time of the observed run.",
    "The time in the call against that of the rank that comes last; Scalasca's Wait at Barrier and Wait at N x N",
)
_Calls = tuple[int, ...]  # by rank in a communicator: the index of the call
_Times = tuple[int, ...]  # by rank in a communicator: ns in one collective


@dataclass(frozen=True)
class _LateRank:
    """The rank that is late most often to a collective, for one of the ranks that wait for it."""

    rank: int
    site: MpiCallSite  # source line at which the late rank calls the collective
    last: int  # number of collectives in which the rank arrived last
    own: float  # mean time of the late rank in the collective, in ns


@dataclass
class _CollectiveWaits:
    """The time that ranks wait at one source line, and the rank that they wait for."""

    lost: LossSum = field(default_factory=LossSum)
    late: dict[int, _LateRank] = field(default_factory=dict)  # by waiting rank


def find_late_ranks(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line at which ranks wait in a collective for the same late rank."""
    for site, waited in _waits_by_site(run.timing_run).items():
        lost, late = waited.lost, waited.late[waited.lost.worst_rank]
        calls = lost.calls[lost.worst_rank]
        more = len(lost.calls) - 1
        delay = without_core_ns(run.timing_run, lost.worst_rank, site, [late.rank])
        others = f"; {counted(more, 'other rank waits', 'other ranks wait')}, too" if more else ""
        yield Note(
            RULE, site.place,
            f"late to collective: {site.name} waits {lost.per_call_text()}, for rank {late.rank}, which comes last to "
            f"{late.last} of {calls}{others}{delay_text(delay, lost.worst_loss_ns().value)}",
            f"Give rank {late.rank} less to do before this call, or start it earlier as a nonblocking one.",
            lost.as_lost_time(run, delay),
            evidence=(
                Evidence(f"the same calls of rank {late.rank}", late.own, "ns", "observed"),
                delay_evidence(f"this rank in these calls, rank {late.rank} in all", delay),
            ),
            related=(RelatedPlace(late.site.place, f"rank {late.rank} calls it here"),) if late.site != site else (),
        )  # fmt: skip


def _waits_by_site(run: ObservedRun) -> dict[MpiCallSite, _CollectiveWaits]:
    """Returns the waiting time in synchronising collectives by the source line of the call."""
    found: dict[MpiCallSite, _CollectiveWaits] = defaultdict(_CollectiveWaits)
    for members in _communicators(run):
        for calls, times in _times_by_calls(members).items():
            if len(times) >= MIN_CALLS:
                world = members[0].world
                _add_waits(
                    found, [(rank, run.sites[rank][call]) for rank, call in zip(world, calls, strict=True)], times
                )
    return found


def _communicators(run: ObservedRun) -> Iterator[list[native.Synchronisations]]:
    """Yields the synchronising collectives of each communicator whose ranks are all known, in the communicator's rank
    order."""
    found: dict[int, dict[int, native.Synchronisations]] = defaultdict(dict)
    for at, rank in enumerate(run.ranks):
        for one in rank.found.synchronisations:
            found[one.context][at] = one
    for by_rank in found.values():
        world = next(iter(by_rank.values())).world
        if len(world) > 1 and set(world) == set(by_rank):
            yield [by_rank[rank] for rank in world]


def _times_by_calls(members: Sequence[native.Synchronisations]) -> dict[_Calls, list[_Times]]:
    """Returns the times that ranks spend in synchronising collectives, grouped by the call indices of the ranks."""
    found: dict[_Calls, list[_Times]] = defaultdict(list)
    calls, times = zip(*(one.calls for one in members)), zip(*(one.times_ns for one in members))  # noqa: B905
    for of_members, took in zip(calls, times):  # noqa: B905  # truncated streams are shorter
        if all(took):
            found[of_members].append(took)
    return found


def _add_waits(
    found: dict[MpiCallSite, _CollectiveWaits], members: Sequence[tuple[int, MpiCallSite]], times: Sequence[_Times]
) -> None:
    """Adds the waiting time of each rank in some collectives for the rank that spends the least time in them."""
    spent = [fmean(samples) for samples in zip(*times, strict=True)]
    at = min(range(len(spent)), key=spent.__getitem__)
    late = _LateRank(*members[at], sum(took[at] == min(took) for took in times), spent[at])
    for number, (rank, site) in enumerate(members):
        waits = mean_with_interval([took[number] - took[at] for took in times])
        if waits.low <= 0:
            continue
        waited = found[site]
        before = waited.late.get(rank)
        waited.lost.add_calls(rank, waits, spent[number], len(times))
        if not before or before.last < late.last:
            waited.late[rank] = late


def mean_with_interval(samples: Sequence[float]) -> Estimate:
    """Returns the mean of at least four samples with its 99 % interval, from the means of up to 20 batches of
    consecutive samples. Samples may be correlated with their neighbours, since a rank that shares its core does so for
    a while."""
    batches = min(len(samples), _BATCHES)
    ends = [len(samples) * number // batches for number in range(batches + 1)]
    means = [fmean(samples[first:end]) for first, end in pairwise(ends)]
    value, half = fmean(samples), _T[batches - 4] * stdev(means) / sqrt(batches)
    return Estimate(value, value - half, value + half)


SPEC = RuleSpec(RULE, find_late_ranks, needs_times=True)
