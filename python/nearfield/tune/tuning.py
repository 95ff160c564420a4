"""`nearfield tune` without the command line: for every distance a search and its confirmation, then the rules.

Every trial is stored when it ends (`kept`), so that an interrupted tune can go on. Trials count in any later sitting,
since they are ratios of times that were measured in turn. An interrupted play-off or confirmation is repeated."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import mean

import nearfield
from nearfield import itself, mpi
from nearfield.base.words import suggestion
from nearfield.busy import BUSY_SHARE, busy_shares
from nearfield.errors import MeasurementError, UsageError
from nearfield.topology import DISTANCES, Topology
from nearfield.tune.arena import Arena
from nearfield.tune.confirm import Confirming
from nearfield.tune.confirmed import beyond, rule_table, tried_table
from nearfield.tune.criterion import SIZES, confirmed_cases, searched_cases
from nearfield.tune.duel import Unfit
from nearfield.tune.gains import geometric_mean
from nearfield.tune.kept import BeginLine, Kept, RuleLine, TrialLine
from nearfield.tune.knobs import KnobFile, Settings, find_knobs
from nearfield.tune.model import candidates
from nearfield.tune.repair import grid
from nearfield.tune.request import Request
from nearfield.tune.rules import MpiTable, Rules, RuleTable, machine_table
from nearfield.tune.search import Deadline, Search, Trial

SEARCHED_BY, PLAYED_OFF_BY = 0.45, 0.6  # the share of a distance's time for the search; the rest confirms
LATEST = 1.2  # it may take so many times as long as planned
TRIAL_S, ELSEWHERE_S = 2.0, 3.0  # about, for a combination and for a rule elsewhere, with the Open MPI wheel
BUILD_S = 60.0  # about, to build the engine for an MPI
PHASES = ("searching", "playing off", "confirming")
ELSEWHERE = "measuring the rules of other distances"


class Listener:
    """Is told what happens, for a display; the base class prints nothing."""

    def say(self, text: str) -> None: ...
    def plan(self, mpi_name: str, distances: list[str], seconds: Mapping[str, float], longer_s: float) -> None:
        """Is called before anything is measured. `seconds` says about how long each phase will take for all distances
        together, and `longer_s` how much more the confirmation may take."""

    def begin(self, distance: str, phase: str, share: float) -> None: ...
    def tried(self, trial: Trial, best: Trial | None, count: int) -> None: ...


@dataclass
class Tuning:
    """One run of tune. A signal handler may call `stop`: then the best so far is confirmed briefly and kept."""

    request: Request
    listener: Listener
    kept: Kept = field(default_factory=Kept)
    stopped: bool = False
    _deadline: Deadline = field(default_factory=lambda: Deadline(0.0), repr=False)

    def stop(self) -> None:
        self.stopped = self._deadline.stopped = True

    def run(self) -> Rules:
        start, before = time.monotonic(), sum(map(self.kept.spent_s, DISTANCES))
        inst = mpi.choose(self.kept.begin.launcher if self.kept.begin else self.request.mpi)
        topology = Topology.live()
        pairs = self._pairs(topology)
        engine = mpi.program(inst, progress=self.listener.say)
        transport, knobs = _transport_and_knobs(inst)
        busy = _busy_share(topology)
        begin = self._go_on(inst, transport, knobs, topology, busy)
        self._tell_time(inst, knobs, list(pairs), busy)
        rules, trials = [], []
        for distance, pair in pairs.items():
            rule, tried = self.kept.rule(distance), self.kept.trials(distance)
            if rule is None:
                with Arena(inst, engine, topology, pair, knobs) as arena:
                    rule, tried = self._tune(arena, distance, pair, topology, self.request.budget_s / len(pairs))
            rules.append(rule)
            trials += tried
        for distance, pair in pairs.items() if len(rules) > 1 else ():
            with Arena(inst, engine, topology, pair, knobs) as arena:
                self._measure_elsewhere(arena, distance, rules)
        return Rules(
            schema_version=1,
            nearfield=nearfield.__version__,
            created=begin.created,
            command=self.request.command,
            seconds=before + time.monotonic() - start,
            host=socket.gethostname(),
            busy_share=max(begin.busy_share, busy),
            mpi=begin.mpi,
            machine=begin.machine,
            tried=tried_table(trials),
            rule=rules,
        )

    def _go_on(
        self, inst: mpi.Installation, transport: str, knobs: KnobFile, topology: Topology, busy: float
    ) -> BeginLine:
        """Returns where the tune began: now, or in an earlier sitting. Says how many lines of an earlier sitting are
        damaged."""
        begin = self.kept.go_on(
            BeginLine(
                created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                busy_share=busy,
                nearfield=nearfield.__version__,
                knobs=hashlib.sha256(knobs.model_dump_json().encode()).hexdigest(),
                launcher=str(inst.launcher),
                mpi=MpiTable(family=inst.family, version=inst.version, transport=transport),
                machine=machine_table(topology, topology.cache_bytes(topology.pus[0])),
            )
        )
        self.kept.leave_out_strange(knobs, searched_cases(self.request.sizes or SIZES))
        if count := self.kept.damaged:
            what = "a line is" if count == 1 else f"{count} lines are"
            self.listener.say(f"in the file of the earlier sitting {what} damaged; lost trials are measured again")
        return begin

    def _tell_time(self, inst: mpi.Installation, knobs: KnobFile, distances: list[str], busy: float) -> None:
        left = sum(self.kept.rule(distance) is None for distance in distances)
        longer_s = (LATEST - 1) * self.request.budget_s * left / len(distances)
        self.listener.plan(inst.name, distances, self._estimate(knobs, distances), longer_s)
        if busy > BUSY_SHARE:
            self.listener.say(f"others take {busy:.0%} of the cores' time: it will take longer, and find less")

    def _estimate(self, knobs: KnobFile, distances: list[str]) -> dict[str, float]:
        """Returns about how many seconds each phase will still take, for all distances together."""
        left = [distance for distance in distances if self.kept.rule(distance) is None]
        share = self.request.budget_s / len(distances)
        searching = sum(max(0.0, self._searching_s(knobs, one, share) - self.kept.spent_s(one)) for one in left)
        played_off = (PLAYED_OFF_BY - SEARCHED_BY) * share * len(left)
        confirmed = (1 - PLAYED_OFF_BY) * share * len(left)
        seconds = dict(zip(PHASES, (searching, played_off, confirmed), strict=True))
        others = len(distances) * (len(distances) - 1)
        return {**seconds, ELSEWHERE: others * ELSEWHERE_S} if others else seconds

    def _searching_s(self, knobs: KnobFile, distance: str, share: float) -> float:
        """Returns how long a distance is searched in all sittings. That is its share of the budget, or for a whole grid
        an estimate from the combinations that were measured."""
        if not self.request.exhaustive:
            return SEARCHED_BY * share
        done = len(self.kept.trials(distance))
        return (self.kept.spent_s(distance) / done if done else TRIAL_S) * len(list(grid(knobs)))

    def _pairs(self, topology: Topology) -> dict[str, tuple[int, int]]:
        """Returns the distances to tune, nearest first, and the pair that represents each."""
        there = topology.representatives()
        for distance in self.request.distances:
            if distance not in there:
                raise UsageError(f"no pair here has the distance '{distance}'", suggestion(distance, there))
        if not there:
            raise MeasurementError("tune needs two cores to send messages between; there is one")
        return {d: pair for d, pair in there.items() if d in (self.request.distances or there)}

    def _measure_elsewhere(self, arena: Arena, distance: str, rules: list[RuleTable]) -> None:
        """Measures the other distances' rules at this one, for MPIs that take one set for all pairs."""
        others = [rule for rule in rules if rule.distance != distance and rule.parameters]
        if others and not self.stopped:
            self.listener.begin(distance, ELSEWHERE, len(others) * ELSEWHERE_S)
        for rule in others:
            if self.stopped:
                return
            try:
                with arena.against(rule.parameters, searched_cases(self.request.sizes or SIZES)) as comparison:
                    comparison.measure(3)
                    rule.elsewhere[distance] = round(geometric_mean(comparison.gains().values()).value, 4)
            except Unfit as error:
                self.listener.say(f"the rule for {rule.distance} cannot be used at {distance}: {error.message}")

    def _tune(
        self, arena: Arena, distance: str, pair: tuple[int, int], topology: Topology, seconds: float
    ) -> tuple[RuleTable, list[Trial]]:
        caches = topology.cache_bytes(pair[0])
        ranks = self.request.ranks_per_node or len(topology.cores)
        earlier_s = self.kept.spent_s(distance)
        begun = time.monotonic() - earlier_s
        search = Search(
            arena,
            lambda trial: self._report(search, trial, distance, time.monotonic() - begun),
            cases=searched_cases(self.request.sizes or SIZES),
            refused=self._memory_check(arena.knobs, ranks),
            never_below=self.request.never_below,
            known=self.kept.trials(distance),
        )
        # Work of an earlier sitting beyond its search is repeated.
        start, spent = time.monotonic() - min(earlier_s, SEARCHED_BY * seconds), 0.0
        if self.request.exhaustive:
            self._phase(distance, "searching", begun, self._searching_s(arena.knobs, distance, seconds))
            self._deadline.seconds = float("inf")
            search.run_grid(self._deadline)
            start, spent = time.monotonic(), SEARCHED_BY
        else:
            self._phase(distance, "searching", start, SEARCHED_BY * seconds)
            heap = search.best_use_of_heap(self._deadline)
            search.run(candidates(arena.knobs, caches, distance, heap), self._deadline)
        self._phase(distance, "playing off", start, (PLAYED_OFF_BY - spent) * seconds)
        search.play_off(self._deadline)
        self._phase(distance, "confirming", start, (1 - spent) * seconds, (LATEST - spent) * seconds)
        limits = [4 << 10, *caches]
        cases = confirmed_cases(self.request.sizes or all_sizes(caches[-1]))
        chosen, reason = Confirming(arena, search, cases, limits, self._deadline, self.request.never_below).run()
        rule = rule_table(arena.knobs, distance, pair, ranks, chosen, reason, limits, arena.all_pairs)
        rule.beyond = beyond(search.best_first(), self.request.never_below)
        if not self.stopped:  # otherwise it was confirmed only briefly
            self.kept.add(RuleLine(distance=distance, spent_s=time.monotonic() - begun, rule=rule))
        return rule, search.trials

    def _memory_check(self, knobs: KnobFile, ranks: int) -> Callable[[Settings], str | None]:
        limit = max(self.request.memory_limit_bytes, knobs.memory({}, ranks))  # stock is always allowed

        def problem(settings: Settings) -> str | None:
            needed = knobs.memory(settings, ranks)
            return f"needs {needed >> 20} MiB per rank at {ranks} ranks per node" if needed > limit else None

        return problem

    def _phase(self, distance: str, name: str, start: float, until: float, latest: float | None = None) -> None:
        """Begins a phase. It shall end `until` seconds after `start` (on the monotonic clock), and must by `latest`."""
        left = max(0.0, start + until - time.monotonic())
        self._deadline = Deadline(left, start + latest if latest else None)
        self._deadline.stopped = self.stopped
        self.listener.begin(distance, name, left)

    def _report(self, search: Search, trial: Trial, distance: str, spent_s: float) -> None:
        self.kept.add(TrialLine.of(distance, spent_s, trial))
        best = search.best_first()
        self.listener.tried(trial, best[0] if best else None, len(search.trials))


def _busy_share(topology: Topology) -> float:
    busy = busy_shares()
    return round(mean(busy[pu][0] for core in topology.cores for pu in core if pu in busy), 3)


def _transport_and_knobs(inst: mpi.Installation) -> tuple[str, KnobFile]:
    transport, reason = mpi.transport_or_reason(inst)
    if not transport:
        raise MeasurementError(
            f"what carries messages under {inst.name} is not known: {reason}", f"see {itself.command('mpi')}"
        )
    return transport, find_knobs(inst.family, inst.version, transport)


def all_sizes(last_level_bytes: int) -> list[int]:
    """Returns sizes from 1 B to four times the last-level cache: powers of two up to 16 MiB, then every other one."""
    sizes = [1 << power for power in range(25)]
    return sizes + [last_level_bytes, 4 * last_level_bytes] if last_level_bytes > sizes[-1] else sizes
