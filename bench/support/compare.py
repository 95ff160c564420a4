"""Contestants that run in turn, how they compare case by case, and whether that meets a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from nearfield import _native
from nearfield.base.paired import Gain, measure_alternately
from nearfield.base.units import format_bytes
from nearfield.rules.gains import TimePair, geometric_mean, median_gain
from support import console, verdict

NEVER_BELOW = 0.97  # of stock: what tune promises
FAR_NS = 200.0  # a flag that takes so long: the cores share no cache, as a virtual machine's at times do not
MOVED = 1.8  # a flag that takes that many times as long: the cores are not where they were
Case = tuple[str, int | str]  # what was measured, and its size or another word
Times = dict[Case, float]  # shorter is better; a rate is entered as its reciprocal


def case_text(case: Case) -> str:
    name, size = case
    return f"{name} {format_bytes(size) if isinstance(size, int) else size}".strip()


@dataclass
class Turns:
    """Times of every contestant, round by round, and what a flag between the two cores took before each round, in ns; 0
    where it could not be timed."""

    flags: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)  # rounds during which the cores moved, however often repeated
    times: dict[str, list[Times]] = field(default_factory=dict)

    def cases(self) -> list[Case]:
        """Returns the cases that every contestant has in every round."""
        first, *others = (times for rounds in self.times.values() for times in rounds)
        return [case for case in first if all(case in times for times in others)]

    def gains(self, other: str = "tuned", over: str = "stock", flag_from: float = 0.0) -> dict[Case, Gain]:
        """Returns how many times as fast as `over` they are, in the rounds with a flag of at least that many ns. Rounds
        during which the cores moved count only where there are no others."""
        stayed = [number for number in range(len(self.flags)) if number not in self.moved]
        rounds = [number for number in stayed or self.moved if self.flags[number] >= flag_from]
        if not rounds:
            return {}
        slow, fast = self.times[over], self.times[other]
        return {
            case: median_gain([TimePair(slow[n][case], fast[n][case], self.flags[n]) for n in rounds])
            for case in self.cases()
        }

    def middle(self, job: str, case: Case) -> float:
        return median(times[case] for times in self.times[job])

    def flag_text(self) -> str:
        low, middle, high = min(self.flags), median(self.flags), max(self.flags)
        use = "left out" if len(self.moved) < len(self.flags) else "used all the same"
        moved = f"the cores moved during {len(self.moved)} of {len(self.flags)} rounds"
        moved += f" ({use})" if self.moved else ""
        return f"a flag took {low:.0f} ns at least, {middle:.0f} in the middle, {high:.0f} at most; {moved}"

    def as_json(self) -> dict[str, Any]:
        times = {
            who: [{case_text(case): value for case, value in one.items()} for one in rounds]
            for who, rounds in self.times.items()
        }
        return {"flags_ns": self.flags, "moved_in_rounds": self.moved, "times": times}


def in_turn(
    contestants: Mapping[str, Callable[[], Times]], rounds: int, cpus: tuple[int, int], title: str, takes: int = 3
) -> Turns:
    """Measures all contestants alternately. A round during which the cores moved, as a virtual machine's do, is
    repeated, but at most `takes` rounds are made for one."""

    def measure(run: Callable[[], Times]) -> tuple[float, Times, float]:
        return _native.flag_ns(*cpus), run(), _native.flag_ns(*cpus)

    turns = Turns(times={name: [] for name in contestants})
    measurements = {name: partial(measure, run) for name, run in contestants.items()}
    for number, results in zip(range(rounds), measure_alternately(measurements, cores_moved, takes), strict=False):
        flags = flags_of(results)
        turns.flags.append(flags[0])
        turns.moved += [number] * cores_moved(results)
        for name, (_, times, _) in results.items():
            turns.times[name].append(times)
        seen = ", ".join(f"{flag:.0f}" for flag in flags)
        console.print(f"  {title}: round {number + 1} of {rounds}, a flag takes {seen} ns", style="dim")
    return turns


def flags_of(results: Mapping[str, tuple[float, Times, float]]) -> list[float]:
    """Returns what a flag took before and after each contestant, in ns."""
    return [flag for before, _, after in results.values() for flag in (before, after)]


def cores_moved(results: Mapping[str, tuple[float, Times, float]]) -> bool:
    return max(flags_of(results)) > MOVED * min(flags_of(results))


def slower(one: Gain) -> bool:
    """Returns whether it is slower by more than what counts, and by more than the error of the measurement."""
    return one.is_below(NEVER_BELOW)


def gains_json(gains: Mapping[Case, Gain]) -> dict[str, Any]:
    return {case_text(case): {**asdict(g), "slower": slower(g)} for case, g in gains.items()}


class Criterion(NamedTuple):
    """Holds a promise, the result, and whether the result is enough; None if that could not be decided."""

    words: str
    met: bool | None


def at_least(limit: float, gains: Iterable[Gain], what: str) -> Criterion:
    """Returns the geometric mean."""
    gains = list(gains)
    if not gains:
        return Criterion(f"{what}: not measured, the limit is {limit:g}", None)
    mean = geometric_mean(gains)
    words = f"{what}: {mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f}), the limit is {limit:g}"
    return Criterion(words, mean.value >= limit)


def none_below(gains: Mapping[Case, Gain], what: str) -> Criterion:
    """Returns the criterion that no case is significantly slower than stock."""
    found = [f"{case_text(case)} ({g.value:.2f})" for case, g in gains.items() if slower(g)]
    words = f"{what}: below {NEVER_BELOW} of stock: {', '.join(found) or 'none'} of {len(gains)}"
    return Criterion(words, not found if gains else None)


def report_criteria(criteria: Iterable[Criterion]) -> bool | None:
    """Says of each limit whether it is met, and returns whether all are; None if none could be decided."""
    results = set()
    for words, met in criteria:
        verdict(met, words)
        results.add(met)
    return False if False in results else True if True in results else None
