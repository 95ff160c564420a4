"""Defines a check, and what checks share: sums of losses, and their description."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nearfield.advise.run import MessageGroup, MpiCallSite, ObservedRun
from nearfield.base.estimates import Estimate, sum_of
from nearfield.base.units import format_bytes, format_ns
from nearfield.notes import Evidence, LostTime, Note, NoteRule, RelatedPlace, SourcePlace
from nearfield.notes.text import place_text
from nearfield.profile.costs import Costs

T = TypeVar("T", bound=tuple[Any, ...])
_WITHOUT_CORE = "without a core"  # prefix of the name of evidence on missing cores


@dataclass(frozen=True)
class RuleSpec:
    """A check of an observed program: its rule, and the function that finds its notes in a run, however small their
    loss."""

    rule: NoteRule
    find: Callable[[ObservedRun], Iterable[Note]]
    needs_accesses: bool = False  # the program must have been compiled with hooks
    needs_times: bool = False  # the program must have run without hooks
    scenarios: tuple[str, ...] = ()  # scenarios of a profile; the check needs records of at least one of them


@dataclass
class LossSum:
    """The lost time at one source line, summed over the calls of each rank."""

    calls: Counter[int] = field(default_factory=Counter)  # number of calls by rank
    _parts: dict[int, list[Estimate]] = field(default_factory=lambda: defaultdict(list))
    _spent: Counter[int] = field(default_factory=Counter)  # ns that the calls take according to the profile, by rank

    def add_calls(self, rank: int, each: Estimate, spent_ns: float, times: int) -> None:
        """Adds `times` calls of a rank, which each take `spent_ns` and lose `each` ns of it."""
        self._parts[rank].append(each * times if times else each)
        self.calls[rank] += times
        self._spent[rank] += int(spent_ns * times)

    @property
    def worst_rank(self) -> int:
        """Returns the rank with the largest loss."""
        return max(self._parts, key=lambda rank: sum_of(self._parts[rank]).value)

    @property
    def has_several_losing_ranks(self) -> bool:
        """Returns whether several ranks lose time, each at least half of the largest loss."""
        sums = [sum_of(parts).value for parts in self._parts.values()]
        return len(sums) > 1 and 2 * min(sums) >= max(sums)

    def worst_loss_ns(self) -> Estimate:
        """Returns the loss in ns of the rank with the largest loss."""
        return sum_of(self._parts[self.worst_rank])

    def as_lost_time(self, run: ObservedRun, other_cause_ns: float = 0.0) -> LostTime:
        """Returns the largest loss of a rank as the loss of the whole run, since other ranks wait for the rank or lose
        time simultaneously. `other_cause_ns` is a part that may have another cause; it is subtracted, but the upper end
        of the interval includes it."""
        whole = self.worst_loss_ns() * 1e-9
        other_cause = other_cause_ns / 1e9
        lost = Estimate(max(0.0, whole.value - other_cause), max(0.0, whole.low - other_cause), whole.high)
        share = lost.value / run.seconds if run.seconds else None
        return LostTime(lost.value, lost.low, lost.high, share)

    def per_call_text(self) -> str:
        """Returns the loss of the rank with the largest loss as text, for example '12.3 us of 40.0 us per call, 250
        calls of rank 3'."""
        rank = self.worst_rank
        calls = max(1, self.calls[rank])
        return (
            f"{format_ns(self.worst_loss_ns().value / calls)} of {format_ns(self._spent[rank] / calls)} per call, "
            f"{self.calls[rank]} calls of rank {rank}"
        )


