"""Finds the settings that gain most: those of the model first, then Optuna's, each measured against the baseline.

Settings with which the MPI does not start, hangs or damages data are noted and avoided. A setting that other programs
kept from running is not known afterwards, and may be tried again. A half-measured setting that is
worse than half of those before it is left. At the end the best duel with each other, and every parameter that gains
nothing is put back to its default, so that a rule holds only what matters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nearfield.base.paired import Gain
from nearfield.rules.criterion import (
    BORDERLINE,
    MAX_CHANCE_LOSSES,
    MIN_GAIN,
    REFUSAL,
    SIZES,
    WORTH,
    WORTH_SHARE,
    score,
    search_cases,
    violations,
)
from nearfield.rules.gains import DISTANCE_BORDERS_NS, Case, distance_class_of, dominant_latency, same_distance
from nearfield.rules.knobs import ALWAYS, NEVER, KnobFile, Settings, Value
from nearfield.tune.model import heap_alone
from nearfield.tune.paired_benchmark import Comparison, PairedBenchmark, ReferenceFailed
from nearfield.tune.paired_runs import UnusableSetting
from nearfield.tune.satisfy_constraints import satisfy, settings_grid
from nearfield.tune.size_ranges import faster_size_ranges
from nearfield.tune.starved import Starved

if TYPE_CHECKING:
    import optuna

FIRST_LOOK = 2  # every second size is measured before a setting may be left
AGAIN = 6  # pairs of a case that looks too slow, since a few of many do by chance
PLAY_OFF = 3  # settings that are compared with each other after the search
PASSES = 3  # pairs of each case in such a comparison
IGNORED = 0.1  # of the baseline's speed: a limit that no credible gain is below
Origin = Literal["model", "search", "grid"]
State = Literal["measured", "left", "unfit", "refused", "starved"]


@dataclass
class Trial:
    """One setting that was tried, and its outcome."""

    settings: Settings
    origin: Origin
    state: State = "measured"
    score: float = float("-inf")
    gains: dict[Case, Gain] = field(default_factory=dict)
    c2c_latency_ns: float = 0.0  # core-to-core latency during it
    reason: str = ""


class Deadline:
    """A time at which work should end, a latest one at which it must end, and whether the user has stopped it."""

    def __init__(self, seconds: float, latest: float | None = None) -> None:
        """`seconds` are from now; `latest` is a time of the monotonic clock, by default the same."""
        self.start = time.monotonic()
        self.seconds = seconds
        self.latest = self.start + seconds if latest is None else latest
        self.stopped = False

    def over(self) -> bool:
        return self.stopped or time.monotonic() - self.start > self.seconds

    def late(self) -> bool:
        return time.monotonic() > self.latest


class Search:
    """Searches settings on one pair of cores. Call `run` or `run_grid`, then `rank_finalists`, each with its
    deadline."""

    def __init__(
        self,
        benchmark: PairedBenchmark,
        on_trial: Callable[[Trial], None],
        *,
        cases: Sequence[Case] = tuple(search_cases(SIZES)),
        refused: Callable[[Settings], str | None] = lambda settings: None,
        never_below: float = MIN_GAIN,
        known: Iterable[Trial] = (),
        busy: bool = False,
    ) -> None:
        """`refused` returns why settings must not be tried, or None. `never_below` is a share of the baseline's speed.
        `known` are trials of an earlier sitting: the search takes their results instead of measuring the same settings
        again. `busy` says that other programs use the cores: then single losses are chance, and do not count."""
        self._benchmark, self._on_trial, self._cases, self._refused = benchmark, on_trial, cases, refused
        self._never_below = IGNORED if busy else never_below
        self.winner: Settings | None = None
        self.untried = 0  # settings of the model, or of the grid, for which there was no time
        self._sizes_of_heap: Settings = {}
        self._known = {settings_key(trial.settings): trial for trial in known}
        for trial in self.trials:
            trial.score = self._score(trial)

    @property
    def trials(self) -> list[Trial]:
        return list(self._known.values())

    def best_first(self) -> list[Trial]:
        """Returns the measured trials, best first; if possible only those with the present core-to-core latency."""
        measured = [trial for trial in self.trials if trial.state == "measured"]
        if not measured:
            return []
        pairs = self._benchmark.all_pairs
        now_ns = pairs[-1].c2c_latency_ns if pairs else self._benchmark.c2c_latency_ns()
        in_place = [trial for trial in measured if same_distance(trial.c2c_latency_ns, now_ns)]
        return sorted(in_place or measured, key=lambda trial: trial.score, reverse=True)

    def gaining(self) -> list[Trial]:
        """Returns the trials that gained, best first: those in the cores' present placement, then the others. The best
        of all placements comes second, because it may gain in the present one, too."""
        gained = [trial for trial in self.trials if trial.settings and trial.score > 0 and trial.state == "measured"]
        anywhere = sorted(gained, key=lambda trial: trial.score, reverse=True)
        in_place = [trial for trial in self.best_first() if trial in gained]
        order = [*in_place[:1], *anywhere[:1], *in_place[1:], *anywhere[1:]]
        return [trial for at, trial in enumerate(order) if trial not in order[:at]]

    def rejection_reason(self, settings: Settings) -> str | None:
        """Returns why these settings must not be tried, such as a broken constraint, which `nearfield run` would
        refuse; None if they may be tried."""
        return next(iter(self._benchmark.knobs.problems(settings)), None) or self._refused(settings)

    def select_heap_settings(self, deadline: Deadline) -> Settings:
        """Returns the best settings of the shared heap in the cores' present placement: the sizes that it copies by
        streaming stores, and those that both ends copy. Either is found by measurements with no size and with all
        sizes. Returns {} if the heap cannot be used, or if the time is over."""
        knobs = self._benchmark.knobs
        sizes = {self._streaming(): NEVER, "cooperative_copy": NEVER}
        plain = self._try_heap(sizes, deadline)
        if plain is None or plain.state != "measured":
            return {}
        for role in list(sizes):
            always = self._try_heap(dict.fromkeys(sizes, NEVER) | {role: ALWAYS}, deadline)
            if always and always.state == "measured" and same_distance(plain.c2c_latency_ns, always.c2c_latency_ns):
                sizes[role] = faster_size_ranges(plain.gains, always.gains)
        composed = self._try_heap(sizes, deadline)
        best = composed if composed and composed.state == "measured" else plain
        self._sizes_of_heap = {name: value for name, value in best.settings.items() if knobs[name].type == "sizes"}
        return best.settings

    def _streaming(self) -> str:
        """Returns the role of the knob for streaming that holds at the present core-to-core latency."""
        is_far = distance_class_of(self._benchmark.c2c_latency_ns()) == len(DISTANCE_BORDERS_NS)
        return "stream_when_far" if is_far else "stream"

    def _try_heap(self, sizes: Mapping[str, str], deadline: Deadline) -> Trial | None:
        settings = heap_alone(self._benchmark.knobs, sizes)
        trial = self._try(settings, "model") if settings and not deadline.over() else None
        self.untried += bool(settings) and (trial is None or trial.state == "starved")
        return trial

    def run(self, first: Sequence[Settings], deadline: Deadline) -> None:
        """Tries the model's candidates, then Optuna's until the time is over."""
        import optuna  # takes half a second

        knobs = self._benchmark.knobs
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=20100315, multivariate=True, n_startup_trials=len(first) + 8)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=6)
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        for settings in first:
            study.enqueue_trial(_as_parameters(knobs, settings))
        self.untried += len(first)
        for number in range(10_000):
            if deadline.over():
                return
            optuna_trial = study.ask()
            settings = satisfy(knobs, _suggest(knobs, optuna_trial, self._sizes_of_heap))
            trial = self._try(settings, "model" if number < len(first) else "search", optuna_trial)
            self.untried -= number < len(first) and trial.state != "starved"
            has_score = trial.state in ("measured", "left")
            state = None if has_score else optuna.trial.TrialState.FAIL
            study.tell(optuna_trial, trial.score if has_score else None, state)

    def run_grid(self, deadline: Deadline) -> None:
        """Tries every combination of the knobs' grids, as OTPO does, until the time is over."""
        waiting = list(settings_grid(self._benchmark.knobs))
        self.untried += len(waiting)
        for settings in waiting:
            if deadline.over():
                return
            self.untried -= self._try(settings, "grid").state != "starved"

    def rank_finalists(self, deadline: Deadline) -> None:
        """Compares the best trials by score with each other, because the best of many scores is partly chance. Then
        compares the winner with itself without each of its parameters. Sets `winner`. If the winner fails, it becomes
        unfit, and the comparison of the others begins anew."""
        self.winner = None
        while finalists := self.gaining()[:PLAY_OFF]:
            try:
                best = self._best_of(finalists, deadline)
                self._ablate(best.score, deadline)
                return
            except ReferenceFailed as error:
                assert self.winner
                self.record_unusable(self.winner, error.message)
                self.winner = None

    def _best_of(self, finalists: Sequence[Trial], deadline: Deadline) -> Trial:
        best = finalists[0]
        self.winner = best.settings
        for trial in finalists[1:]:
            # If settings are equally good, those with fewer parameters win.
            margin = WORTH if len(trial.settings) > len(best.settings) else -WORTH
            if self._is_faster(trial.settings, margin, deadline):
                best, self.winner = trial, trial.settings
        return best

    def _ablate(self, gained: float, deadline: Deadline) -> None:
        """Removes parameters that gain nothing from the winner, or sets them to the smallest value that the others
        need. Parameters on the left side of a constraint come last, because those that need them may be gone by
        then."""
        assert self.winner
        lost = min(WORTH, WORTH_SHARE * gained)
        needed = {rule.split()[0] for rule in self._benchmark.knobs.constraints}
        for name in sorted(self.winner, key=lambda name: name in needed):
            without = satisfy(self._benchmark.knobs, {k: v for k, v in self.winner.items() if k != name})
            if without not in ({}, self.winner) and self._is_faster(without, -lost, deadline):
                self.winner = without

    def _is_faster(self, settings: Settings, margin: float, deadline: Deadline) -> bool:
        """Returns whether the settings' score exceeds that of the winner so far by more than `margin`; False if that
        cannot be measured, or if the time is over. Raises ReferenceFailed if the winner fails."""
        assert self.winner
        trial = self._known.get(settings_key(settings))
        if deadline.over() or self.rejection_reason(settings) or (trial and trial.state == "unfit"):
            return False
        try:
            return self._benchmark.compare_with_reference(self.winner, settings, self._cases, PASSES) > margin
        except UnusableSetting as error:
            self.record_unusable(settings, error.message)
        except Starved:
            pass
        return False

    def record_unusable(self, settings: Settings, reason: str) -> None:
        """Marks settings as unfit, even if they were measured before and only fail now."""
        trial = self._known.setdefault(settings_key(settings), Trial(settings, "search"))
        trial.state, trial.reason, trial.score = "unfit", reason, float("-inf")
        self._on_trial(trial)

    def _try(self, settings: Settings, origin: Origin, optuna_trial: optuna.Trial | None = None) -> Trial:
        """Returns the trial of these settings, which are measured if there is none yet. A trial that other programs
        kept from running is returned, but not recorded."""
        key = settings_key(settings)
        if key not in self._known:
            trial = self._measure(Trial(settings, origin), optuna_trial)
            if trial.state == "starved":
                return trial
            self._known[key] = trial
            self._on_trial(trial)
        elif optuna_trial and (gains := self._known[key].gains):
            initial = {case: gain for case, gain in gains.items() if case[1] in self._initial_sizes()}
            optuna_trial.report(score(initial or gains, self._never_below), 0)  # the score by which others are left
        return self._known[key]

    def _initial_sizes(self) -> set[int]:
        """Returns the sizes that are measured before a setting may be left."""
        return set(sorted({size for _, size in self._cases})[::FIRST_LOOK])

    def _score(self, trial: Trial) -> float:
        """Returns the score of a trial. A trial that was left early is judged by its initial sizes."""
        if trial.state not in ("measured", "left"):
            return float("-inf")
        refused = trial.state == "measured" and violations(trial.gains, self._never_below - BORDERLINE)
        return score(trial.gains, self._never_below) - (REFUSAL if refused else 0.0)

    def _measure(self, trial: Trial, optuna_trial: optuna.Trial | None) -> Trial:
        if reason := self.rejection_reason(trial.settings):
            trial.state, trial.reason = "refused", reason
            return trial
        whole: Comparison | None = None  # with every case measured once
        try:
            with self._benchmark.compare_with_baseline(trial.settings, self._cases) as comparison:
                initial = self._initial_sizes()
                comparison.measure(1, [case for case in comparison.cases if case[1] in initial])
                trial.score = score(comparison.gains(), self._never_below)
                if optuna_trial:
                    optuna_trial.report(trial.score, 0)
                    if optuna_trial.should_prune():
                        trial.state, trial.gains = "left", comparison.gains()
                        return trial
                comparison.measure(1, [case for case in comparison.cases if case[1] not in initial])
                whole = comparison
                comparison.measure(1)
                comparison.measure(AGAIN, [loss.case for loss in violations(comparison.gains(), self._never_below)])
            trial.gains, trial.c2c_latency_ns = whole.gains(), dominant_latency(whole.found)
            self._remeasure(trial)
            trial.score = self._score(trial)
        except Starved as error:
            if whole is None:
                return Trial(trial.settings, trial.origin, "starved", reason=error.message)
            trial.gains, trial.c2c_latency_ns = whole.gains(), dominant_latency(whole.found)
            trial.score = self._score(trial)
        except UnusableSetting as error:
            trial.state, trial.reason = "unfit", error.message
        return trial

    def _remeasure(self, trial: Trial) -> None:
        """Measures the cases that are too slow in another launch of both jobs, if they are few. Launches differ by
        chance (by a tenth at some sizes), and an unusually fast baseline job would make every setting look slow."""
        cases = [loss.case for loss in violations(trial.gains, self._never_below)]
        if not 0 < len(cases) <= MAX_CHANCE_LOSSES:
            return
        self._benchmark.end_baseline()
        with self._benchmark.compare_with_baseline(trial.settings, cases) as comparison:
            comparison.measure(AGAIN)
            if same_distance(dominant_latency(comparison.found), trial.c2c_latency_ns):
                trial.gains |= {
                    case: _less_extreme(trial.gains[case], gain) for case, gain in comparison.gains().items()
                }


