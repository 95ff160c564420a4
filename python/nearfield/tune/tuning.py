"""Runs `nearfield tune` without its command line: searches and confirms settings for each core distance, then builds
the rules.

Every trial, the winner of a play-off and every launch of a confirmation are stored in a log as soon as they end, so
that an interrupted or undecided tune can be resumed. Results from earlier sessions remain valid, because each is a
ratio of times that were measured alternately. Only an interrupted play-off is repeated.

The verdict on a distance is one of three: a rule, "the MPI's defaults are best", or "not decided" if the measurements
support neither. If a distance is not decided, a later session continues the tune with the whole time budget."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean

import nearfield
from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.cpu_load import BUSY_SHARE, measure_cpu_utilization
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.base.topology import CORE_DISTANCES, Topology
from nearfield.base.units import counted, format_seconds
from nearfield.base.words import suggest_name
from nearfield.rules.applicability import make_machine_table
from nearfield.rules.criterion import SEARCH_SIZES, confirmation_cases, search_cases
from nearfield.rules.gains import geometric_mean
from nearfield.rules.knobs import KnobFile, Settings, find_knobs
from nearfield.rules.schema import FORMAT_VERSION, MpiTable, Rules, RuleTable, UndecidedTable
from nearfield.tune.confirm import Confirmation, ConfirmationOutcome
from nearfield.tune.confirmed import describe_rejected_setting, make_rule_table, make_tried_table
from nearfield.tune.model import candidate_settings
from nearfield.tune.paired_benchmark import PairedBenchmark
from nearfield.tune.paired_runs import UnusableSetting
from nearfield.tune.request import TuneRequest
from nearfield.tune.satisfy_constraints import iterate_grid_settings
from nearfield.tune.search import Deadline, Search, Trial
from nearfield.tune.starved import JobStarved
from nearfield.tune.trial_log import BeginLine, LaunchLine, RuleLine, TrialLine, TrialLog, UndecidedLine, WinnerLine

SEARCH_END_SHARE, PLAY_OFF_END_SHARE = 0.45, 0.6  # fractions of a distance's time at which search and play-off end
LATEST_START_FACTOR = 1.2  # factor of the planned time after which, on a quiet machine, no confirming launch starts
# factors of the planned time after which a tune is cut off, on a quiet and on a busy machine
MAX_DURATION_FACTOR, BUSY_MAX_DURATION_FACTOR = 2.0, 3.0
# rough durations, with the Open MPI wheel, of one grid combination and of one rule at another distance
ESTIMATED_TRIAL_S, ESTIMATED_OTHER_DISTANCE_S = 2.0, 3.0
# time for the jobs of a distance to exit: 32 s were observed next to six spinning processes on two cores
JOB_EXIT_S = 40.0
ESTIMATED_ENGINE_BUILD_S = 60.0  # rough time to build the measuring engine for an MPI
PHASE_NAMES = ("searching", "playing off", "confirming")
OTHER_DISTANCES_PHASE = "measuring the rules of other distances"


@dataclass
class Tuning:
    """One session of `nearfield tune`. If `only_confirms` is set, tries no new settings: briefly confirms the best
    trials of the log."""

    request: TuneRequest
    report: Report = ignore_progress
    log: TrialLog = field(default_factory=TrialLog)
    only_confirms: bool = False
    _max_factor: float = field(default=MAX_DURATION_FACTOR, repr=False)
    _progress_label: str = field(default="", repr=False)  # the current distance and phase, for progress reports
    _start_time_s: float = field(default=0.0, repr=False)  # start of the tune, on the monotonic clock
    _expected_end_s: float = field(default=0.0, repr=False)  # expected end of the tune, on the monotonic clock
    _latest_end_s: float = field(default=0.0, repr=False)
    # Samples of the fraction of CPU time that other programs used, taken while the tune's own jobs slept.
    _other_load_samples: list[float] = field(default_factory=lambda: [0.0], repr=False)
    _deadline: Deadline = field(default_factory=lambda: Deadline(0.0), repr=False)

    def run(self) -> Rules:
        """Tunes all requested distances. Returns the rules of the decided distances, and the reasons why the others are
        not decided."""
        start, before = time.monotonic(), sum(map(self.log.spent_s, CORE_DISTANCES))
        inst = mpi.choose_mpi(self.log.begin_line.launcher if self.log.begin_line else self.request.mpi)
        topology = Topology.of_this_machine()
        pairs = self._core_pairs_to_tune(topology)
        engine = self._build_engine(inst)
        transport, knobs = _find_transport_and_knobs(inst)
        self._other_load_samples = [measure_other_load()]
        begin = self._begin_or_resume_log(inst, transport, knobs, topology, self._other_load_samples[0])
        self._announce_duration(inst, knobs, list(pairs))
        rules: list[RuleTable] = []
        undecided: list[UndecidedTable] = []
        trials: list[Trial] = []
        for distance, pair in pairs.items():
            verdict: RuleTable | UndecidedTable | None = self.log.rule(distance)
            tried = self.log.trials(distance)
            if verdict is None:
                with PairedBenchmark(inst, engine, topology, pair, knobs) as benchmark:
                    verdict, tried = self._tune_distance(
                        benchmark, distance, pair, topology, self.request.budget_s / len(pairs)
                    )
            trials += tried
            if isinstance(verdict, RuleTable):
                rules.append(verdict)
            else:
                undecided.append(verdict)
        for distance, pair in pairs.items() if len(pairs) > 1 else ():
            with PairedBenchmark(inst, engine, topology, pair, knobs) as benchmark:
                self._measure_other_distances(benchmark, distance, rules)
        return Rules(
            schema_version=FORMAT_VERSION,
            nearfield=nearfield.__version__,
            created=begin.created,
            command=self.request.command,
            seconds=before + time.monotonic() - start,
            host=socket.gethostname(),
            busy_share=max(begin.busy_share, self._mean_other_load()),
            mpi=begin.mpi,
            machine=begin.machine,
            tried=make_tried_table(trials),
            rule=rules,
            undecided=undecided,
        )

    def _build_engine(self, inst: mpi.Installation) -> Path:
        """Returns the path of the measuring engine. Builds the engine if necessary, and then reports that the build
        adds to the time budget."""
        if not mpi.is_built(inst):
            self.report(
                f"{inst.name}: the measuring engine is built first, once; that takes about "
                f"{format_seconds(ESTIMATED_ENGINE_BUILD_S)} beside the budget"
            )
        return mpi.build_target(inst, progress=self.report)

    def _mean_other_load(self) -> float:
        """Returns the mean fraction of CPU time that other programs used, over all samples of this session. Takes no
        new sample."""
        return round(mean(self._other_load_samples), 3)

    def _begin_or_resume_log(
        self, inst: mpi.Installation, transport: str, knobs: KnobFile, topology: Topology, other_load: float
    ) -> BeginLine:
        """Returns the log line that records when and where the tune began, in this session or an earlier one. Reports
        the number of damaged lines in the log of an earlier session."""
        begin = self.log.find_or_add_begin_line(
            BeginLine(
                created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                busy_share=other_load,
                nearfield=nearfield.__version__,
                knobs=hashlib.sha256(knobs.model_dump_json().encode()).hexdigest(),
                launcher=str(inst.launcher),
                mpi=MpiTable(family=inst.family, version=inst.version, transport=transport),
                machine=make_machine_table(topology, topology.cache_bytes(topology.pus[0])),
            )
        )
        self.log.drop_inconsistent_lines(knobs, search_cases(self.request.sizes or SEARCH_SIZES))
        if count := self.log.num_damaged_lines:
            what = "a line is" if count == 1 else f"{count} lines are"
            self.report(f"in the file of the earlier sitting {what} damaged; lost trials are measured again")
        return begin

    def _announce_duration(self, inst: mpi.Installation, knobs: KnobFile, distances: list[str]) -> None:
        seconds = self._estimate_remaining_s_by_phase(knobs, distances)
        self._max_factor = max_duration_factor(self._other_load_samples[0])
        total = sum(seconds.values())
        max_s = self._max_factor * total + JOB_EXIT_S * len(distances)
        self._start_time_s = time.monotonic()
        self._expected_end_s, self._latest_end_s = self._start_time_s + total, self._start_time_s + max_s
        phases = ", ".join(f"{name} {format_seconds(taken)}" for name, taken in seconds.items())
        many = f"{len(distances)} distances ({', '.join(distances)})" if len(distances) > 1 else distances[0]
        duration = f"about {format_seconds(total)}, at most {format_seconds(max_s)}"
        self.report(f"{inst.name}, {many}: {duration} ({phases})")
        if (busy := self._other_load_samples[0]) > BUSY_SHARE:
            self.report(f"other programs take {busy:.0%} of the cores' time: it will take longer, and find less")

    def _estimate_remaining_s_by_phase(self, knobs: KnobFile, distances: list[str]) -> dict[str, float]:
        """Returns the estimated remaining seconds of each phase, summed over all distances."""
        left = [distance for distance in distances if self.log.rule(distance) is None]
        share = self.request.budget_s / len(distances)
        searches = [one for one in left if not self.only_confirms and self.log.winner_line(one) is None]
        searching = sum(
            max(0.0, self._planned_search_s(knobs, one, share) - self.log.used_budget_s(one)) for one in searches
        )
        played_off = (PLAY_OFF_END_SHARE - SEARCH_END_SHARE) * share * len(searches)
        confirmed = (1 - PLAY_OFF_END_SHARE) * share * len(left) + PLAY_OFF_END_SHARE * share * (
            len(left) - len(searches)
        )
        seconds = dict(zip(PHASE_NAMES, (searching, played_off, confirmed), strict=True))
        others = len(distances) * (len(distances) - 1)
        return {**seconds, OTHER_DISTANCES_PHASE: others * ESTIMATED_OTHER_DISTANCE_S} if others else seconds

    def _planned_search_s(self, knobs: KnobFile, distance: str, distance_budget_s: float) -> float:
        """Returns the planned search time of a distance in seconds, over all sessions. This time is a share of the
        budget; for an exhaustive search, it is extrapolated from the combinations measured so far."""
        if not self.request.exhaustive:
            return SEARCH_END_SHARE * distance_budget_s
        done = len(self.log.trials(distance))
        return (self.log.spent_s(distance) / done if done else ESTIMATED_TRIAL_S) * len(
            list(iterate_grid_settings(knobs))
        )

    def _core_pairs_to_tune(self, topology: Topology) -> dict[str, tuple[int, int]]:
        """Returns the distances to tune, nearest first, with the pair of cores that represents each. Raises UsageError
        for a distance that this machine lacks, and MeasurementError if there is only one core."""
        there = topology.representative_pairs()
        for distance in self.request.distances:
            if distance not in there:
                raise UsageError(f"no pair here has the distance '{distance}'", suggest_name(distance, there))
        if not there:
            raise MeasurementError("tune needs two cores to send messages between; there is one")
        return {d: pair for d, pair in there.items() if d in (self.request.distances or there)}

    def _measure_other_distances(self, benchmark: PairedBenchmark, distance: str, rules: list[RuleTable]) -> None:
        """Measures the gain of each other distance's rule at this distance, for MPIs that accept only one set of
        parameters for all pairs of ranks. Stores the gains in `rule.other_distances`."""
        others = [rule for rule in rules if rule.distance != distance and rule.parameters]
        benchmark.deadline_s = time.monotonic() + self._max_factor * len(others) * ESTIMATED_OTHER_DISTANCE_S
        if others and not self.only_confirms:
            self._report_phase(distance, OTHER_DISTANCES_PHASE, len(others) * ESTIMATED_OTHER_DISTANCE_S)
        for rule in others:
            if self.only_confirms:
                return
            try:
                with benchmark.compare_with_baseline(
                    rule.parameters, search_cases(self.request.sizes or SEARCH_SIZES)
                ) as comparison:
                    comparison.measure(3)
                    rule.other_distances[distance] = round(geometric_mean(comparison.gains().values()).value, 4)
            except (UnusableSetting, JobStarved) as error:
                self.report(f"the rule for {rule.distance} cannot be used at {distance}: {error.message}")

    def _tune_distance(
        self, benchmark: PairedBenchmark, distance: str, core_pair: tuple[int, int], topology: Topology, budget_s: float
    ) -> tuple[RuleTable | UndecidedTable, list[Trial]]:
        if self.only_confirms and not self.log.trials(distance):
            return UndecidedTable(distance=distance, reason="nothing was tried yet, so nothing can be confirmed"), []
        caches = topology.cache_bytes(core_pair[0])
        ranks = self.request.ranks_per_node or len(topology.cores)
        begin = time.monotonic() - self.log.spent_s(distance)

        def spent_s() -> float:
            return time.monotonic() - begin

        self._check_baseline(benchmark, distance)
        search = Search(
            benchmark,
            lambda trial: self._add_trial(search, trial, distance, spent_s()),
            cases=search_cases(self.request.sizes or SEARCH_SIZES),
            get_rejection_reason=self._make_memory_limit_check(benchmark.knobs, ranks),
            min_gain=self.request.never_below,
            earlier_trials=self.log.trials(distance),
            is_machine_busy=self._mean_other_load() > BUSY_SHARE,
        )
        start, spent = self._run_search(benchmark, search, distance, caches, budget_s)
        if not self.only_confirms and search.winner and not self.log.winner_line(distance):
            line = WinnerLine(distance=distance, spent_s=spent_s(), settings=search.winner, untried=search.num_untried)
            self.log.add(line)
        busy = self._enter_phase(
            benchmark, distance, "confirming", start, (1 - spent) * budget_s, (1 - spent) * budget_s
        )
        limits = [4 << 10, *caches]
        earlier = [pair for _, launch in self.log.launches(distance) for pairs in launch.values() for pair in pairs]
        outcome = Confirmation(
            benchmark,
            search,
            confirmation_cases(self.request.sizes or message_sizes_to_confirm(caches[-1])),
            limits,
            self._deadline,
            self.request.never_below,
            earlier_launches=self.log.launches(distance),
            on_launch=lambda settings, launch: self._add_launch(
                LaunchLine.from_launch(distance, spent_s(), settings, launch)
            ),
            is_machine_busy=busy,
        ).run()
        if outcome.next_step:
            return self._make_undecided_table(distance, outcome, spent_s()), search.trials
        chosen = outcome.confirmed_gains.settings if outcome.confirmed_gains else {}
        if benchmark.needed and not benchmark.knobs.uses_heap(chosen):
            reason = (
                "the MPI's defaults fail here, and no setting with the shared heap is faster than the baseline that "
                "replaces them"
            )
            return UndecidedTable(distance=distance, reason=reason, seen=outcome.best_trial_summary), search.trials
        all_pairs = [*earlier, *benchmark.all_pairs]
        rule = make_rule_table(
            benchmark.knobs, distance, core_pair, ranks, outcome.confirmed_gains, outcome.reason, limits, all_pairs
        )
        rule.baseline = benchmark.needed
        rule.beyond = describe_rejected_setting(search.trials_best_first(), self.request.never_below)
        if not self.only_confirms:  # a brief confirmation is not stored, so that a later session repeats it
            self.log.add(RuleLine(distance=distance, spent_s=spent_s(), rule=rule))
        return rule, search.trials

    def _check_baseline(self, benchmark: PairedBenchmark, distance: str) -> None:
        """Checks that messages arrive with the MPI's default settings. If they do not, reports the variables with which
        the baseline runs. Raises MeasurementError if no setting helps."""
        with suppress(JobStarved):
            benchmark.check_baseline(search_cases(self.request.sizes or SEARCH_SIZES))
        if benchmark.needed:
            added = " ".join(f"{name}={value}" for name, value in benchmark.needed.items())
            self.report(f"{distance}: the MPI's defaults fail here; the baseline runs with {added}")

    def _run_search(
        self, benchmark: PairedBenchmark, search: Search, distance: str, caches: list[int], budget_s: float
    ) -> tuple[float, float]:
        """Runs the search and the play-off for a distance, unless an earlier session completed them. Returns the start
        of the distance's time on the monotonic clock, and the fraction of its time budget that was used before this
        start."""
        used_s = self.log.used_budget_s(distance)
        if won := self.log.winner_line(distance):
            search.winner, search.num_untried = won.settings, won.untried
            return time.monotonic() - min(used_s, PLAY_OFF_END_SHARE * budget_s), 0.0
        # A play-off that an earlier session did not complete is repeated.
        start, spent = time.monotonic() - min(used_s, SEARCH_END_SHARE * budget_s), 0.0
        if self.request.exhaustive:
            whole_s = self._planned_search_s(benchmark.knobs, distance, budget_s)
            self._enter_phase(benchmark, distance, "searching", time.monotonic() - used_s, whole_s, whole_s)
            self._deadline.soft_limit_s = benchmark.deadline_s = float("inf")
            search.run_grid(self._deadline)
            start, spent = time.monotonic(), SEARCH_END_SHARE
        else:
            # If a gain is known, the hard limit leaves time for the other phases. If not, the search may use all the
            # time to complete its first trial.
            ends = SEARCH_END_SHARE if search.gaining_trials() else 1.0
            self._enter_phase(
                benchmark, distance, "searching", start, SEARCH_END_SHARE * budget_s, budget_s, ends * budget_s
            )
            heap = search.find_best_heap_settings(self._deadline)
            search.run(candidate_settings(benchmark.knobs, caches, distance, heap), self._deadline)
        self._enter_phase(
            benchmark, distance, "playing off", start, (PLAY_OFF_END_SHARE - spent) * budget_s, (1 - spent) * budget_s
        )
        search.rank_finalists(self._deadline)
        return start, spent

    def _make_undecided_table(self, distance: str, outcome: ConfirmationOutcome, spent_s: float) -> UndecidedTable:
        """Returns the table for a distance without a verdict: the reason, and its cause as far as it is known. Appends
        the reason to the log."""
        causes = [outcome.reason]
        if (busy := self._mean_other_load()) > BUSY_SHARE:
            causes.append(f"other programs took {busy:.0%} of the cores' time")
        elif not self.only_confirms:
            causes.append("the machine was quiet, so more time decides")
        reason = "; ".join(causes)
        if outcome.next_step and not self.only_confirms:
            self.log.add(UndecidedLine(distance=distance, spent_s=spent_s, reason=reason, goes_on=outcome.next_step))
        return UndecidedTable(distance=distance, reason=reason, seen=outcome.best_trial_summary)

    def _make_memory_limit_check(self, knobs: KnobFile, ranks_per_node: int) -> Callable[[Settings], str | None]:
        # the memory of the MPI's defaults is always allowed
        limit = max(self.request.memory_limit_bytes, knobs.shared_memory_bytes({}, ranks_per_node))

        def problem(settings: Settings) -> str | None:
            needed = knobs.shared_memory_bytes(settings, ranks_per_node)
            return f"needs {needed >> 20} MiB per rank at {ranks_per_node} ranks per node" if needed > limit else None

        return problem

    def _enter_phase(
        self,
        benchmark: PairedBenchmark,
        distance: str,
        phase: str,
        start_time_s: float,
        planned_end_s: float,
        planned_total_s: float,
        ends: float = 0.0,
    ) -> bool:
        """Begins a phase that is planned to end `planned_end_s` seconds after `start_time_s` (on the monotonic clock).
        `planned_total_s` is the planned time of all phases in seconds. On a quiet machine, no new work begins later
        than LATEST_START_FACTOR times `planned_total_s`, and all work is cut off at a multiple of `ends` (default:
        `planned_total_s`). On a busy machine, where everything takes longer, new work may begin until the cut-off.
        Returns whether the machine is busy with other programs."""
        self._other_load_samples.append(measure_other_load())
        busy = self._mean_other_load() > BUSY_SHARE
        benchmark.deadline_s = start_time_s + self._max_factor * (ends or planned_total_s)
        left = max(0.0, start_time_s + planned_end_s - time.monotonic())
        self._deadline = Deadline(
            left, start_time_s + (self._max_factor if busy else LATEST_START_FACTOR) * planned_total_s
        )
        self._deadline.is_interrupted = self.only_confirms
        self._report_phase(distance, phase, left)
        return busy

    def _report_phase(self, distance: str, phase: str, expected_s: float) -> None:
        """Reports the beginning of a phase that is expected to take `expected_s`."""
        self._progress_label = f"{distance}: {phase}"
        self._expected_end_s = max(self._expected_end_s, time.monotonic() + expected_s)
        self._report_progress(f"{expected_s:.0f} s are planned")

    def _report_progress(self, text: str) -> None:
        now = time.monotonic()
        share = min(0.99, (now - self._start_time_s) / max(self._expected_end_s - self._start_time_s, 1e-9))
        self.report(Progress(text, share, self._expected_end_s - now, self._latest_end_s - now, self._progress_label))

    def _add_trial(self, search: Search, trial: Trial, distance: str, spent_s: float) -> None:
        """Appends a finished trial to the log and reports it as progress."""
        self.log.add(TrialLine.from_trial(distance, spent_s, trial))
        if trial.reason:
            self.report(f"{trial.state}: {trial.reason}")
        best = search.trials_best_first()
        gain = f", best {geometric_mean(best[0].gains.values()).value:.2f}x" if best and best[0].gains else ""
        self._report_progress(f"{len(search.trials)} tried{gain}")

    def _add_launch(self, line: LaunchLine) -> None:
        """Appends a launch of a confirmation to the log and reports it as progress."""
        self.log.add(line)
        self._report_progress(counted(len(self.log.launches(line.distance)), "launch", "launches"))


def max_duration_factor(other_load: float) -> float:
    """Returns the factor of the planned time after which a tune is cut off. `other_load` is the fraction of CPU time
    that other programs use."""
    return BUSY_MAX_DURATION_FACTOR if other_load > BUSY_SHARE else MAX_DURATION_FACTOR


def measure_other_load() -> float:
    """Returns the fraction of CPU time, on the CPUs of this process, that other programs and the hypervisor use now.
    The caller's own jobs must sleep during the measurement."""
    busy = measure_cpu_utilization()
    return round(min(1.0, mean(sum(busy[pu]) for pu in os.sched_getaffinity(0) if pu in busy)), 3)


def _find_transport_and_knobs(inst: mpi.Installation) -> tuple[str, KnobFile]:
    transport, reason = mpi.transport_or_reason(inst)
    if not transport:
        raise MeasurementError(
            f"the transport of {inst.name} is not known: {reason}", f"see {own_command.command_line('mpi')}"
        )
    return transport, find_knobs(inst.family, inst.version, transport)


def message_sizes_to_confirm(last_level_bytes: int) -> list[int]:
    """Returns message sizes in bytes: the powers of two up to 16 MiB and, if the last-level cache is larger, its size
    and four times its size."""
    sizes = [1 << power for power in range(25)]
    return sizes + [last_level_bytes, 4 * last_level_bytes] if last_level_bytes > sizes[-1] else sizes
