"""Confirms the settings that a search found: measures them at every message size and in several launches, before they
become a rule."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from nearfield.base.units import counted
from nearfield.rules.criterion import MAX_NOISE_LOSS, MAX_RANDOM_LOSSES, MIN_GAIN, MIN_REPORTED_GAIN, find_violations
from nearfield.rules.gains import (
    MIN_CONFIRMING_LAUNCHES,
    MIN_LAUNCHES,
    BenchmarkCase,
    TimePair,
    geometric_mean,
    is_same_distance,
    pairs_in_dominant_placement,
)
from nearfield.rules.knobs import Settings
from nearfield.tune.confirmed import ConfirmedGains
from nearfield.tune.paired_benchmark import PairedBenchmark
from nearfield.tune.paired_runs import UnusableSetting
from nearfield.tune.satisfy_constraints import variants_closer_to_default, without_parameter
from nearfield.tune.search import Deadline, Search, settings_key
from nearfield.tune.starved import JobStarved, OutOfTime

MAX_FINALISTS = 6
MAX_REPAIRED_FINALISTS = 2  # max number of finalists, slower in some case, that are repaired
MAX_PLACEMENT_WAIT_SHARE = 0.25  # max fraction of the phase's time to wait for the cores' usual placement
MIN_REPAIR_IMPROVEMENT = 0.05  # required improvement of the worst case, as a fraction of the baseline's speed
PAIRS_PER_LAUNCH = 1  # pairs of times per case and launch: one, since launches vary more than pairs within a launch
MAX_LAUNCHES_PER_SETTING = 9  # max launches of one setting in a session, while a loss or the gain is inconclusive
NUM_REPAIR_LAUNCHES = 3  # number of launches that measure the slower cases with a repaired setting

# case -> pairs of times from one launch of the baseline's and the setting's job
LaunchPairs = Mapping[BenchmarkCase, Sequence[TimePair]]


class InconclusiveVerdict(Exception):
    """The verdict on a finalist is inconclusive; the message gives the reason."""


# The step with which a resumed tune continues a distance without a verdict. "confirming" measures the inconclusive
# finalists again. "searching" looks for other finalists, because all were judged. "anew" starts the distance from
# scratch, because trials on a busy machine do not show that nothing gains.
NextTuneStep = Literal["confirming", "searching", "anew"]


@dataclass(frozen=True)
class ConfirmationOutcome:
    """The verdict on one core distance. If `confirmed_gains` is set, the verdict is a rule. Otherwise, `next_step` is
    None if the MPI's defaults are best, and the next step if nothing is decided. `reason` explains why there is no
    rule. `best_trial_summary` summarises what an undecided search has measured."""

    confirmed_gains: ConfirmedGains | None = None
    reason: str = ""
    next_step: NextTuneStep | None = None
    best_trial_summary: str = ""


class Confirmation:
    """Measures the finalists of one search again, in several launches and at every message size, and selects the one
    that becomes a rule. Call `run` only once."""

    def __init__(
        self,
        benchmark: PairedBenchmark,
        search: Search,
        cases: Sequence[BenchmarkCase],
        range_limits_bytes: Sequence[int],
        deadline: Deadline,
        min_gain: float = MIN_GAIN,
        *,
        earlier_launches: Iterable[tuple[Settings, LaunchPairs]] = (),
        on_launch: Callable[[Settings, LaunchPairs], None] = lambda settings, launch: None,
        is_machine_busy: bool = False,
    ) -> None:
        """`range_limits_bytes` are ascending sizes in bytes that divide the message sizes into ranges; a gain in one of
        the ranges suffices for a rule (`has_gain_in_a_range`). `earlier_launches` are the launches of an earlier
        session. `on_launch` is called with every new launch. If `is_machine_busy` (other programs used the cores during
        the search), trials without a gain do not prove that the settings have none."""
        self._benchmark, self._search, self._cases = benchmark, search, cases
        self._range_limits_bytes, self._deadline = range_limits_bytes, deadline
        self._min_allowed_gain, self._on_launch, self._is_machine_busy = min_gain, on_launch, is_machine_busy
        # launches that suffice for a verdict on a setting after the deadline
        self._min_launches = MIN_CONFIRMING_LAUNCHES if is_machine_busy else MIN_LAUNCHES
        self._launches_by_settings: dict[object, list[LaunchPairs]] = defaultdict(list)
        for settings, launch in earlier_launches:
            self._launches_by_settings[settings_key(settings)].append(launch)

    def run(self) -> ConfirmationOutcome:
        """Confirms the finalists, the search's winner first. Returns the first that is significantly faster in some
        case and slower in none. If all finalists were judged and none passed, returns that the defaults are best. If a
        finalist is slower in a case, the next finalist is a repaired copy, in which the responsible parameter is
        changed or reset."""
        waiting, refused, doubts = _select_finalists(self._search), [], []
        proposed, judged = list(waiting), 0
        while waiting and not (judged and self._is_out_of_time()):  # after the deadline, one judged finalist suffices
            settings = waiting.pop(0)
            judged += 1
            self._wait_for_usual_placement()
            try:
                confirmed = self._confirm(settings)
            except UnusableSetting as error:
                self._search.record_unusable_settings(settings, error.message)
                refused.append(error.message)
                continue
            except InconclusiveVerdict as error:
                doubts.append(str(error))
                continue
            if not confirmed.slower_cases:
                if confirmed.has_gain_in_a_range(self._range_limits_bytes, judged):
                    return ConfirmationOutcome(confirmed)
                if confirmed.may_gain:
                    doubts.append(f"a gain of {_format_interval(confirmed)} is not significant")
                continue
            refused.append(confirmed.describe_worst_loss)
            if len(refused) > MAX_REPAIRED_FINALISTS or self._is_out_of_time():
                continue
            repaired = self._find_repaired_settings(confirmed)
            if repaired and repaired not in proposed and not self._search.rejection_reason(repaired):
                waiting.insert(0, repaired)
                proposed.append(repaired)
        if waiting:
            was = "was" if len(waiting) == 1 else "were"
            doubts.append(f"{counted(len(waiting), 'more finalist')} of the search {was} not confirmed")
        return self._outcome_without_rule(refused, doubts)

    def _outcome_without_rule(self, refusal_reasons: list[str], doubts: list[str]) -> ConfirmationOutcome:
        """Returns the outcome if no finalist became a rule: the defaults are best only if no verdict is in doubt.
        `refusal_reasons` has the reasons why finalists were rejected, and `doubts` the reasons why verdicts are
        inconclusive."""
        goes_on: NextTuneStep = "confirming" if doubts else "anew" if self._is_machine_busy else "searching"
        tried = [trial for trial in self._search.trials if trial.settings]
        if self._deadline.is_interrupted:
            doubts.insert(0, f"the search was interrupted{'' if tried else ' before anything was tried'}")
        elif not tried:
            doubts.append("there was no time to try anything")
        elif self._search.num_untried and not doubts:
            doubts.append(f"there was no time for {self._search.num_untried} of the settings that were to be tried")
        if doubts or self._is_machine_busy:
            doubts = doubts or ["no setting was significantly faster, but a gain may be hidden by the noise"]
            return ConfirmationOutcome(
                None, "; ".join([*doubts, *refusal_reasons[:1]]), goes_on, self._describe_best_trial()
            )
        return ConfirmationOutcome(None, "; ".join(refusal_reasons) or "nothing was faster than the defaults")

    def _describe_best_trial(self) -> str:
        """Returns the largest gain of any trial, as human-readable text; empty if no gain is large enough to be
        reported."""
        gained = self._search.gaining_trials()
        largest = max((geometric_mean(trial.gains.values()).value for trial in gained), default=1.0)
        if largest < MIN_REPORTED_GAIN:
            return ""
        tried = sum(trial.state == "measured" for trial in self._search.trials)
        what = f"the best of {tried} settings" if tried > 1 else "one setting"
        return f"{what} measured {largest:.2f}x, but was not confirmed"

    def _wait_for_usual_placement(self) -> None:
        """Waits until the core-to-core latency is that of most trials, because gains must be confirmed in the placement
        of the cores where they were found. Gives up after a fraction of the phase's time."""
        usual_ns = median([trial.c2c_latency_ns for trial in self._search.trials if trial.c2c_latency_ns] or [0.0])
        waiting = Deadline(MAX_PLACEMENT_WAIT_SHARE * self._deadline.soft_limit_s)
        while (
            usual_ns
            and not (waiting.has_passed() or self._deadline.has_passed())
            and not is_same_distance(self._benchmark.measure_c2c_latency_ns(), usual_ns)
        ):
            time.sleep(0.2)

    def _confirm(self, settings: Settings) -> ConfirmedGains:
        """Measures all cases of a setting in six launches (in at least three if the deadline has passed and the machine
        is quiet), and inconclusive cases in up to three more. Launches of an earlier session count. Uses only pairs
        from the dominant placement of the cores; for a case without such pairs, uses its other pairs. Returns the
        gains. Raises NotDecided if the time ends too early, or if a case could not be measured in any placement, and
        UnusableSetting if the settings fail."""
        launches = self._launches_by_settings[settings_key(settings)]
        wanted = self._cases_to_measure(settings, launches)
        for _ in range(MAX_LAUNCHES_PER_SETTING):
            if wanted:
                self._measure_another_launch(settings, wanted, launches)
            confirmed = self._compute_gains(settings, launches)
            if self._deadline.is_interrupted or not (wanted := self._cases_to_measure(settings, launches)):
                break
            if self._deadline.has_passed_hard_end():
                if self._count_complete_launches(launches) < self._min_launches:
                    raise InconclusiveVerdict(self._describe_missing_launches(launches))
                break
        found = _merge_pairs(launches)
        if len(confirmed.gains) < len(self._cases):
            confirmed = ConfirmedGains.from_pairs(
                settings, found | pairs_in_dominant_placement(found), self._min_allowed_gain
            )
        if not self._count_complete_launches(launches):
            raise InconclusiveVerdict(self._describe_missing_launches(launches))
        if not all(found[case] for case in self._cases):
            raise InconclusiveVerdict("a setting was not measured at every size while the cores stayed where they were")
        return confirmed

    def _count_complete_launches(self, launches: Sequence[LaunchPairs]) -> int:
        """Returns the number of launches in which every case was measured."""
        return min(sum(case in launch for launch in launches) for case in self._cases)

    def _cases_to_measure(self, settings: Settings, launches: Sequence[LaunchPairs]) -> Sequence[BenchmarkCase]:
        """Returns the cases to measure in the next launch; empty if the settings can be judged."""
        if not (complete := self._count_complete_launches(launches)):
            return [case for case in self._cases if not any(case in launch for launch in launches)]
        confirmed = self._compute_gains(settings, launches)
        if self._is_hopeless(confirmed, complete):
            return []
        if complete < MIN_CONFIRMING_LAUNCHES:
            return [case for case in self._cases if sum(case in launch for launch in launches) == complete]
        unsure = (
            confirmed.may_gain
            and not confirmed.slower_cases
            and not confirmed.has_gain_in_a_range(self._range_limits_bytes)
        )
        return self._cases if unsure else self._inconclusive_cases(confirmed)

    def _measure_another_launch(
        self, settings: Settings, cases: Sequence[BenchmarkCase], launches: list[LaunchPairs]
    ) -> None:
        """Measures the cases in one more launch. If the launch is starved of CPU time, the cases that it completed
        count, and the next launch measures the others. Raises NotDecided if the time does not suffice for another
        launch."""
        try:
            for launch in self._measure_launch(settings, cases, PAIRS_PER_LAUNCH):
                launches.append(launch)
                self._on_launch(settings, launch)
        except JobStarved as error:
            if isinstance(error, OutOfTime) or self._is_out_of_time():
                raise InconclusiveVerdict(self._describe_missing_launches(launches)) from error

    def _describe_missing_launches(self, launches: Sequence[LaunchPairs]) -> str:
        needed = (
            f"{self._min_launches} to {MIN_CONFIRMING_LAUNCHES}"
            if not self._is_machine_busy
            else MIN_CONFIRMING_LAUNCHES
        )
        complete = self._count_complete_launches(launches)
        return f"only {complete} of the {needed} launches that confirm a setting had measured every size"

    def _compute_gains(self, settings: Settings, launches: Sequence[LaunchPairs]) -> ConfirmedGains:
        return ConfirmedGains.from_pairs(
            settings, pairs_in_dominant_placement(_merge_pairs(launches)), self._min_allowed_gain
        )

    def _measure_launch(
        self, settings: Settings, cases: Sequence[BenchmarkCase], num_pairs: int
    ) -> Iterator[LaunchPairs]:
        """Launches both jobs afresh, measures `num_pairs` pairs of each case and yields them. If a job is starved of
        CPU time, yields the completed cases and then raises JobStarved."""
        self._benchmark.end_baseline_job()
        measured: LaunchPairs = {}
        try:
            with self._benchmark.compare_with_baseline(settings, cases) as comparison:
                measured = comparison.pairs_by_case
                comparison.measure(num_pairs)
        except JobStarved:
            if measured:
                yield measured
            raise
        yield measured

    def _inconclusive_cases(self, confirmed: ConfirmedGains) -> list[BenchmarkCase]:
        """Returns the cases that are probably slower than allowed, and the cases with too few launches in the dominant
        placement of the cores."""
        launches = {case: {pair.launch_number for pair in confirmed.pairs.get(case, [])} for case in self._cases}
        few = [case for case in self._cases if len(launches[case]) < MIN_LAUNCHES]
        return list(dict.fromkeys([*(loss.case for loss in confirmed.loss_verdicts), *few]))

    def _is_hopeless(self, confirmed: ConfirmedGains, num_launches: int) -> bool:
        """Returns whether more cases are far below their limit (see `Verdict`) than chance can explain. If the machine
        is busy, always returns False before the minimum number of launches."""
        if self._is_machine_busy and num_launches < self._min_launches:
            return False
        return len(find_violations(confirmed.gains, self._min_allowed_gain - MAX_NOISE_LOSS)) > MAX_RANDOM_LOSSES

    def _is_out_of_time(self) -> bool:
        return self._deadline.is_interrupted or self._deadline.has_passed_hard_end()

    def _find_repaired_settings(self, confirmed: ConfirmedGains) -> Settings | None:
        """Returns settings that avoid the losses: the smallest change of one parameter towards its default after which
        no case is slower; otherwise the settings without the parameter whose removal helps the slower cases most.
        Returns None if nothing helps."""
        knobs, cases = self._benchmark.knobs, confirmed.slower_cases
        for settings in variants_closer_to_default(knobs, confirmed.settings, min(size for _, size in cases)):
            if self._is_out_of_time():
                return None
            if self._measure_min_gain(settings, cases) >= self._min_allowed_gain:
                return settings
        enough = min(
            self._min_allowed_gain, min(confirmed.gains[case].value for case in cases) + MIN_REPAIR_IMPROVEMENT
        )
        proposals = [without_parameter(knobs, confirmed.settings, name) for name in confirmed.settings]
        tried = [(self._measure_min_gain(settings, cases), settings) for settings in proposals if settings]
        gain, best = max(tried, key=lambda one: one[0], default=(0.0, None))
        return best if gain >= enough else None

    def _measure_min_gain(self, settings: Settings, cases: Sequence[BenchmarkCase]) -> float:
        """Measures the cases in NUM_REPAIR_LAUNCHES launches. Returns the smallest gain; 0 if the settings cannot be
        used, or if the deadline has passed."""
        launches: list[LaunchPairs] = []
        try:
            for _ in range(NUM_REPAIR_LAUNCHES):
                if self._is_out_of_time():
                    return 0.0
                launches += self._measure_launch(settings, cases, PAIRS_PER_LAUNCH)
        except (UnusableSetting, JobStarved):
            return 0.0
        return min(gain.value for gain in self._compute_gains(settings, launches).gains.values())


def _select_finalists(search: Search) -> list[Settings]:
    """Returns the winner of the play-off, then the settings whose worst case is best, then the others by score. The
    others come last because they tend to lose at the same sizes as the winner."""
    others = search.gaining_trials()
    if not search.winner:
        return []
    safest = max(others, key=lambda trial: min(gain.value for gain in trial.gains.values()), default=None)
    order = [search.winner, *([safest.settings] if safest else []), *(trial.settings for trial in others)]
    return [settings for at, settings in enumerate(order) if settings not in order[:at]][:MAX_FINALISTS]


def _merge_pairs(launches: Sequence[LaunchPairs]) -> dict[BenchmarkCase, list[TimePair]]:
    """Returns the pairs of all launches by case. Renumbers the launches, because numbers of different sessions
    collide."""
    found: dict[BenchmarkCase, list[TimePair]] = defaultdict(list)
    for number, launch in enumerate(launches):
        for case, pairs in launch.items():
            found[case] += [pair._replace(launch_number=number) for pair in pairs]
    return found


def _format_interval(confirmed: ConfirmedGains) -> str:
    mean = confirmed.mean_gain
    return f"{mean.value:.2f}x ({mean.low:.2f} to {mean.high:.2f})"
