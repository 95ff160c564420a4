"""Defines a check of an observed program, and code that checks share: sums of lost time, and their description as
text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from nearfield.advise.run import MessageGroup, MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate, sum_of_estimates
from nearfield.base.units import format_bytes, format_ns
from nearfield.notes import Evidence, LostTime, Note, NoteRule, RelatedPlace, SourcePlace
from nearfield.notes.text import place_text
from nearfield.profile.costs import Costs

MessageTimes = TypeVar("MessageTimes", bound=tuple[Any, ...])
_WITHOUT_CORE_PREFIX = "without a core"  # prefix of the name of evidence on time without a core


@dataclass(frozen=True)
class RuleSpec:
    """A check of an observed program: its rule, and the function that returns its notes on a run, including notes with
    small losses."""

    rule: NoteRule
    find_notes: Callable[[ObservedRun], Iterable[Note]]
    needs_recorded_accesses: bool = False  # the run must have recorded loads and stores
    needs_program_times: bool = False  # times must be those of a run without hooks (see ObservedRun)
    scenarios: tuple[str, ...] = ()  # scenarios of a profile; the check needs records of at least one of them


@dataclass
class LossSum:
    """The lost time at one source line, summed over the calls of each rank."""

    num_calls_by_rank: Counter[int] = field(default_factory=Counter)
    _losses_by_rank: dict[int, list[Estimate]] = field(default_factory=lambda: defaultdict(list))
    _spent_ns_by_rank: Counter[int] = field(default_factory=Counter)  # time in the calls by rank, in ns

    def add_calls(self, rank: int, loss_ns: Estimate, spent_ns: float, num_calls: int) -> None:
        """Adds `num_calls` calls of a rank. Each call takes `spent_ns`, of which `loss_ns` are lost."""
        self._losses_by_rank[rank].append(loss_ns * num_calls if num_calls else loss_ns)
        self.num_calls_by_rank[rank] += num_calls
        self._spent_ns_by_rank[rank] += int(spent_ns * num_calls)

    @property
    def worst_rank(self) -> int:
        """Returns the rank with the largest loss."""
        return max(self._losses_by_rank, key=lambda rank: sum_of_estimates(self._losses_by_rank[rank]).value)

    @property
    def has_several_losing_ranks(self) -> bool:
        """Returns whether several ranks lose time, each at least half of the largest loss."""
        sums = [sum_of_estimates(parts).value for parts in self._losses_by_rank.values()]
        return len(sums) > 1 and 2 * min(sums) >= max(sums)

    def worst_loss_ns(self) -> Estimate:
        """Returns the loss in ns of the rank with the largest loss."""
        return sum_of_estimates(self._losses_by_rank[self.worst_rank])

    def as_lost_time(self, run: ObservedRun, other_cause_ns: float = 0.0) -> LostTime:
        """Returns the largest loss of a rank as the loss of the whole run, because the other ranks wait for that rank
        or lose time simultaneously. `other_cause_ns` is the part of it that may have another cause: it is subtracted
        from the loss and from the lower end of its interval, but not from the upper end."""
        total = self.worst_loss_ns() * 1e-9
        other_cause = other_cause_ns / 1e9
        lost = Estimate(max(0.0, total.value - other_cause), max(0.0, total.low - other_cause), total.high)
        share = lost.value / run.seconds if run.seconds else None
        return LostTime(lost.value, lost.low, lost.high, share)

    def format_loss_per_call(self) -> str:
        """Returns the loss of the rank with the largest loss as text, for example '12.3 us of 40.0 us per call, 250
        calls of rank 3'."""
        rank = self.worst_rank
        calls = max(1, self.num_calls_by_rank[rank])
        return (
            f"{format_ns(self.worst_loss_ns().value / calls)} of {format_ns(self._spent_ns_by_rank[rank] / calls)} "
            f"per call, {self.num_calls_by_rank[rank]} calls of rank {rank}"
        )


class MessageLosses(NamedTuple, Generic[MessageTimes]):
    """The messages that lose time, and the sum of their losses. `example` is the message group with the most bytes in
    total."""

    total: LossSum
    messages: list[MessageGroup]
    example: MessageGroup
    example_times: MessageTimes


