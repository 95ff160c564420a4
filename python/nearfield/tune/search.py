"""Searches for the settings with the largest gain: first the candidates of the model, then Optuna's proposals, each
measured against the baseline.

Settings with which the MPI does not start, hangs or corrupts data are recorded and not tried again. Settings whose job
other programs starved of CPU time are not recorded and may be tried again. If a half-measured setting is worse than the
median of earlier ones, its trial is pruned. At the end, the best settings are compared with each other. Every parameter
of the winner that gains nothing is reset to its default, so that a rule contains only parameters that matter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nearfield.base.paired import Gain
from nearfield.rules.criterion import (
    BORDERLINE_MARGIN,
    MAX_RANDOM_LOSSES,
    MIN_GAIN,
    MIN_PARAMETER_SCORE,
    MIN_PARAMETER_SCORE_SHARE,
    REJECTION_PENALTY,
    SEARCH_SIZES,
    find_violations,
    search_cases,
    search_score,
)
from nearfield.rules.gains import (
    LATENCY_CLASS_BORDERS_NS,
    BenchmarkCase,
    dominant_latency_ns,
    is_same_distance,
    latency_class_of,
)
from nearfield.rules.knobs import ALL_SIZES, NO_SIZES, KnobFile, KnobValue, Settings
from nearfield.tune.model import heap_only_settings
from nearfield.tune.paired_benchmark import PairedBenchmark, PairedComparison, ReferenceFailed
from nearfield.tune.paired_runs import UnusableSetting
from nearfield.tune.satisfy_constraints import iterate_grid_settings, satisfy_constraints
from nearfield.tune.size_ranges import find_faster_size_ranges
from nearfield.tune.starved import JobStarved

if TYPE_CHECKING:
    import optuna

INITIAL_SIZE_STEP = 2  # step: every second size is measured before a trial may be pruned
NUM_EXTRA_PAIRS = 6  # extra pairs for a case that looks too slow, since among many cases a few do by chance
NUM_PLAY_OFF_FINALISTS = 3  # number of best settings that the play-off compares with each other
PLAY_OFF_PAIRS_PER_CASE = 3  # pairs per case in a comparison of the play-off
MIN_CREDIBLE_GAIN = 0.1  # fraction of the baseline's speed, so low that no credible gain is below it
# What proposed the settings of a trial: the cost model, the search, or the grid of all settings.
TrialSource = Literal["model", "search", "grid"]
TrialState = Literal["measured", "left", "unfit", "refused", "starved"]


@dataclass
class Trial:
    """Settings that were tried, and the outcome of the trial."""

    settings: Settings
    origin: TrialSource
    state: TrialState = "measured"
    score: float = float("-inf")
    gains: dict[BenchmarkCase, Gain] = field(default_factory=dict)
    c2c_latency_ns: float = 0.0  # median core-to-core latency during the trial
    reason: str = ""


class Deadline:
    """A soft end for a phase's work, a hard end, and whether the user has interrupted the work."""

    def __init__(self, soft_limit_s: float, hard_end_s: float | None = None) -> None:
        """`soft_limit_s` from now is the soft end. `hard_end_s` is the hard end on the monotonic clock, by default
        equal to the soft end."""
        self.start = time.monotonic()
        self.soft_limit_s = soft_limit_s
        self.latest = self.start + soft_limit_s if hard_end_s is None else hard_end_s
        self.is_interrupted = False

    def has_passed(self) -> bool:
        return self.is_interrupted or time.monotonic() - self.start > self.soft_limit_s

    def has_passed_hard_end(self) -> bool:
        return time.monotonic() > self.latest


