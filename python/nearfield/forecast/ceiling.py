"""Computes an upper bound for the speed-up of a run by nearfield's tools, and the likely speed-up.

A bound must never be below a speed-up that is measured later, so it includes everything that may become shorter:

- No run is shorter than what one of its ranks does outside of MPI. Of that time, page faults may become fewer (the
  shared heap retains freed memory), and a rank that was ready to run may get a core sooner if others wait less.
- A run becomes shorter by at most the total time that all ranks spend in the calls that become faster: at any moment
  the end of the run depends on one rank, and if that rank is not in such a call nothing changes.

The likely speed-up counts only the data transfer, since waiting for a peer that is late for other reasons stays the
same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nearfield.forecast.message_times import MeasuredMessageTimes
from nearfield.forecast.ranks import CallCategory, CallGroup, PartnerPlace, RecordedRank

_PAGE_KIB = 4  # size of a page
_MIN_UNBOUNDED_SHARE = 0.99  # if at least this share of the run may be saved, the speed-up counts as unbounded


@dataclass(frozen=True)
class SpeedupCeiling:
    """The effect that one of nearfield's tools can have on a run: the likely and the maximum speed-up."""

    tool: str
    likely_speedup: float | None  # None without measured message times
    max_speedup: float | None  # maximum speed-up; None: no bound, since all of the run may depend on the tool
    share_of_time: float  # share of the ranks' time in the calls that the tool may shorten

    @property
    def max_speedup_text(self) -> str:
        """Returns the maximum speed-up as text, '1.06x', rounded up, or 'no bound'."""
        return f"{_round_up_to_hundredths(self.max_speedup):.2f}x" if self.max_speedup else "no bound"


