"""Check for collectives in which ranks wait in most calls for the same late rank.

No rank leaves a barrier, an allreduce or an alltoall before the last rank has arrived. The last rank spends the least
time in the call, so the additional time of every other rank is waiting. This needs no synchronized clocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev

from nearfield._native import advise as native
from nearfield.advise.rule import LossSum, RuleSpec, delay_evidence, delay_text, delay_without_core_ns
from nearfield.advise.run import MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate
from nearfield.base.units import counted
from nearfield.notes import Evidence, Note, NoteRule, RelatedPlace

MIN_CALLS = 8  # minimum number of calls for a note; in fewer calls, one rank may always be the last by chance
_MAX_NUM_BATCHES = 20
# Student's t at 99.5 %, for 3 to 19 degrees of freedom.
_STUDENT_T_995 = (5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
                  2.898, 2.878, 2.861)  # fmt: skip

RULE = NoteRule(
    "late-to-collective",
    "Ranks wait in a collective for a late rank",
    "No rank leaves such a collective before the last one has come, which spends the least time in it. What others "
    "spend there beyond that, call by call, is waiting. It counts if its 99 % interval over the calls lies above zero: "
    "ranks that take turns in being late, as those that share cores do, get no note. This is time of the observed run.",
    "The time in the call against that of the last rank; Scalasca's Wait at Barrier and Wait at N x N",
)
_CallIndexByRank = tuple[int, ...]  # for each rank of a communicator, the index of its call
_TimeNsByRank = tuple[int, ...]  # for each rank of a communicator, its time in one collective in ns


@dataclass(frozen=True)
class _LateRank:
    """The rank that arrives last most often at a collective, from the view of one rank that waits for it."""

    rank: int
    site: MpiCallSite  # source line at which the late rank calls the collective
    num_arrivals_last: int  # number of collectives in which the rank arrived last
    mean_time_in_collective_ns: float  # mean time of the late rank in the collective, in ns


@dataclass
class _CollectiveWaits:
    """The time that ranks wait at one source line, and the rank that they wait for."""

    wait_loss: LossSum = field(default_factory=LossSum)
    late_rank_by_waiting_rank: dict[int, _LateRank] = field(default_factory=dict)


def find_late_ranks(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line at which ranks wait in a collective for the same late rank."""
    for site, waits in _waits_by_site(run.timing_run).items():
        loss, late = waits.wait_loss, waits.late_rank_by_waiting_rank[waits.wait_loss.worst_rank]
        num_calls = loss.num_calls_by_rank[loss.worst_rank]
        num_other_ranks = len(loss.num_calls_by_rank) - 1
        delay = delay_without_core_ns(run.timing_run, loss.worst_rank, site, [late.rank])
        others_text = (
            f"; {counted(num_other_ranks, 'other rank waits', 'other ranks wait')}, too" if num_other_ranks else ""
        )
        yield Note(
            RULE, site.place,
            f"late to collective: {site.name} waits {loss.format_loss_per_call()}, for rank {late.rank}, which is the "
            f"last to enter {late.num_arrivals_last} of {num_calls}{others_text}"
            f"{delay_text(delay, loss.worst_loss_ns().value)}",
            f"Give rank {late.rank} less to do before this call, or start it earlier as a nonblocking one.",
            loss.as_lost_time(run, delay),
            evidence=(
                Evidence(f"the same calls of rank {late.rank}", late.mean_time_in_collective_ns, "ns", "observed"),
                delay_evidence(f"this rank in these calls, rank {late.rank} in all", delay),
            ),
            related=(RelatedPlace(late.site.place, f"rank {late.rank} calls it here"),) if late.site != site else (),
        )  # fmt: skip