def find_losing_messages(
    messages: Iterable[MessageGroup],
    times: Callable[[MessageGroup], T | None],
    loss: Callable[[MessageGroup, T], Estimate | None] = lambda message, times: times[0] - times[1],
) -> tuple[LossSum, list[MessageGroup], MessageGroup, T] | None:
    """Returns the summed loss of those messages that lose time, these messages, the one of them with most bytes in
    total, and its times; None if none loses time. `times` returns the time of a message in the program as it is,
    followed by a better time."""
    lost, losing = LossSum(), []
    for one in messages:
        found = times(one)
        each = loss(one, found) if found else None
        if found and each and each.value > 0:
            lost.add_calls(one.rank, each, found[0].value, one.found.messages)
            losing.append((one, found))
    if not losing:
        return None
    example, of_example = max(losing, key=lambda pair: pair[0].found.bytes * pair[0].found.messages)
    return lost, [one for one, _ in losing], example, of_example


def without_core_ns(run: ObservedRun, waiting: int, site: MpiCallSite, waited_for: Iterable[int]) -> int:
    """Returns how much of a rank's waiting time at a source line may come from a lack of cores, in ns: the time in
    which the rank had no core in these calls, and the time in which the ranks that it waits for had none anywhere in
    the run. Returns 0 if the system does not report it."""
    mine = zip(run.ranks[waiting].found.calls, run.sites[waiting], strict=False)
    return sum(call.delayed_ns for call, at_site in mine if at_site == site) + sum(map(run.delayed_ns, waited_for))


def delay_evidence(whose: str, delay_ns: float) -> Evidence:
    """Returns the time in which ranks had no core, from without_core_ns(), as evidence of a note. `whose` describes the
    ranks and calls."""
    return Evidence(f"{_WITHOUT_CORE}: {whose}", delay_ns, "ns", "observed")


def has_delay(note: Note) -> bool:
    """Returns whether a lack of cores may explain part of a note's loss."""
    return any(one.name.startswith(_WITHOUT_CORE) and one.value > 0 for one in note.evidence)


def delay_text(delay_ns: float, whole_ns: float) -> str:
    """Returns for example '; up to 3 ms of that in all because ranks had no core', or '' if that is less than a
    hundredth of the wait."""
    if delay_ns < 0.01 * whole_ns:
        return ""
    return f"; up to {format_ns(min(delay_ns, whole_ns))} of that in all because ranks had no core"


def time_evidence(name: str, value: Estimate, costs: Costs) -> Evidence:
    """Returns a time in ns from the profile as evidence of a note."""
    return Evidence(name, value.value, "ns", costs.source, value.low, value.high)


def size_text(messages: Sequence[MessageGroup]) -> str:
    """Returns the size of messages as text: '64 KiB', or '8 B to 64 KiB' if sizes differ."""
    sizes = [one.found.bytes for one in messages]
    smallest, largest = format_bytes(min(sizes), digits=3), format_bytes(max(sizes), digits=3)
    return smallest if smallest == largest else f"{smallest} to {largest}"


def mean_reuse_distance(messages: Sequence[MessageGroup]) -> float:
    """Returns the mean reuse distance in bytes, over the cache lines of messages that had left L1."""
    lines = sum(sum(one.found.reach.lines[1:]) for one in messages)
    return sum(sum(one.found.reach.bytes[1:]) for one in messages) / lines if lines else 0.0


def main_access_place(messages: Sequence[MessageGroup], excluded: SourcePlace) -> SourcePlace | None:
    """Returns the source line that wrote, or read first, the largest number of the messages' cache lines; None if it is
    unknown, or is `excluded`."""
    places: Counter[SourcePlace] = Counter()
    for one in messages:
        places.update(one.places)
    found = max(places, key=places.__getitem__, default=None)
    return None if found == excluded else found


def related_place(place: SourcePlace | None, message: str) -> tuple[RelatedPlace, ...]:
    """Returns a source line as a related place of a note; empty without a source line."""
    return (RelatedPlace(place, message),) if place else ()


def line_text(place: SourcePlace | None, call: SourcePlace, otherwise: str) -> str:
    """Returns a source line as text, 'line 98', with the file name if it is not the file of the call; `otherwise`
    without a source line."""
    if not place:
        return otherwise
    return f"line {place.line}" if place.file == call.file else place_text(place)
