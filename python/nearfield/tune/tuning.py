"""`nearfield tune` without the command line: for every distance a search and its confirmation, then the rules."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median

import nearfield
from nearfield import mpi
from nearfield.errors import MeasurementError, MpiError, UsageError
from nearfield.profile.words import suggestion
from nearfield.topology import Topology
from nearfield.tune import per_pair
from nearfield.tune.arena import Arena, Comparison
from nearfield.tune.confirmed import Confirmed, beyond, rule_table, tried_table
from nearfield.tune.duel import Unfit
from nearfield.tune.gains import FARTHER, NEVER_BELOW, NOISE, Case, Gain, broken, geometric_mean
from nearfield.tune.knobs import KnobFile, Settings, find_knobs
from nearfield.tune.model import candidates
from nearfield.tune.repair import repaired
from nearfield.tune.rules import MpiTable, Rules, RuleTable, machine_table
from nearfield.tune.search import FEW, SIZES, Deadline, Search, Trial

SEARCH_SHARE, PLAY_OFF_SHARE = 0.5, 0.2  # of the time for a distance; the rest confirms
FINALISTS, SURELY_TRIED, MENDED = 8, 3, 2  # of them, those that are tried however late it is; steps of mending
MOST_STEPS = 8  # towards defaults that mending tries
MENDS = 0.05  # of stock's speed: by how much a parameter less must help where a setting was slower
LAUNCHES = 3
AWAY_S = 15.0
FEWEST_PAIRS, MORE_PAIRS, MOST_PAIRS = 6, 6, 30  # of a case in a launch


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
    _deadline: Deadline | None = field(default=None, repr=False)

    def stop(self) -> None:
        self.stopped = True
        if self._deadline:
            self._deadline.stopped = True

    def run(self) -> Rules:
        start = datetime.now(timezone.utc)
        inst = mpi.choose(self.request.mpi)
        topology = Topology.live()
        pairs = self._pairs(topology)
        engine = mpi.program(inst, progress=self.listener.say)
        transport, knobs = _transport_and_knobs(inst)
        knobs = self._that_can_be_turned(inst, knobs)
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
            mpi=MpiTable(family=inst.family, version=inst.version, transport=transport),
            machine=machine_table(topology, topology.cache_bytes(topology.pus[0])),
            tried=tried_table(trials),
            rule=rules,
        )

    def _that_can_be_turned(self, inst: mpi.Installation, knobs: KnobFile) -> KnobFile:
        """Those of our component only where it can be built."""
        if any(knob.component for knob in knobs.knob):
            try:
                per_pair.loading(inst, os.environ)
            except MpiError as error:
                self.listener.say(f"{error.message}; its parameters are left out")
                return knobs.without_component()
        return knobs

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
                with arena.against(rule.parameters, self.request.sizes or SIZES) as comparison:
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
            sizes=self.request.sizes or SIZES,
            refused=self._memory_check(arena.knobs, ranks),
            never_below=self.request.never_below,
        )
        self._phase(distance, "searching", seconds * SEARCH_SHARE)
        assert self._deadline
        if self.request.exhaustive:
            self._deadline.seconds = float("inf")
            search.run_grid(self._deadline)
        else:
            search.run(candidates(arena.knobs, caches, distance), self._deadline)
        self._phase(distance, "playing off", seconds * PLAY_OFF_SHARE)
        search.play_off(self._deadline)
        self._phase(distance, "confirming", seconds * (1 - SEARCH_SHARE - PLAY_OFF_SHARE))
        limits = [4 << 10, *caches]
        chosen, reason = self._confirm(arena, search, self.request.sizes or all_sizes(caches[-1]), limits)
        rule = rule_table(arena.knobs, distance, pair, ranks, chosen, reason, limits, arena.all_pairs)
        rule.beyond = beyond(search.best_first(), self.request.never_below)
        return rule, search.trials

    def _memory_check(self, knobs: KnobFile, ranks: int) -> Callable[[Settings], str | None]:
        limit = max(self.request.memory_limit_bytes, knobs.memory({}, ranks))  # stock is always allowed

        def problem(settings: Settings) -> str | None:
            needed = knobs.memory(settings, ranks)
            return f"needs {needed >> 20} MiB per rank at {ranks} ranks per node" if needed > limit else None

        return problem

    def _phase(self, distance: str, name: str, seconds: float) -> None:
        self._deadline = Deadline(seconds)
        self._deadline.stopped = self.stopped
        self.listener.begin(distance, name, seconds)

    def _report(self, search: Search, trial: Trial) -> None:
        best = search.best_first()
        self.listener.tried(trial, best[0] if best else None, len(search.trials))

    def _confirm(
        self, arena: Arena, search: Search, sizes: Sequence[int], limits: Sequence[int] = ()
    ) -> tuple[Confirmed | None, str]:
        """Of the finalists that are found slower than stock nowhere, and surely faster in a range between the limits or
        over all: the winner, else the better of the safest, which is tried first so that there is a rule, and the next
        that holds; None, and why, if there is none. Of one that is slower somewhere, what it would be without the
        parameter that makes it so, is one more finalist."""
        waiting = _finalists(search)
        safest, seen, refused = waiting[:1], list(waiting), []
        best: Confirmed | None = None
        while waiting and not self._enough(best, refused):
            settings = waiting.pop(0)
            self._await_cores(arena, search)
            try:
                confirmed = self._measured(arena, settings, sizes)
            except Unfit as error:
                refused.append(error.message)
                continue
            if not confirmed.slower:
                gains = confirmed.gains_between(limits)
                if gains and settings == search.winner:  # by duels, and simplified
                    return confirmed, ""
                if gains:
                    best = max(filter(None, (best, confirmed)), key=lambda one: one.mean.value)
                    if settings not in safest:
                        break
                continue
            refused.append(confirmed.loss)
            mended = self._mended(arena, confirmed) if len(refused) <= MENDED and not self._late() else None
            if mended and mended not in seen and not search.refuses(mended):
                waiting.insert(0, mended)
                seen.append(mended)
        if best:
            return best, ""
        nothing = "nothing was faster than stock" if search.trials else "it was ended before anything was tried"
        return None, "; ".join(refused) or nothing

    def _enough(self, best: Confirmed | None, refused: Sequence[str]) -> bool:
        """Whether to end with what there is."""
        assert self._deadline
        if self.stopped:
            return best is not None or len(refused) > 0
        return self._deadline.over() if best else self._late() and len(refused) >= SURELY_TRIED

    def _await_cores(self, arena: Arena, search: Search) -> None:
        """Until the cores are as near again as when most was searched, at most for the time that there is to confirm:
        what gained there is to be confirmed there."""
        assert self._deadline
        usual_ns = median([trial.flag_ns for trial in search.trials if trial.flag_ns] or [0.0])
        while not self._deadline.over() and arena.flag_ns() > FARTHER * usual_ns > 0:
            time.sleep(0.2)

    def _measured(self, arena: Arena, settings: Settings, sizes: Sequence[int]) -> Confirmed:
        """In two launches of both, and a third where something was slower in each, unless the first is enough to refuse
        it: a job's memory has its luck with caches and pages."""
        found = self._measured_once(arena, settings, sizes)
        for launch in range(1, LAUNCHES):
            enough = launch > 1 and (self._late() or not found.slower)
            if self.stopped or enough or self._hopeless(found.gains):
                break
            arena.launch_stock_again()
            found = found.held_against(self._measured_once(arena, settings, sizes))
        return found

    def _hopeless(self, gains: Mapping[Case, Gain]) -> bool:
        """More is slower, and by more, than luck could be."""
        return len(broken(gains, self.request.never_below - NOISE)) > FEW

    def _measured_once(self, arena: Arena, settings: Settings, sizes: Sequence[int]) -> Confirmed:
        with arena.against(settings, sizes) as comparison:
            self._measure_well(comparison)
            return Confirmed(settings, comparison.gains(), comparison.here(), self.request.never_below)

    def _measure_well(self, comparison: Comparison) -> None:
        """A few pairs of each case, then more: of those that look slower than stock in any case, of those that might be
        while there is time."""
        assert self._deadline
        comparison.measure(1 if self.stopped else FEWEST_PAIRS)
        for _ in range((MOST_PAIRS - FEWEST_PAIRS) // MORE_PAIRS):
            if self._hopeless(comparison.gains()):
                return
            over, limit = self._deadline.over(), self.request.never_below
            doubtful = [c for c, gain in comparison.gains().items() if (gain.value if over else gain.low) < limit]
            comparison.measure(MORE_PAIRS, doubtful)
        while few := self._too_few(comparison):
            if self._late():
                raise Unfit("was not measured at every size while the cores stayed where they were")
            comparison.measure(FEWEST_PAIRS, few)

    def _too_few(self, comparison: Comparison) -> list[Case]:
        """The cases measured mostly while the cores were elsewhere than mostly."""
        pairs = comparison.here()
        least = 0 if self.stopped else FEWEST_PAIRS / 2
        return [case for case in comparison.cases if len(pairs.get(case, [])) < least]

    def _mended(self, arena: Arena, confirmed: Confirmed) -> Settings | None:
        """The settings with one parameter nearer to its default, as little as makes no case slower; else without the
        one without which the slower cases are slower least, if that helps: maybe not enough, for the next may be mended
        in turn."""
        cases = confirmed.slower
        for settings in nearer(arena.knobs, confirmed.settings, min(size for _, size in cases)):
            if self._late():
                return None
            if self._worst(arena, settings, cases) >= self.request.never_below:
                return settings
        helps = min(self.request.never_below, min(confirmed.gains[case].value for case in cases) + MENDS)
        proposals = [left_out(arena.knobs, confirmed.settings, name) for name in confirmed.settings]
        tried = [(self._worst(arena, settings, cases), settings) for settings in proposals if settings]
        worst, settings = max(tried, key=lambda one: one[0], default=(0.0, None))
        return settings if worst >= helps else None

    def _late(self) -> bool:
        """Whether confirming has taken twice its time, and as long again as cores may be away for."""
        assert self._deadline
        return self._deadline.stopped or time.monotonic() - self._deadline.start > 2 * self._deadline.seconds + AWAY_S

    def _worst(self, arena: Arena, settings: Settings, cases: Sequence[Case]) -> float:
        try:
            with arena.against(settings, sorted({size for _, size in cases})) as comparison:
                comparison.measure(MORE_PAIRS, cases)
                return min(gain.value for gain in comparison.gains().values())
        except Unfit:
            return 0.0


def _finalists(search: Search) -> list[Settings]:
    """What loses least anywhere, the winner of the play-off, then the next best. (The best by score tend to fail at the
    same sizes.)"""
    others = search.gaining()
    if not search.winner:
        return []
    safest = max(others, key=lambda trial: min(gain.value for gain in trial.gains.values()), default=None)
    order = [search.winner, *(trial.settings for trial in others)]
    order = [safest.settings, *order] if safest else order
    return [settings for at, settings in enumerate(order) if settings not in order[:at]][:FINALISTS]


def left_out(knobs: KnobFile, settings: Settings, name: str) -> Settings | None:
    """Without the parameter; None if another needs it, or nothing is left."""
    rest = {n: value for n, value in settings.items() if n != name}
    without = repaired(knobs, rest)
    return without if without and len(without) <= len(rest) else None


def nearer(knobs: KnobFile, settings: Settings, slow: int) -> list[Settings]:
    """With one number nearer to its default; only what needs no other change. First limits lowered to `slow`, the least
    of the sizes that are slower, so that those go the default's way again; then the smallest changes."""
    found: list[tuple[int, Settings]] = []
    for name, value in settings.items():
        default = knobs[name].default
        if isinstance(default, str) or isinstance(value, str):
            continue
        between = [step for step in knobs[name].steps() if min(default, value) < step < max(default, value)]
        to_slow = max((step for step in between if step <= slow), default=None) if default < slow < value else None
        for distance, step in enumerate(sorted(between, reverse=value > default)):
            changed = {**settings, name: step}
            if repaired(knobs, changed) == changed:
                found.append((-1 if step == to_slow else distance, changed))
    return [changed for _, changed in sorted(found, key=lambda one: one[0])][:MOST_STEPS]


def _transport_and_knobs(inst: mpi.Installation) -> tuple[str, KnobFile]:
    transport, reason = mpi.transport_or_reason(inst)
    if not transport:
        raise MeasurementError(f"what carries messages under {inst.name} is not known: {reason}", "see nearfield mpi")
    return transport, find_knobs(inst.family, inst.version, transport)


def all_sizes(last_level_bytes: int) -> list[int]:
    """1 B to four times the last-level cache: every power of two up to 16 MiB, then every other one."""
    sizes = [1 << power for power in range(25)]
    return sizes + [last_level_bytes, 4 * last_level_bytes] if last_level_bytes > sizes[-1] else sizes
