"""`nearfield tune` without the command line: for every distance a search and its confirmation, then the rules."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import mean

import nearfield
from nearfield import itself, mpi
from nearfield.busy import busy_shares
from nearfield.errors import MeasurementError, UsageError
from nearfield.profile.words import suggestion
from nearfield.topology import Topology
from nearfield.tune.arena import Arena
from nearfield.tune.confirm import Confirming
from nearfield.tune.confirmed import beyond, rule_table, tried_table
from nearfield.tune.criterion import NEVER_BELOW, SIZES, confirmed_cases, searched_cases
from nearfield.tune.duel import Unfit
from nearfield.tune.gains import geometric_mean
from nearfield.tune.knobs import KnobFile, Settings, find_knobs
from nearfield.tune.model import candidates
from nearfield.tune.rules import MpiTable, Rules, RuleTable, machine_table
from nearfield.tune.search import Deadline, Search, Trial

SEARCHED_BY, PLAYED_OFF_BY = 0.45, 0.6  # of the time for a distance; the rest confirms
LATEST = 1.2  # times as long as it shall, it may take


@dataclass
class Request:
    """What is asked of `tune`."""

    mpi: str | None = None
    budget_s: float = 180.0
    exhaustive: bool = False
    memory_limit_bytes: int = 64 << 20  # of shared memory per rank
    never_below: float = NEVER_BELOW  # of stock's speed, at any size
    ranks_per_node: int | None = None  # for the memory it costs; default: a rank per core
    distances: tuple[str, ...] = ()  # default: all inside the machine
    sizes: tuple[int, ...] = ()  # default: eleven to search, 1 B to four times the last-level cache to confirm
    command: str = ""


class Listener:
    """What happens, for a display; the default says nothing."""

    def say(self, text: str) -> None: ...
    def begin(self, distance: str, phase: str, share: float) -> None: ...
    def tried(self, trial: Trial, best: Trial | None, count: int) -> None: ...


@dataclass
class Tuning:
    """One run of tune. `stop` may be called from a signal handler: the best so far is confirmed in short, and kept."""

    request: Request
    listener: Listener
    stopped: bool = False
    _deadline: Deadline = field(default_factory=lambda: Deadline(0.0), repr=False)

    def stop(self) -> None:
        self.stopped = self._deadline.stopped = True

    def run(self) -> Rules:
        start, busy = datetime.now(timezone.utc), busy_shares()
        inst = mpi.choose(self.request.mpi)
        topology = Topology.live()
        pairs = self._pairs(topology)
        engine = mpi.program(inst, progress=self.listener.say)
        transport, knobs = _transport_and_knobs(inst)
        rules, trials = [], []
        for distance, pair in pairs.items():
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
            created=start.isoformat(timespec="seconds"),
            command=self.request.command,
            seconds=(datetime.now(timezone.utc) - start).total_seconds(),
            host=socket.gethostname(),
            busy_share=round(mean(busy[pu][0] for core in topology.cores for pu in core if pu in busy), 3),
            mpi=MpiTable(family=inst.family, version=inst.version, transport=transport),
            machine=machine_table(topology, topology.cache_bytes(topology.pus[0])),
            tried=tried_table(trials),
            rule=rules,
        )

    def _pairs(self, topology: Topology) -> dict[str, tuple[int, int]]:
        """The distances to tune, nearest first, and the pair that stands for each."""
        there = topology.representatives()
        for distance in self.request.distances:
            if distance not in there:
                raise UsageError(f"no pair here has the distance '{distance}'", suggestion(distance, there))
        if not there:
            raise MeasurementError("tune needs two cores to send messages between; there is one")
        return {d: pair for d, pair in there.items() if d in (self.request.distances or there)}

    def _measure_elsewhere(self, arena: Arena, distance: str, rules: list[RuleTable]) -> None:
        """What the rules of the other distances do at this one, for MPIs that take one set for all pairs."""
        for rule in rules:
            if rule.distance == distance or not rule.parameters or self.stopped:
                continue
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
        search = Search(
            arena,
            lambda trial: self._report(search, trial),
            cases=searched_cases(self.request.sizes or SIZES),
            refused=self._memory_check(arena.knobs, ranks),
            never_below=self.request.never_below,
        )
        start, spent = time.monotonic(), 0.0
        self._phase(distance, "searching", start, SEARCHED_BY * seconds)
        if self.request.exhaustive:
            self._deadline.seconds = float("inf")
            search.run_grid(self._deadline)
            start, spent = time.monotonic(), SEARCHED_BY
        else:
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

    def _report(self, search: Search, trial: Trial) -> None:
        best = search.best_first()
        self.listener.tried(trial, best[0] if best else None, len(search.trials))


def _transport_and_knobs(inst: mpi.Installation) -> tuple[str, KnobFile]:
    transport, reason = mpi.transport_or_reason(inst)
    if not transport:
        raise MeasurementError(
            f"what carries messages under {inst.name} is not known: {reason}", f"see {itself.command('mpi')}"
        )
    return transport, find_knobs(inst.family, inst.version, transport)


def all_sizes(last_level_bytes: int) -> list[int]:
    """1 B to four times the last-level cache: every power of two up to 16 MiB, then every other one."""
    sizes = [1 << power for power in range(25)]
    return sizes + [last_level_bytes, 4 * last_level_bytes] if last_level_bytes > sizes[-1] else sizes
