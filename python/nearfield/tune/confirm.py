"""Confirms the settings that a search found, at every size and in several launches, before they become a rule."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from nearfield.tune.arena import Arena
from nearfield.tune.confirmed import Confirmed
from nearfield.tune.criterion import FEW, NEVER_BELOW, NOISE, broken
from nearfield.tune.duel import Unfit
from nearfield.tune.gains import FEWEST_LAUNCHES, SURE_LAUNCHES, Case, Pair, alike, usual
from nearfield.tune.knobs import Settings
from nearfield.tune.repair import left_out, nearer
from nearfield.tune.search import Deadline, Search

FINALISTS, MENDED = 6, 2  # how many; steps of mending
PATIENCE = 0.25  # of the time: how long to wait for cores that have moved
MENDS = 0.05  # of stock's speed: by how much a parameter less must help where a setting was slower
PAIRS = 1  # of times of a case in a launch, since launches differ more than the pairs in one
MOST_LAUNCHES = 9  # where it is in doubt whether a case is slower
LOOKS = 3  # launches in which mending looks at the slower cases


class Confirming:
    """The finalists of one search, on one arena. Use `run` once."""

    def __init__(
        self,
        arena: Arena,
        search: Search,
        cases: Sequence[Case],
        limits: Sequence[int],
        deadline: Deadline,
        never_below: float = NEVER_BELOW,
    ) -> None:
        """A gain counts between the sizes of `limits`, in bytes, ascending (`Confirmed.gains_between`)."""
        self._arena, self._search, self._cases, self._limits = arena, search, cases, limits
        self._deadline, self._never_below = deadline, never_below

    def run(self) -> tuple[Confirmed | None, str]:
        """Returns the search's winner if it is slower than stock nowhere and surely faster somewhere, otherwise the
        first such finalist, otherwise None and the reason. After a finalist that is slower somewhere it tries a mended
        one, with the parameter that makes it slower changed or left out."""
        waiting = _finalists(self._search)
        seen, refused, looked = list(waiting), [], 0
        while waiting and not (looked and self._late()):  # one is enough then
            settings = waiting.pop(0)
            looked += 1
            self._await_cores()
            try:
                confirmed = self._confirmed(settings)
            except Unfit as error:
                refused.append(error.message)
                continue
            if not confirmed.slower:
                if confirmed.gains_between(self._limits):
                    return confirmed, ""
                continue
            refused.append(confirmed.loss)
            mended = self._mended(confirmed) if len(refused) <= MENDED and not self._late() else None
            if mended and mended not in seen and not self._search.refuses(mended):
                waiting.insert(0, mended)
                seen.append(mended)
        nothing = "nothing was faster than stock" if self._search.trials else "it was ended before anything was tried"
        return None, "; ".join(refused) or nothing

    def _await_cores(self) -> None:
        """Waits until the cores are in the place of most trials, since gains must be confirmed where they were found;
        at most for a part of the time."""
        usual_ns = median([trial.flag_ns for trial in self._search.trials if trial.flag_ns] or [0.0])
        patience = Deadline(PATIENCE * self._deadline.seconds)
        while (
            usual_ns and not (patience.over() or self._deadline.over()) and not alike(self._arena.flag_ns(), usual_ns)
        ):
            time.sleep(0.2)

    def _confirmed(self, settings: Settings) -> Confirmed:
        """Measures all cases in six launches, or at least three if it is late, and doubtful cases in up to three more.
        Only pairs in the usual place of the cores count; for a case without such pairs, those elsewhere do. Raises
        Unfit if the time is over before that, or if a case could not be measured anywhere."""
        found: dict[Case, list[Pair]] = defaultdict(list)
        cases: Sequence[Case] = self._cases
        for launch in range(MOST_LAUNCHES):
            for case, pairs in self._launch(settings, cases, PAIRS):
                found[case] += pairs
            confirmed = Confirmed.of(settings, usual(found), self._never_below)
            if self._deadline.stopped or self._hopeless(confirmed):
                break
            if self._deadline.late():
                if launch + 1 < FEWEST_LAUNCHES:
                    raise Unfit("was not confirmed before the time was over (a longer --budget helps)")
                break
            if launch + 1 >= SURE_LAUNCHES and not (cases := self._doubtful(confirmed)):
                break
        if len(confirmed.gains) < len(self._cases):
            confirmed = Confirmed.of(settings, found | usual(found), self._never_below)
        if not all(found[case] for case in self._cases):
            raise Unfit("was not measured at every size while the cores stayed where they were")
        return confirmed

    def _launch(self, settings: Settings, cases: Sequence[Case], count: int) -> Iterator[tuple[Case, list[Pair]]]:
        """Yields each case with `count` pairs from new launches of both jobs."""
        self._arena.launch_stock_again()
        with self._arena.against(settings, cases) as comparison:
            comparison.measure(count)
            yield from comparison.found.items()

    def _doubtful(self, confirmed: Confirmed) -> list[Case]:
        """Returns the cases that are probably slower than they may be, and those with too few launches in the usual
        place of the cores."""
        launches = {case: {pair.launch for pair in confirmed.pairs.get(case, [])} for case in self._cases}
        few = [case for case in self._cases if len(launches[case]) < FEWEST_LAUNCHES]
        return list(dict.fromkeys([*confirmed.doubtful, *few]))

    def _hopeless(self, confirmed: Confirmed) -> bool:
        """Returns whether more cases are slower, and by more, than chance can explain."""
        return len(broken(confirmed.gains, self._never_below - NOISE)) > FEW

    def _late(self) -> bool:
        return self._deadline.stopped or self._deadline.late()

    def _mended(self, confirmed: Confirmed) -> Settings | None:
        """Returns the settings with one parameter as little nearer to its default as makes no case slower; otherwise
        without the parameter whose absence helps the slower cases most; None if nothing helps."""
        knobs, cases = self._arena.knobs, confirmed.slower
        for settings in nearer(knobs, confirmed.settings, min(size for _, size in cases)):
            if self._late():
                return None
            if self._worst(settings, cases) >= self._never_below:
                return settings
        helps = min(self._never_below, min(confirmed.gains[case].value for case in cases) + MENDS)
        proposals = [left_out(knobs, confirmed.settings, name) for name in confirmed.settings]
        tried = [(self._worst(settings, cases), settings) for settings in proposals if settings]
        worst, best = max(tried, key=lambda one: one[0], default=(0.0, None))
        return best if worst >= helps else None

    def _worst(self, settings: Settings, cases: Sequence[Case]) -> float:
        """Returns the least gain of these cases; 0 if the settings cannot be used, or it is too late to measure."""
        found: dict[Case, list[Pair]] = defaultdict(list)
        try:
            for _ in range(LOOKS):
                if self._late():
                    return 0.0
                for case, pairs in self._launch(settings, cases, PAIRS):
                    found[case] += pairs
        except Unfit:
            return 0.0
        return min(gain.value for gain in Confirmed.of(settings, usual(found), self._never_below).gains.values())


def _finalists(search: Search) -> list[Settings]:
    """Returns the winner of the play-off, then the settings with the smallest loss anywhere, then the next best by
    score, which tend to fail at the same sizes as the winner."""
    others = search.gaining()
    if not search.winner:
        return []
    safest = max(others, key=lambda trial: min(gain.value for gain in trial.gains.values()), default=None)
    order = [search.winner, *([safest.settings] if safest else []), *(trial.settings for trial in others)]
    return [settings for at, settings in enumerate(order) if settings not in order[:at]][:FINALISTS]
