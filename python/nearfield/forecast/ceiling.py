"""Computes an upper bound for the speed-up of a run by nearfield's tools, and the likely speed-up.

A bound must never be below a gain that is measured later, so it counts everything that may become shorter:

- No run is shorter than what one of its ranks does outside of MPI. Of that time, page faults may become fewer (the
  shared heap retains freed memory), and a rank that was ready to run may get a core sooner if others wait less.
- A run becomes shorter by at most the total time that all ranks spend in the calls that become faster: at any moment
  the end of the run depends on one rank, and if that rank is not in such a call nothing changes.

The likely gain counts only the data transfer: waiting for a peer that is late for other reasons stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nearfield.forecast.prices import MessagePrices
from nearfield.forecast.ranks import CallCategory, CallGroup, PartnerPlace, RecordedRank

_PAGE_KIB = 4  # size of a page
_ALL_OF_IT = 0.99  # if a larger share of the run may be saved, the gain counts as unbounded


@dataclass(frozen=True)
class SpeedupCeiling:
    """The effect that one of nearfield's tools can have on a run: the likely and the maximum speed-up."""

    means: str
    likely: float | None  # likely speed-up; None without measured message times
    max_gain: float | None  # maximum speed-up; None if there is no bound, since all of the run may depend on the tool
    share: float  # share of the ranks' time in the calls that the tool may shorten

    @property
    def max_gain_text(self) -> str:
        """Returns the maximum speed-up as text, '1.06x', rounded up, or 'no bound'."""
        return f"{_round_up(self.max_gain):.2f}x" if self.max_gain else "no bound"