def _less_extreme(one: Gain, other: Gain) -> Gain:
    """Returns the gain that is nearer to 1, because a case that is slower or faster in only one launch is neither."""
    return min(one, other, key=lambda gain: abs(math.log(gain.value)))


def settings_key(settings: Settings) -> tuple[tuple[str, Value], ...]:
    """Returns the settings as a key of a dictionary."""
    return tuple(sorted(settings.items()))


def _suggest(knobs: KnobFile, optuna_trial: optuna.Trial, sizes: Settings) -> Settings:
    """Returns the settings that Optuna suggests. `sizes` holds the knobs of that type, which are not searched."""
    settings: Settings = {}
    for knob in knobs.knob:
        choices = knob.choices()
        if knob.type == "sizes":
            settings[knob.name] = sizes.get(knob.name, knob.default)
        elif knob.type == "choice":
            settings[knob.name] = str(optuna_trial.suggest_categorical(knob.name, choices))
        else:  # an index among the powers of two, so that the sampler knows which values are near each other
            settings[knob.name] = choices[optuna_trial.suggest_int(knob.name, 0, len(choices) - 1)]
    return settings


def _as_parameters(knobs: KnobFile, settings: Settings) -> dict[str, Value]:
    """Returns the parameters of Optuna for which `_suggest` returns these settings."""
    searched = [knob for knob in knobs.knob if knob.type != "sizes"]
    values = [(knob, settings.get(knob.name, knob.default)) for knob in searched]
    return {k.name: value if k.type == "choice" else k.choices().index(value) for k, value in values}
