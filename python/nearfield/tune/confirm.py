"""Confirms the settings that a search found, at every size and in several launches, before they become a rule."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from nearfield.base.units import counted
from nearfield.rules.criterion import MAX_CHANCE_LOSSES, MIN_GAIN, MIN_REPORTED_GAIN, NOISE, violations
from nearfield.rules.gains import (
    MIN_CONFIRMING_LAUNCHES,
    MIN_LAUNCHES,
    Case,
    Pair,
    geometric_mean,
    in_dominant_placement,
    same_distance,
)
from nearfield.rules.knobs import Settings
from nearfield.tune.confirmed import ConfirmedGains
from nearfield.tune.paired_benchmark import PairedBenchmark
from nearfield.tune.paired_runs import UnusableSetting
from nearfield.tune.satisfy_constraints import move_limits_towards, without_parameter
from nearfield.tune.search import Deadline, Search, settings_key
from nearfield.tune.starved import OutOfTime, Starved

FINALISTS, MENDED = 6, 2  # how many; steps of mending
PATIENCE = 0.25  # of the time: how long to wait for cores that have moved
MENDS = 0.05  # of the baseline's speed: by how much a parameter less must help where a setting was slower
PAIRS = 1  # of times of a case in a launch, since launches differ more than the pairs in one
MOST_LAUNCHES = 9  # in one sitting, where it is in doubt whether a case is slower or whether all gain
LOOKS = 3  # launches in which mending looks at the slower cases

Launch = Mapping[Case, Sequence[Pair]]  # what one launch of both jobs gave


class NotDecided(Exception):
    """A finalist could not be judged; the message says why."""


# What a later sitting does after one without a verdict: it confirms the finalists that are in doubt; or, if all of them
# are judged, searches for others; or measures everything anew, since on a busy machine trials do not show that nothing
# gains.
GoesOn = Literal["confirming", "searching", "anew"]


@dataclass(frozen=True)
class Outcome:
    """The verdict on one distance. With `chosen` it is a rule. Otherwise, if `goes_on` is None, the MPI's defaults are
    best, else nothing is decided. `reason` says why there is no rule, and `seen` what an undecided search has shown."""

    chosen: ConfirmedGains | None = None
    reason: str = ""
    goes_on: GoesOn | None = None
    seen: str = ""


class Confirmation:
    """The finalists of one search, on one arena. Use `run` once."""

    def __init__(
        self,
        benchmark: PairedBenchmark,
        search: Search,
        cases: Sequence[Case],
        limits: Sequence[int],
        deadline: Deadline,
        never_below: float = MIN_GAIN,
        *,
        known: Iterable[tuple[Settings, Launch]] = (),
        on_launch: Callable[[Settings, Launch], None] = lambda settings, launch: None,
        busy: bool = False,
    ) -> None:
        """A gain counts between the sizes of `limits`, in bytes, ascending (`Confirmed.gains_between`). `known` are the
        launches of an earlier sitting, and `on_launch` gets every new one. `busy` says that other programs used the
        cores meanwhile: then trials without a gain do not show that there is none."""
        self._benchmark, self._search, self._cases, self._limits = benchmark, search, cases, limits
        self._deadline, self._never_below, self._on_launch, self._busy = deadline, never_below, on_launch, busy
        self._fewest = (
            MIN_CONFIRMING_LAUNCHES if busy else MIN_LAUNCHES
        )  # launches that judge a setting when it is late
        self._launches: dict[object, list[Launch]] = defaultdict(list)
        for settings, launch in known:
            self._launches[settings_key(settings)].append(launch)

    def run(self) -> Outcome:
        """Confirms the finalists, the search's winner first. Returns the first that is faster somewhere and slower
        nowhere, surely; otherwise that the defaults are best if every finalist was judged. A finalist that is slower in
        a case is followed by a repaired one: the parameter that makes it slower is changed or left out."""
        waiting, refused, doubts = _finalists(self._search), [], []
        seen, looked = list(waiting), 0
        while waiting and not (looked and self._is_late()):  # one is enough then
            settings = waiting.pop(0)
            looked += 1
            self._wait_for_usual_placement()
            try:
                confirmed = self._confirm(settings)
            except UnusableSetting as error:
                self._search.record_unusable(settings, error.message)
                refused.append(error.message)
                continue
            except NotDecided as error:
                doubts.append(str(error))
                continue
            if not confirmed.slower:
                if confirmed.gains_between(self._limits, looked):
                    return Outcome(confirmed)
                if confirmed.may_gain:
                    doubts.append(f"a gain of {_interval(confirmed)} is not sure")
                continue
            refused.append(confirmed.loss)
            mended = self._with_worst_case_fixed(confirmed) if len(refused) <= MENDED and not self._is_late() else None
            if mended and mended not in seen and not self._search.rejection_reason(mended):
                waiting.insert(0, mended)
                seen.append(mended)
        if waiting:
            was = "was" if len(waiting) == 1 else "were"
            doubts.append(f"{counted(len(waiting), 'more finalist')} of the search {was} not confirmed")
        return self._without_rule(refused, doubts)

    def _without_rule(self, refused: list[str], doubts: list[str]) -> Outcome:
        """Returns the outcome when no finalist became a rule: the defaults are best only if nothing is in doubt.
        `doubts` are those about finalists."""
        goes_on: GoesOn = "confirming" if doubts else "anew" if self._busy else "searching"
        tried = [trial for trial in self._search.trials if trial.settings]
        if self._deadline.stopped:
            doubts.insert(0, f"the search was interrupted{'' if tried else ' before anything was tried'}")
        elif not tried:
            doubts.append("there was no time to try anything")
        elif self._search.untried and not doubts:
            doubts.append(f"there was no time for {self._search.untried} of the settings that were to be tried")
        if doubts or self._busy:
            doubts = doubts or ["nothing that was tried gained surely, but a gain may be hidden"]
            return Outcome(None, "; ".join([*doubts, *refused[:1]]), goes_on, self._describe_pairs())
        return Outcome(None, "; ".join(refused) or "nothing was faster than the defaults")

    def _describe_pairs(self) -> str:
        """Returns in words the most that a setting has gained so far; empty if none did."""
        gained = self._search.gaining()
        most = max((geometric_mean(trial.gains.values()).value for trial in gained), default=1.0)
        if most < MIN_REPORTED_GAIN:
            return ""
        tried = sum(trial.state == "measured" for trial in self._search.trials)
        what = f"the best of {tried} settings" if tried > 1 else "one setting"
        return f"{what} measured {most:.2f}x, but was not confirmed"

    def _wait_for_usual_placement(self) -> None:
        """Waits until the cores are in the place of most trials, since gains must be confirmed where they were found;
        at most for a part of the time."""
        usual_ns = median([trial.c2c_latency_ns for trial in self._search.trials if trial.c2c_latency_ns] or [0.0])
        patience = Deadline(PATIENCE * self._deadline.seconds)
        while (
            usual_ns
            and not (patience.over() or self._deadline.over())
            and not same_distance(self._benchmark.c2c_latency_ns(), usual_ns)
        ):
            time.sleep(0.2)

    def _confirm(self, settings: Settings) -> ConfirmedGains:
        """Measures all cases in six launches, or at least three if it is late and the machine is quiet, and doubtful
        cases in up to three more. Launches of an earlier sitting count. Only pairs in the usual place of the cores
        count; for a case without such pairs, those elsewhere do. Raises NotDecided if the time is over before that, or
        if a case could not be measured anywhere, and Unfit if the settings fail."""
        launches = self._launches[settings_key(settings)]
        wanted = self._cases_to_measure(settings, launches)
        for _ in range(MOST_LAUNCHES):
            if wanted:
                self._add_launch(settings, wanted, launches)
            confirmed = self._judge(settings, launches)
            if self._deadline.stopped or not (wanted := self._cases_to_measure(settings, launches)):
                break
            if self._deadline.late():
                if self._whole(launches) < self._fewest:
                    raise NotDecided(self._describe_missing_launches(launches))
                break
        found = _merge_pairs(launches)
        if len(confirmed.gains) < len(self._cases):
            confirmed = ConfirmedGains.of(settings, found | in_dominant_placement(found), self._never_below)
        if not self._whole(launches):
            raise NotDecided(self._describe_missing_launches(launches))
        if not all(found[case] for case in self._cases):
            raise NotDecided("a setting was not measured at every size while the cores stayed where they were")
        return confirmed

    def _whole(self, launches: Sequence[Launch]) -> int:
        """Returns in how many launches every case was measured."""
        return min(sum(case in launch for launch in launches) for case in self._cases)

    def _cases_to_measure(self, settings: Settings, launches: Sequence[Launch]) -> Sequence[Case]:
        """Returns the cases to measure in one more launch; none if the settings can be judged."""
        if not (whole := self._whole(launches)):
            return [case for case in self._cases if not any(case in launch for launch in launches)]
        confirmed = self._judge(settings, launches)
        if self._cannot_pass(confirmed, whole):
            return []
        if whole < MIN_CONFIRMING_LAUNCHES:
            return [case for case in self._cases if sum(case in launch for launch in launches) == whole]
        unsure = confirmed.may_gain and not confirmed.slower and not confirmed.gains_between(self._limits)
        return self._cases if unsure else self._inconclusive_cases(confirmed)

    def _add_launch(self, settings: Settings, cases: Sequence[Case], launches: list[Launch]) -> None:
        """Measures one more launch. A starved one counts as far as it went, and is measured on while there is time;
        otherwise raises NotDecided."""
        try:
            for launch in self._launch(settings, cases, PAIRS):
                launches.append(launch)
                self._on_launch(settings, launch)
        except Starved as error:
            if isinstance(error, OutOfTime) or self._is_late():
                raise NotDecided(self._describe_missing_launches(launches)) from error

    def _describe_missing_launches(self, launches: Sequence[Launch]) -> str:
        needed = (
            f"{self._fewest} to {MIN_CONFIRMING_LAUNCHES}"
            if self._fewest < MIN_CONFIRMING_LAUNCHES
            else f"{MIN_CONFIRMING_LAUNCHES}"
        )
        return f"only {self._whole(launches)} of the {needed} launches that confirm a setting had measured every size"

    def _judge(self, settings: Settings, launches: Sequence[Launch]) -> ConfirmedGains:
        return ConfirmedGains.of(settings, in_dominant_placement(_merge_pairs(launches)), self._never_below)

    def _launch(self, settings: Settings, cases: Sequence[Case], count: int) -> Iterator[Launch]:
        """Yields for each case `count` pairs from new launches of both jobs. Raises Starved after what was measured
        until then."""
        self._benchmark.restart_baseline()
        measured: Launch = {}
        try:
            with self._benchmark.compare_with_baseline(settings, cases) as comparison:
                measured = comparison.found
                comparison.measure(count)
        except Starved:
            if measured:
                yield measured
            raise
        yield measured

    def _inconclusive_cases(self, confirmed: ConfirmedGains) -> list[Case]:
        """Returns the cases that are probably slower than they may be, and those with too few launches in the usual
        place of the cores."""
        launches = {case: {pair.launch for pair in confirmed.pairs.get(case, [])} for case in self._cases}
        few = [case for case in self._cases if len(launches[case]) < MIN_LAUNCHES]
        return list(dict.fromkeys([*(loss.case for loss in confirmed.losses), *few]))

    def _cannot_pass(self, confirmed: ConfirmedGains, launches: int) -> bool:
        """Returns whether more cases are slower, and by more, than chance can explain. On a busy machine chance
        explains much in a few launches."""
        if self._busy and launches < self._fewest:
            return False
        return len(violations(confirmed.gains, self._never_below - NOISE)) > MAX_CHANCE_LOSSES

    def _is_late(self) -> bool:
        return self._deadline.stopped or self._deadline.late()

    def _with_worst_case_fixed(self, confirmed: ConfirmedGains) -> Settings | None:
        """Returns the settings with one parameter as little nearer to its default as makes no case slower; otherwise
        without the parameter whose absence helps the slower cases most; None if nothing helps."""
        knobs, cases = self._benchmark.knobs, confirmed.slower
        for settings in move_limits_towards(knobs, confirmed.settings, min(size for _, size in cases)):
            if self._is_late():
                return None
            if self._worst(settings, cases) >= self._never_below:
                return settings
        helps = min(self._never_below, min(confirmed.gains[case].value for case in cases) + MENDS)
        proposals = [without_parameter(knobs, confirmed.settings, name) for name in confirmed.settings]
        tried = [(self._worst(settings, cases), settings) for settings in proposals if settings]
        worst, best = max(tried, key=lambda one: one[0], default=(0.0, None))
        return best if worst >= helps else None

    def _worst(self, settings: Settings, cases: Sequence[Case]) -> float:
        """Returns the least gain of these cases; 0 if the settings cannot be used, or it is too late to measure."""
        launches: list[Launch] = []
        try:
            for _ in range(LOOKS):
                if self._is_late():
                    return 0.0
                launches += self._launch(settings, cases, PAIRS)
        except (UnusableSetting, Starved):
            return 0.0
        return min(gain.value for gain in self._judge(settings, launches).gains.values())


def _finalists(search: Search) -> list[Settings]:
    """Returns the winner of the play-off, then the settings with the smallest loss anywhere, then the next best by
    score, which tend to fail at the same sizes as the winner."""
    others = search.gaining()
    if not search.winner:
        return []
    safest = max(others, key=lambda trial: min(gain.value for gain in trial.gains.values()), default=None)
    order = [search.winner, *([safest.settings] if safest else []), *(trial.settings for trial in others)]
    return [settings for at, settings in enumerate(order) if settings not in order[:at]][:FINALISTS]


def _merge_pairs(launches: Sequence[Launch]) -> dict[Case, list[Pair]]:
    """Returns the pairs of all launches, numbered by their launch, since launches come from several sittings."""
    found: dict[Case, list[Pair]] = defaultdict(list)
    for number, launch in enumerate(launches):
        for case, pairs in launch.items():
            found[case] += [pair._replace(launch=number) for pair in pairs]
    return found


def _interval(confirmed: ConfirmedGains) -> str:
    mean = confirmed.mean
    return f"{mean.value:.2f}x ({mean.low:.2f} to {mean.high:.2f})"