def _round_up(ratio: float) -> float:
    """Returns a ratio rounded up to two decimals."""
    return -int(-ratio * 100 // 1) / 100


def can_rules_shorten(calls: CallGroup) -> bool:
    """Returns whether rules or the shared heap may shorten these calls: all calls that may move data inside a node."""
    return calls.place is not PartnerPlace.OTHERS


def can_direct_collectives_shorten(calls: CallGroup) -> bool:
    """Returns whether direct collectives inside a node may shorten these calls."""
    return calls.place is not PartnerPlace.OTHERS and calls.category in (
        CallCategory.COLLECTIVE,
        CallCategory.COMPLETION,
    )


def can_halo_library_replace(calls: CallGroup) -> bool:
    """Returns whether the halo library may replace these calls."""
    kinds = (CallCategory.POINT_TO_POINT, CallCategory.NEIGHBOURS, CallCategory.ONE_SIDED, CallCategory.COMPLETION)
    return calls.place is not PartnerPlace.OTHERS and calls.category in kinds


def compute_ceilings(ranks: list[RecordedRank], prices: MessagePrices | None) -> list[SpeedupCeiling]:
    """Returns the likely and maximum speed-up by rules with the shared heap, by direct collectives, and by the halo
    library."""
    return [
        _compute_ceiling("rules and shared heap", ranks, prices, can_rules_shorten, heap=True),
        _compute_ceiling("direct collectives", ranks, prices, can_direct_collectives_shorten),
        _compute_ceiling("halo library", ranks, prices, can_halo_library_replace),
    ]


def _compute_ceiling(
    means: str,
    ranks: list[RecordedRank],
    prices: MessagePrices | None,
    touches: Callable[[CallGroup], bool],
    heap: bool = False,
) -> SpeedupCeiling:
    """Returns the likely and maximum speed-up of a run by one tool. `touches` returns whether the tool may shorten
    calls; `heap` is set if it may also reduce page faults."""
    run = max(rank.seconds for rank in ranks)
    touched = [sum(one.seconds + one.between_seconds for one in rank.calls if touches(one)) for rank in ranks]
    faults = [fault_seconds(rank) if heap else 0.0 for rank in ranks]
    remains = max(_unavoidable_seconds(rank, fault) for rank, fault in zip(ranks, faults, strict=True))
    shorter = min(run - remains, sum(touched) + sum(faults)) if any(touched) or heap else 0.0
    max_gain = run / (run - shorter) if shorter < _ALL_OF_IT * run else None
    likely = _likely_speedup(ranks, prices, touches, heap) if prices else None
    if likely and max_gain:
        likely = min(likely, max_gain)
    share = sum(touched) / sum(rank.seconds for rank in ranks)
    return SpeedupCeiling(means, likely, max_gain, min(1.0, share))


def _unavoidable_seconds(rank: RecordedRank, faults: float) -> float:
    """Returns the seconds of a rank's run that no tool can shorten; 0 if the rank was killed, since its time without a
    core is then unknown."""
    if rank.end is None:
        return 0.0
    in_mpi = rank.in_mpi + sum(one.between_seconds for one in rank.calls)
    return max(0.0, rank.seconds - in_mpi - delay_seconds(rank) - faults)


def delay_seconds(rank: RecordedRank) -> float:
    """Returns how long a rank's threads were ready to run without a core, in s. If the kernel does not report it,
    returns all the time in which the rank did not run."""
    if rank.end is None:
        return 0.0
    if rank.end.has_delay:
        return (rank.end.delay_ns - rank.begin.delay_ns) / 1e9
    return max(0.0, rank.seconds - processor_seconds(rank))


def processor_seconds(rank: RecordedRank) -> float:
    """Returns the CPU time of a rank's threads in s; 0 if the rank was killed."""
    if rank.end is None:
        return 0.0
    return (rank.end.user_ns + rank.end.system_ns - rank.begin.user_ns - rank.begin.system_ns) / 1e9


def fault_seconds(rank: RecordedRank) -> float:
    """Returns an upper bound for the time of a rank's page faults in s: the larger of the CPU time in the kernel, which
    includes the clearing of huge pages, and the number of faults times their cost. Returns the whole run if the rank
    was killed."""
    if rank.end is None:
        return rank.seconds
    system = (rank.end.system_ns - rank.begin.system_ns) / 1e9
    return max(system, (rank.end.minor_faults - rank.begin.minor_faults) * rank.fault_ns / 1e9)


def refault_seconds(rank: RecordedRank) -> float:
    """Returns the time in s of page faults on memory that was freed and allocated again: that of the faults beyond the
    added resident pages."""
    if rank.end is None:
        return 0.0
    added = (rank.end.resident_kib - rank.begin.resident_kib) // _PAGE_KIB
    return max(0, rank.end.minor_faults - rank.begin.minor_faults - added) * rank.fault_ns / 1e9


def _likely_speedup(
    ranks: list[RecordedRank], prices: MessagePrices, touches: Callable[[CallGroup], bool], heap: bool
) -> float:
    """Returns the speed-up if only the data transfer becomes shorter: as measured for the rules, or otherwise to
    zero."""
    saved = sum(_saved_seconds(rank, prices, touches, heap) for rank in ranks)
    return 1 / (1 - min(_ALL_OF_IT, saved / sum(rank.seconds for rank in ranks)))


def _saved_seconds(
    rank: RecordedRank, prices: MessagePrices, touches: Callable[[CallGroup], bool], heap: bool
) -> float:
    """Returns the seconds that a tool likely saves on one rank."""
    touched = [one for one in rank.calls if touches(one)]
    if heap and prices.has_rules:
        saved = sum(prices.saved_s(one, rank.ranks) for one in touched)
        return saved + (refault_seconds(rank) if prices.shares_heap else 0.0)
    return transfer_seconds(touched, prices, rank.ranks) + (refault_seconds(rank) if heap else 0.0)


def transfer_seconds(calls: Iterable[CallGroup], prices: MessagePrices, ranks: int) -> float:
    """Returns the seconds of data transfer in calls, without waiting."""
    return sum(prices.transfer_s(one, ranks) or 0.0 for one in calls)
