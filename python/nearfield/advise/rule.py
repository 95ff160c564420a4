"""Defines a check, and what checks share: sums of losses, and their description."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nearfield.advise.run import Messages, Run, Site
from nearfield.base.estimates import Estimate, sum_of
from nearfield.base.units import format_bytes, format_ns
from nearfield.notes import Evidence, Loss, Note, Place, Related, Rule
from nearfield.notes.text import place_text
from nearfield.profile.costs import Costs

T = TypeVar("T", bound=tuple[Any, ...])
_WITHOUT_CORE = "without a core"  # prefix of the name of that evidence


@dataclass(frozen=True)
class RuleSpec:
    """A check, and the function that finds its notes in a run, regardless of their loss."""

    rule: Rule
    find: Callable[[Run], Iterable[Note]]
    needs_accesses: bool = False  # the program must have been compiled with hooks
    needs_times: bool = False  # the program must have run without them
    scenarios: tuple[str, ...] = ()  # of the profile; without records of one of them it finds nothing


@dataclass
class Lost:
    """The loss at one line: sums over the calls of each rank."""

    calls: Counter[int] = field(default_factory=Counter)  # by rank
    _parts: dict[int, list[Estimate]] = field(default_factory=lambda: defaultdict(list))
    _spent: Counter[int] = field(default_factory=Counter)  # ns of these calls, according to the profile

    def add(self, rank: int, each: Estimate, spent_ns: float, times: int) -> None:
        """Adds `times` calls that lose `each` of `spent_ns`."""
        self._parts[rank].append(each * times if times else each)
        self.calls[rank] += times
        self._spent[rank] += int(spent_ns * times)

    @property
    def worst(self) -> int:
        """Returns the rank with the largest loss."""
        return max(self._parts, key=lambda rank: sum_of(self._parts[rank]).value)

    @property
    def is_alike(self) -> bool:
        """Returns whether several ranks lose, each at least half of the largest loss."""
        sums = [sum_of(parts).value for parts in self._parts.values()]
        return len(sums) > 1 and 2 * min(sums) >= max(sums)

    def sum(self) -> Estimate:
        """Returns the loss of that rank, in ns."""
        return sum_of(self._parts[self.worst])

    def loss(self, run: Run, other_cause_ns: float = 0.0) -> Loss:
        """Returns the rank's loss as that of the run: other ranks wait for it, or lose at the same time.
        `other_cause_ns` is the part that may have another cause: it is subtracted, but the upper end includes it."""
        whole = self.sum() * 1e-9
        other_cause = other_cause_ns / 1e9
        lost = Estimate(max(0.0, whole.value - other_cause), max(0.0, whole.low - other_cause), whole.high)
        share = lost.value / run.seconds if run.seconds else None
        return Loss(lost.value, lost.low, lost.high, share)

    def per_call(self) -> str:
        """Returns for example '12.3 us of 40.0 us per call, 250 calls'."""
        rank = self.worst
        calls = max(1, self.calls[rank])
        return (
            f"{format_ns(self.sum().value / calls)} of {format_ns(self._spent[rank] / calls)} per call, "
            f"{self.calls[rank]} calls of rank {rank}"
        )


def find_losing(
    messages: Iterable[Messages],
    times: Callable[[Messages], T | None],
    loss: Callable[[Messages, T], Estimate | None] = lambda message, times: times[0] - times[1],
) -> tuple[Lost, list[Messages], Messages, T] | None:
    """Returns the loss of these messages, those of them that lose, the one of these with most bytes, and its times;
    None if none loses. `times` returns the time of a message in the program as it is, and of a better one, first."""
    lost, losing = Lost(), []
    for one in messages:
        found = times(one)
        each = loss(one, found) if found else None
        if found and each and each.value > 0:
            lost.add(one.rank, each, found[0].value, one.found.messages)
            losing.append((one, found))
    if not losing:
        return None
    example, of_example = max(losing, key=lambda pair: pair[0].found.bytes * pair[0].found.messages)
    return lost, [one for one, _ in losing], example, of_example


def without_core_ns(run: Run, waiting: int, site: Site, waited_for: Iterable[int]) -> int:
    """Returns how much of a rank's wait at a line may come from a lack of cores, in ns: it had no core itself in these
    calls, or the ranks that it waits for had none, anywhere in the run. 0 if the system does not report it."""
    mine = zip(run.ranks[waiting].found.calls, run.sites[waiting], strict=False)
    return sum(call.delayed_ns for call, at_site in mine if at_site == site) + sum(map(run.delayed_ns, waited_for))


def delay_evidence(whose: str, delay_ns: float) -> Evidence:
    """Returns the result of without_core_ns() as evidence; `whose` describes its ranks and calls."""
    return Evidence(f"{_WITHOUT_CORE}: {whose}", delay_ns, "ns", "observed")


def has_delay(note: Note) -> bool:
    """Returns whether a lack of cores may explain part of this note."""
    return any(one.name.startswith(_WITHOUT_CORE) and one.value > 0 for one in note.evidence)


def delay_text(delay_ns: float, whole_ns: float) -> str:
    """Returns for example '; up to 3 ms of that because ranks had no core', if it is at least a hundredth of the
    wait."""
    if delay_ns < 0.01 * whole_ns:
        return ""
    return f"; up to {format_ns(min(delay_ns, whole_ns))} of that in all because ranks had no core"


def number(name: str, value: Estimate, costs: Costs) -> Evidence:
    """Returns a time of the profile as evidence."""
    return Evidence(name, value.value, "ns", costs.source, value.low, value.high)


def size_text(messages: Sequence[Messages]) -> str:
    """Returns '64 KiB', or '8 B to 64 KiB' for messages of different sizes."""
    sizes = [one.found.bytes for one in messages]
    smallest, largest = format_bytes(min(sizes), digits=3), format_bytes(max(sizes), digits=3)
    return smallest if smallest == largest else f"{smallest} to {largest}"


def touched_between(messages: Sequence[Messages]) -> float:
    """Returns the mean reuse distance in bytes, over lines that had left L1."""
    lines = sum(sum(one.found.reach.lines[1:]) for one in messages)
    return sum(sum(one.found.reach.bytes[1:]) for one in messages) / lines if lines else 0.0


def main_place(messages: Sequence[Messages], excluded: Place) -> Place | None:
    """Returns the line of code that wrote, or read first, most of their cache lines; None if it is unknown, or
    `excluded`."""
    places: Counter[Place] = Counter()
    for one in messages:
        places.update(one.places)
    found = max(places, key=places.__getitem__, default=None)
    return None if found == excluded else found


def related(place: Place | None, message: str) -> tuple[Related, ...]:
    """Returns the location in the form of a note."""
    return (Related(place, message),) if place else ()


def at_line(place: Place | None, call: Place, otherwise: str) -> str:
    """Returns 'line 98', with the file's name if it is not the call's; `otherwise` without a location."""
    if not place:
        return otherwise
    return f"line {place.line}" if place.file == call.file else place_text(place)