def _round_up_to_hundredths(ratio: float) -> float:
    """Returns a ratio rounded up to two decimals."""
    return -int(-ratio * 100 // 1) / 100


def can_rules_shorten(calls: CallGroup) -> bool:
    """Returns whether rules or the shared heap may shorten these calls: all calls that may move data inside a node."""
    return calls.partner_place is not PartnerPlace.OTHERS


def can_direct_collectives_shorten(calls: CallGroup) -> bool:
    """Returns whether direct collectives inside a node may shorten these calls."""
    return calls.partner_place is not PartnerPlace.OTHERS and calls.category in (
        CallCategory.COLLECTIVE,
        CallCategory.COMPLETION,
    )


def can_halo_library_replace(calls: CallGroup) -> bool:
    """Returns whether the halo library may replace these calls."""
    kinds = (CallCategory.POINT_TO_POINT, CallCategory.NEIGHBORS, CallCategory.ONE_SIDED, CallCategory.COMPLETION)
    return calls.partner_place is not PartnerPlace.OTHERS and calls.category in kinds


def compute_ceilings(ranks: list[RecordedRank], message_times: MeasuredMessageTimes | None) -> list[SpeedupCeiling]:
    """Returns the likely and maximum speed-up by rules with the shared heap, by direct collectives, and by the halo
    library."""
    return [
        _compute_ceiling("rules and shared heap", ranks, message_times, can_rules_shorten, uses_shared_heap=True),
        _compute_ceiling("direct collectives", ranks, message_times, can_direct_collectives_shorten),
        _compute_ceiling("halo library", ranks, message_times, can_halo_library_replace),
    ]


def _compute_ceiling(
    tool: str,
    ranks: list[RecordedRank],
    message_times: MeasuredMessageTimes | None,
    may_shorten: Callable[[CallGroup], bool],
    uses_shared_heap: bool = False,
) -> SpeedupCeiling:
    """Returns the likely and maximum speed-up of a run by one tool. `may_shorten(calls)` returns whether the tool may
    shorten these calls. `uses_shared_heap` says that the tool may also reduce page faults."""
    run_s = max(rank.duration_s for rank in ranks)
    shortened_s = [
        sum(one.duration_s + one.between_polls_s for one in rank.call_groups if may_shorten(one)) for rank in ranks
    ]
    fault_s_by_rank = [fault_seconds(rank) if uses_shared_heap else 0.0 for rank in ranks]
    min_run_s = max(_unavoidable_seconds(rank, fault) for rank, fault in zip(ranks, fault_s_by_rank, strict=True))
    saved_s = (
        min(run_s - min_run_s, sum(shortened_s) + sum(fault_s_by_rank)) if any(shortened_s) or uses_shared_heap else 0.0
    )
    max_speedup = run_s / (run_s - saved_s) if saved_s < _MIN_UNBOUNDED_SHARE * run_s else None
    likely_speedup = _likely_speedup(ranks, message_times, may_shorten, uses_shared_heap) if message_times else None
    if likely_speedup and max_speedup:
        likely_speedup = min(likely_speedup, max_speedup)
    share_of_time = sum(shortened_s) / sum(rank.duration_s for rank in ranks)
    return SpeedupCeiling(tool, likely_speedup, max_speedup, min(1.0, share_of_time))


def _unavoidable_seconds(rank: RecordedRank, fault_s: float) -> float:
    """Returns the seconds of a rank's run that no tool can shorten; 0 if the rank was killed, since its time without a
    core is then unknown."""
    if rank.end_usage is None:
        return 0.0
    in_mpi = rank.in_mpi_s + sum(one.between_polls_s for one in rank.call_groups)
    return max(0.0, rank.duration_s - in_mpi - seconds_without_core(rank) - fault_s)


def seconds_without_core(rank: RecordedRank) -> float:
    """Returns how long a rank's threads were ready to run without a core, in s. If the kernel does not report it,
    returns all the time in which the rank did not run."""
    if rank.end_usage is None:
        return 0.0
    if rank.end_usage.has_delay:
        return (rank.end_usage.delay_ns - rank.begin_usage.delay_ns) / 1e9
    return max(0.0, rank.duration_s - processor_seconds(rank))


def processor_seconds(rank: RecordedRank) -> float:
    """Returns the CPU time of a rank's threads in s; 0 if the rank was killed."""
    if rank.end_usage is None:
        return 0.0
    return (
        rank.end_usage.user_ns + rank.end_usage.system_ns - rank.begin_usage.user_ns - rank.begin_usage.system_ns
    ) / 1e9


def fault_seconds(rank: RecordedRank) -> float:
    """Returns an upper bound for the time of a rank's page faults in s: the larger of the CPU time in the kernel, which
    includes the clearing of huge pages, and the number of faults times their cost. Returns the whole run if the rank
    was killed."""
    if rank.end_usage is None:
        return rank.duration_s
    system = (rank.end_usage.system_ns - rank.begin_usage.system_ns) / 1e9
    return max(system, (rank.end_usage.minor_faults - rank.begin_usage.minor_faults) * rank.page_fault_ns / 1e9)


def refault_seconds(rank: RecordedRank) -> float:
    """Returns the time in s of page faults on memory that was freed and allocated again. Their number is that of all
    page faults minus that of the added resident pages."""
    if rank.end_usage is None:
        return 0.0
    added = (rank.end_usage.resident_kib - rank.begin_usage.resident_kib) // _PAGE_KIB
    return max(0, rank.end_usage.minor_faults - rank.begin_usage.minor_faults - added) * rank.page_fault_ns / 1e9


def _likely_speedup(
    ranks: list[RecordedRank],
    message_times: MeasuredMessageTimes,
    may_shorten: Callable[[CallGroup], bool],
    uses_shared_heap: bool,
) -> float:
    """Returns the speed-up if only the data transfer becomes shorter: to the time measured for the rules, or to zero
    without such a time."""
    saved = sum(_saved_seconds(rank, message_times, may_shorten, uses_shared_heap) for rank in ranks)
    return 1 / (1 - min(_MIN_UNBOUNDED_SHARE, saved / sum(rank.duration_s for rank in ranks)))


def _saved_seconds(
    rank: RecordedRank,
    message_times: MeasuredMessageTimes,
    may_shorten: Callable[[CallGroup], bool],
    uses_shared_heap: bool,
) -> float:
    """Returns the seconds that a tool likely saves on one rank."""
    shortened_calls = [one for one in rank.call_groups if may_shorten(one)]
    if uses_shared_heap and message_times.has_rules:
        saved = sum(message_times.saved_s(one, rank.num_ranks) for one in shortened_calls)
        return saved + (refault_seconds(rank) if message_times.uses_shared_heap else 0.0)
    return transfer_seconds(shortened_calls, message_times, rank.num_ranks) + (
        refault_seconds(rank) if uses_shared_heap else 0.0
    )


def transfer_seconds(calls: Iterable[CallGroup], message_times: MeasuredMessageTimes, ranks: int) -> float:
    """Returns the seconds of data transfer in calls, without waiting."""
    return sum(message_times.transfer_s(one, ranks) or 0.0 for one in calls)