class Search:
    """Searches settings on one pair of cores. Call `run` or `run_grid`, then `rank_finalists`, each with its own
    deadline."""

    def __init__(
        self,
        benchmark: PairedBenchmark,
        on_trial: Callable[[Trial], None],
        *,
        cases: Sequence[BenchmarkCase] = tuple(search_cases(SEARCH_SIZES)),
        get_rejection_reason: Callable[[Settings], str | None] = lambda settings: None,
        min_gain: float = MIN_GAIN,
        earlier_trials: Iterable[Trial] = (),
        is_machine_busy: bool = False,
    ) -> None:
        """`get_rejection_reason` returns the reason why settings must not be tried, or None. `min_gain` is a fraction
        of the baseline's speed. `earlier_trials` are trials of an earlier session: their results are reused instead of
        measuring the same settings again. If `is_machine_busy` (other programs use the cores), losses in single cases
        are attributed to chance and ignored."""
        self._benchmark, self._on_trial, self._cases, self._refused = benchmark, on_trial, cases, get_rejection_reason
        self._never_below = MIN_CREDIBLE_GAIN if is_machine_busy else min_gain
        self.winner: Settings | None = None
        self.num_untried = 0  # number of model candidates, or grid combinations, that the time did not suffice for
        self._sizes_of_heap: Settings = {}
        self._known = {settings_key(trial.settings): trial for trial in earlier_trials}
        for trial in self.trials:
            trial.score = self._score(trial)

    @property
    def trials(self) -> list[Trial]:
        return list(self._known.values())

    def trials_best_first(self) -> list[Trial]:
        """Returns the measured trials, best score first. If any were measured at the current core-to-core latency,
        returns only those."""
        measured = [trial for trial in self.trials if trial.state == "measured"]
        if not measured:
            return []
        pairs = self._benchmark.all_pairs
        now_ns = pairs[-1].c2c_latency_ns if pairs else self._benchmark.measure_c2c_latency_ns()
        in_place = [trial for trial in measured if is_same_distance(trial.c2c_latency_ns, now_ns)]
        return sorted(in_place or measured, key=lambda trial: trial.score, reverse=True)

    def gaining_trials(self) -> list[Trial]:
        """Returns the trials with a gain, best score first: those measured at the current core-to-core latency, then
        the others. The overall best trial comes second, because it may gain at the current latency, too."""
        gained = [trial for trial in self.trials if trial.settings and trial.score > 0 and trial.state == "measured"]
        anywhere = sorted(gained, key=lambda trial: trial.score, reverse=True)
        in_place = [trial for trial in self.trials_best_first() if trial in gained]
        order = [*in_place[:1], *anywhere[:1], *in_place[1:], *anywhere[1:]]
        return [trial for at, trial in enumerate(order) if trial not in order[:at]]

    def rejection_reason(self, settings: Settings) -> str | None:
        """Returns the reason why these settings must not be tried, such as a violated constraint that `nearfield run`
        would reject; None if they may be tried."""
        return next(iter(self._benchmark.knobs.find_problems(settings)), None) or self._refused(settings)

    def find_best_heap_settings(self, deadline: Deadline) -> Settings:
        """Returns the best settings of the shared heap at the current core-to-core latency: the message sizes to copy
        with streaming stores, and those that sender and receiver copy together. Measures each mechanism for no size and
        for all sizes. Returns {} if the heap cannot be used, or if the deadline has passed."""
        knobs = self._benchmark.knobs
        sizes = {self._current_streaming_role(): NO_SIZES, "cooperative_copy": NO_SIZES}
        plain = self._try_heap(sizes, deadline)
        if plain is None or plain.state != "measured":
            return {}
        for role in list(sizes):
            always = self._try_heap(dict.fromkeys(sizes, NO_SIZES) | {role: ALL_SIZES}, deadline)
            if always and always.state == "measured" and is_same_distance(plain.c2c_latency_ns, always.c2c_latency_ns):
                sizes[role] = find_faster_size_ranges(plain.gains, always.gains)
        composed = self._try_heap(sizes, deadline)
        best = composed if composed and composed.state == "measured" else plain
        self._sizes_of_heap = {name: value for name, value in best.settings.items() if knobs[name].type == "sizes"}
        return best.settings

    def _current_streaming_role(self) -> str:
        """Returns the role of the knob that enables streaming stores at the current core-to-core latency: "stream" or
        "stream_when_far"."""
        is_far = latency_class_of(self._benchmark.measure_c2c_latency_ns()) == len(LATENCY_CLASS_BORDERS_NS)
        return "stream_when_far" if is_far else "stream"

    def _try_heap(self, sizes_by_role: Mapping[str, str], deadline: Deadline) -> Trial | None:
        settings = heap_only_settings(self._benchmark.knobs, sizes_by_role)
        trial = self._try_settings(settings, "model") if settings and not deadline.has_passed() else None
        self.num_untried += bool(settings) and (trial is None or trial.state == "starved")
        return trial

    def run(self, first_candidates: Sequence[Settings], deadline: Deadline) -> None:
        """Tries the candidates `first_candidates`, then Optuna's proposals until the deadline."""
        import optuna  # the import takes half a second

        knobs = self._benchmark.knobs
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=20100315, multivariate=True, n_startup_trials=len(first_candidates) + 8
        )
        pruner = optuna.pruners.MedianPruner(n_startup_trials=6)
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        for settings in first_candidates:
            study.enqueue_trial(_to_optuna_parameters(knobs, settings))
        self.num_untried += len(first_candidates)
        for number in range(10_000):
            if deadline.has_passed():
                return
            optuna_trial = study.ask()
            settings = satisfy_constraints(knobs, _suggest_settings(knobs, optuna_trial, self._sizes_of_heap))
            trial = self._try_settings(settings, "model" if number < len(first_candidates) else "search", optuna_trial)
            self.num_untried -= number < len(first_candidates) and trial.state != "starved"
            has_score = trial.state in ("measured", "left")
            state = None if has_score else optuna.trial.TrialState.FAIL
            study.tell(optuna_trial, trial.score if has_score else None, state)

    def run_grid(self, deadline: Deadline) -> None:
        """Tries every combination of the knobs' grid values, as the tuner OTPO does, until the deadline."""
        waiting = list(iterate_grid_settings(self._benchmark.knobs))
        self.num_untried += len(waiting)
        for settings in waiting:
            if deadline.has_passed():
                return
            self.num_untried -= self._try_settings(settings, "grid").state != "starved"

    def rank_finalists(self, deadline: Deadline) -> None:
        """Compares the trials with the best scores with each other, because the largest of many noisy scores is partly
        chance. Then removes each parameter that gains nothing from the winner. Sets `winner`. If the winner fails,
        marks its settings as unfit and compares the other finalists again."""
        self.winner = None
        while finalists := self.gaining_trials()[:NUM_PLAY_OFF_FINALISTS]:
            try:
                best = self._find_best_finalist(finalists, deadline)
                self._remove_useless_parameters(best.score, deadline)
                return
            except ReferenceFailed as error:
                assert self.winner
                self.record_unusable_settings(self.winner, error.message)
                self.winner = None

    def _find_best_finalist(self, finalists: Sequence[Trial], deadline: Deadline) -> Trial:
        best = finalists[0]
        self.winner = best.settings
        for trial in finalists[1:]:
            # At equal gain, settings with fewer parameters win.
            margin = MIN_PARAMETER_SCORE if len(trial.settings) > len(best.settings) else -MIN_PARAMETER_SCORE
            if self._is_faster(trial.settings, margin, deadline):
                best, self.winner = trial, trial.settings
        return best

    def _remove_useless_parameters(self, winner_score: float, deadline: Deadline) -> None:
        """Removes from the winner each parameter that gains nothing, or sets it to the smallest value that the
        constraints of the other parameters allow. `winner_score` is the winner's score. Parameters on the left side of
        a constraint come last, because the parameters that depend on them may be gone by then."""
        assert self.winner
        lost = min(MIN_PARAMETER_SCORE, MIN_PARAMETER_SCORE_SHARE * winner_score)
        needed = {rule.split()[0] for rule in self._benchmark.knobs.constraints}
        for name in sorted(self.winner, key=lambda name: name in needed):
            without = satisfy_constraints(self._benchmark.knobs, {k: v for k, v in self.winner.items() if k != name})
            if without not in ({}, self.winner) and self._is_faster(without, -lost, deadline):
                self.winner = without

    def _is_faster(self, settings: Settings, margin: float, deadline: Deadline) -> bool:
        """Returns whether the settings' score exceeds that of the current winner by more than `margin`; False if the
        settings cannot be measured, or if the deadline has passed. Raises ReferenceFailed if the winner fails."""
        assert self.winner
        trial = self._known.get(settings_key(settings))
        if deadline.has_passed() or self.rejection_reason(settings) or (trial and trial.state == "unfit"):
            return False
        try:
            return (
                self._benchmark.compare_with_reference(self.winner, settings, self._cases, PLAY_OFF_PAIRS_PER_CASE)
                > margin
            )
        except UnusableSetting as error:
            self.record_unusable_settings(settings, error.message)
        except JobStarved:
            pass
        return False

    def record_unusable_settings(self, settings: Settings, reason: str) -> None:
        """Marks settings as unfit, also if an earlier trial measured them successfully."""
        trial = self._known.setdefault(settings_key(settings), Trial(settings, "search"))
        trial.state, trial.reason, trial.score = "unfit", reason, float("-inf")
        self._on_trial(trial)

    def _try_settings(self, settings: Settings, origin: TrialSource, optuna_trial: optuna.Trial | None = None) -> Trial:
        """Returns the trial of these settings. Measures the settings if no earlier trial did. A trial that was starved
        of CPU time is returned, but not recorded."""
        key = settings_key(settings)
        if key not in self._known:
            trial = self._measure_trial(Trial(settings, origin), optuna_trial)
            if trial.state == "starved":
                return trial
            self._known[key] = trial
            self._on_trial(trial)
        elif optuna_trial and (gains := self._known[key].gains):
            initial = {case: gain for case, gain in gains.items() if case[1] in self._sizes_before_pruning()}
            # the intermediate score by which Optuna prunes trials
            optuna_trial.report(search_score(initial or gains, self._never_below), 0)
        return self._known[key]

    def _sizes_before_pruning(self) -> set[int]:
        """Returns the message sizes that are measured before a trial may be pruned."""
        return set(sorted({size for _, size in self._cases})[::INITIAL_SIZE_STEP])

    def _score(self, trial: Trial) -> float:
        """Returns the score of a trial, over all cases that were measured; -inf without measurements. The score of a
        pruned trial covers only the initial sizes."""
        if trial.state not in ("measured", "left"):
            return float("-inf")
        refused = trial.state == "measured" and find_violations(trial.gains, self._never_below - BORDERLINE_MARGIN)
        return search_score(trial.gains, self._never_below) - (REJECTION_PENALTY if refused else 0.0)

    def _measure_trial(self, trial: Trial, optuna_trial: optuna.Trial | None) -> Trial:
        if reason := self.rejection_reason(trial.settings):
            trial.state, trial.reason = "refused", reason
            return trial
        whole: PairedComparison | None = None  # set once every case was measured at least once
        try:
            with self._benchmark.compare_with_baseline(trial.settings, self._cases) as comparison:
                initial = self._sizes_before_pruning()
                comparison.measure(1, [case for case in comparison.cases if case[1] in initial])
                trial.score = search_score(comparison.gains(), self._never_below)
                if optuna_trial:
                    optuna_trial.report(trial.score, 0)
                    if optuna_trial.should_prune():
                        trial.state, trial.gains = "left", comparison.gains()
                        return trial
                comparison.measure(1, [case for case in comparison.cases if case[1] not in initial])
                whole = comparison
                comparison.measure(1)
                comparison.measure(
                    NUM_EXTRA_PAIRS, [loss.case for loss in find_violations(comparison.gains(), self._never_below)]
                )
            trial.gains, trial.c2c_latency_ns = whole.gains(), dominant_latency_ns(whole.pairs_by_case)
            self._remeasure_slow_cases(trial)
            trial.score = self._score(trial)
        except JobStarved as error:
            if whole is None:
                return Trial(trial.settings, trial.origin, "starved", reason=error.message)
            trial.gains, trial.c2c_latency_ns = whole.gains(), dominant_latency_ns(whole.pairs_by_case)
            trial.score = self._score(trial)
        except UnusableSetting as error:
            trial.state, trial.reason = "unfit", error.message
        return trial

    def _remeasure_slow_cases(self, trial: Trial) -> None:
        """Measures the cases that look too slow again with freshly launched jobs, if there are only a few such cases.
        Launches vary by chance (up to 10 % at some sizes), and an unusually fast baseline job would make every setting
        look slow."""
        cases = [loss.case for loss in find_violations(trial.gains, self._never_below)]
        if not 0 < len(cases) <= MAX_RANDOM_LOSSES:
            return
        self._benchmark.end_baseline_job()
        with self._benchmark.compare_with_baseline(trial.settings, cases) as comparison:
            comparison.measure(NUM_EXTRA_PAIRS)
            if is_same_distance(dominant_latency_ns(comparison.pairs_by_case), trial.c2c_latency_ns):
                trial.gains |= {
                    case: _gain_closer_to_one(trial.gains[case], gain) for case, gain in comparison.gains().items()
                }