def _waits_by_site(run: ObservedRun) -> dict[MpiCallSite, _CollectiveWaits]:
    """Returns the waiting time in synchronizing collectives by the source line of the call."""
    waits_by_site: dict[MpiCallSite, _CollectiveWaits] = defaultdict(_CollectiveWaits)
    for members in _iterate_complete_communicators(run):
        for calls, times in _times_by_calls(members).items():
            if len(times) >= MIN_CALLS:
                world_ranks = members[0].world
                _add_waits(
                    waits_by_site,
                    [(rank, run.call_sites[rank][call]) for rank, call in zip(world_ranks, calls, strict=True)],
                    times,
                )
    return waits_by_site


def _iterate_complete_communicators(run: ObservedRun) -> Iterator[list[native.Synchronisations]]:
    """Yields for each communicator whose ranks were all observed the synchronizing collectives of each rank, in the
    order of the ranks."""
    members_by_context: dict[int, dict[int, native.Synchronisations]] = defaultdict(dict)
    for world_rank, rank in enumerate(run.ranks):
        for one in rank.result.synchronisations:
            members_by_context[one.context][world_rank] = one
    for by_rank in members_by_context.values():
        world_ranks = next(iter(by_rank.values())).world
        if len(world_ranks) > 1 and set(world_ranks) == set(by_rank):
            yield [by_rank[rank] for rank in world_ranks]


def _times_by_calls(members: Sequence[native.Synchronisations]) -> dict[_CallIndexByRank, list[_TimeNsByRank]]:
    """Returns the times that the ranks of a communicator spend in its synchronizing collectives, grouped by the ranks'
    calls."""
    times_by_calls: dict[_CallIndexByRank, list[_TimeNsByRank]] = defaultdict(list)
    calls, times = zip(*(one.calls for one in members)), zip(*(one.times_ns for one in members))  # noqa: B905
    for member_calls, member_times in zip(calls, times):  # noqa: B905  # truncated streams are shorter
        if all(member_times):
            times_by_calls[member_calls].append(member_times)
    return times_by_calls


def _add_waits(
    waits_by_site: dict[MpiCallSite, _CollectiveWaits],
    members: Sequence[tuple[int, MpiCallSite]],
    times: Sequence[_TimeNsByRank],
) -> None:
    """Adds the time that each rank waits in these collectives for the rank that spends the least time in them."""
    mean_times_ns = [fmean(samples) for samples in zip(*times, strict=True)]
    late_index = min(range(len(mean_times_ns)), key=mean_times_ns.__getitem__)
    late = _LateRank(
        *members[late_index],
        sum(times_of_collective[late_index] == min(times_of_collective) for times_of_collective in times),
        mean_times_ns[late_index],
    )
    for number, (rank, site) in enumerate(members):
        wait_ns = mean_with_interval(
            [times_of_collective[number] - times_of_collective[late_index] for times_of_collective in times]
        )
        if wait_ns.low <= 0:
            continue
        site_waits = waits_by_site[site]
        known_late_rank = site_waits.late_rank_by_waiting_rank.get(rank)
        site_waits.wait_loss.add_calls(rank, wait_ns, mean_times_ns[number], len(times))
        if not known_late_rank or known_late_rank.num_arrivals_last < late.num_arrivals_last:
            site_waits.late_rank_by_waiting_rank[rank] = late


def mean_with_interval(samples: Sequence[float]) -> Estimate:
    """Returns the mean of at least four samples with its 99 % confidence interval, computed from the means of up to 20
    batches of consecutive samples. Batches allow for correlation of neighbouring samples, which occurs when a rank
    shares its core for a while."""
    num_batches = min(len(samples), _MAX_NUM_BATCHES)
    ends = [len(samples) * number // num_batches for number in range(num_batches + 1)]
    means = [fmean(samples[first:end]) for first, end in pairwise(ends)]
    value, half_width = fmean(samples), _STUDENT_T_995[num_batches - 4] * stdev(means) / sqrt(num_batches)
    return Estimate(value, value - half_width, value + half_width)


SPEC = RuleSpec(RULE, find_late_ranks, needs_program_times=True)