def sum_message_losses(
    messages: Iterable[MessageGroup],
    find_times: Callable[[MessageGroup], MessageTimes | None],
    find_loss: Callable[[MessageGroup, MessageTimes], Estimate | None] = lambda _, times: times[0] - times[1],
) -> MessageLosses[MessageTimes] | None:
    """Sums the losses of those messages that lose time; returns None if there are none. `find_times` returns the time
    of a message as the program sends it, followed by the time of a better way; `find_loss` returns the loss, by default
    the difference of both times."""
    lost, losing = LossSum(), []
    for one in messages:
        times = find_times(one)
        message_loss = find_loss(one, times) if times else None
        if times and message_loss and message_loss.value > 0:
            lost.add_calls(one.rank, message_loss, times[0].value, one.counts.messages)
            losing.append((one, times))
    if not losing:
        return None
    example, example_times = max(losing, key=lambda pair: pair[0].counts.bytes * pair[0].counts.messages)
    return MessageLosses(lost, [one for one, _ in losing], example, example_times)


def delay_without_core_ns(run: ObservedRun, waiting_rank: int, site: MpiCallSite, awaited_ranks: Iterable[int]) -> int:
    """Returns how much of a rank's waiting time at a source line may be due to a lack of cores, in ns. This is the time
    in which the rank was ready but had no core in these calls, plus the time in which the ranks that it waits for had
    no core anywhere in the run. Returns 0 if the system does not report such times."""
    calls_and_sites = zip(run.ranks[waiting_rank].result.calls, run.call_sites[waiting_rank], strict=False)
    return sum(call.delayed_ns for call, at_site in calls_and_sites if at_site == site) + sum(
        map(run.time_without_core_ns, awaited_ranks)
    )


def delay_evidence(subject: str, delay_ns: float) -> Evidence:
    """Returns a result of delay_without_core_ns() as evidence of a note. `subject` describes the ranks and calls."""
    return Evidence(f"{_WITHOUT_CORE_PREFIX}: {subject}", delay_ns, "ns", "observed")


def has_delay(note: Note) -> bool:
    """Returns whether a lack of cores may explain part of a note's loss."""
    return any(one.name.startswith(_WITHOUT_CORE_PREFIX) and one.value > 0 for one in note.evidence)


def delay_text(delay_ns: float, wait_ns: float) -> str:
    """Returns for example '; up to 3 ms of that in all because ranks had no core'; '' if the delay is less than a
    hundredth of the wait."""
    if delay_ns < 0.01 * wait_ns:
        return ""
    return f"; up to {format_ns(min(delay_ns, wait_ns))} of that in all because ranks had no core"


def time_evidence(name: str, time_ns: Estimate, costs: Costs) -> Evidence:
    """Returns a time in ns that was looked up in the profile as evidence of a note."""
    return Evidence(name, time_ns.value, "ns", costs.source, time_ns.low, time_ns.high)


def message_size_text(messages: Sequence[MessageGroup]) -> str:
    """Returns the size of messages as text: '64 KiB', or '8 B to 64 KiB' if sizes differ."""
    sizes = [one.counts.bytes for one in messages]
    smallest, largest = format_bytes(min(sizes), digits=3), format_bytes(max(sizes), digits=3)
    return smallest if smallest == largest else f"{smallest} to {largest}"


def mean_reuse_distance(messages: Sequence[MessageGroup]) -> float:
    """Returns the mean reuse distance in bytes, over those cache lines of the messages that missed L1; 0 if none
    missed."""
    lines = sum(sum(one.counts.reach.lines[1:]) for one in messages)
    return sum(sum(one.counts.reach.bytes[1:]) for one in messages) / lines if lines else 0.0


def main_access_place(messages: Sequence[MessageGroup], excluded: SourcePlace) -> SourcePlace | None:
    """Returns the source line that wrote (for sends) or first read (for receives) the largest number of the messages'
    cache lines; None if it is unknown, or is `excluded`."""
    places: Counter[SourcePlace] = Counter()
    for one in messages:
        places.update(one.num_lines_by_place)
    place = max(places, key=places.__getitem__, default=None)
    return None if place == excluded else place


def related_place(place: SourcePlace | None, message: str) -> tuple[RelatedPlace, ...]:
    """Returns a source line as the related place of a note; an empty tuple without a source line."""
    return (RelatedPlace(place, message),) if place else ()


def source_line_text(place: SourcePlace | None, call_place: SourcePlace, default: str) -> str:
    """Returns a source line as text, 'line 98', with the file name if it is not the file of the call; `default`
    without a source line."""
    if not place:
        return default
    return f"line {place.line}" if place.file == call_place.file else place_text(place)