def _gain_closer_to_one(gain: Gain, second: Gain) -> Gain:
    """Returns the gain that is closer to 1. A gain or loss that appears in only one of two launches is attributed to
    chance."""
    return min(gain, second, key=lambda gain: abs(math.log(gain.value)))


def settings_key(settings: Settings) -> tuple[tuple[str, KnobValue], ...]:
    """Returns the settings as a hashable key: (knob, value) pairs sorted by name."""
    return tuple(sorted(settings.items()))


def _suggest_settings(knobs: KnobFile, optuna_trial: optuna.Trial, sizes: Settings) -> Settings:
    """Returns the settings that Optuna suggests. `sizes` holds the values of knobs of type "sizes", which Optuna does
    not search."""
    settings: Settings = {}
    for knob in knobs.knob:
        choices = knob.search_values()
        if knob.type == "sizes":
            settings[knob.name] = sizes.get(knob.name, knob.default)
        elif knob.type == "choice":
            settings[knob.name] = str(optuna_trial.suggest_categorical(knob.name, choices))
        else:  # the index of a power of two, so that the sampler sees which values are close to each other
            settings[knob.name] = choices[optuna_trial.suggest_int(knob.name, 0, len(choices) - 1)]
    return settings


def _to_optuna_parameters(knobs: KnobFile, settings: Settings) -> dict[str, KnobValue]:
    """Returns the parameters of an Optuna trial for which `_suggest_settings` returns these settings."""
    searched = [knob for knob in knobs.knob if knob.type != "sizes"]
    values = [(knob, settings.get(knob.name, knob.default)) for knob in searched]
    return {k.name: value if k.type == "choice" else k.search_values().index(value) for k, value in values}
