"""Stock, resident, and one setting after another against it: what a search asks for numbers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearfield import _native
from nearfield.mpi import Installation
from nearfield.topology import Topology
from nearfield.tune.criterion import score
from nearfield.tune.duel import Contestant, Unfit, pairs
from nearfield.tune.gains import Case, Gain, Pair, gain, usual
from nearfield.tune.knobs import KnobFile, Settings


class ChampionUnfit(Unfit):
    """Not the setting that was to be measured fails, but the one that it was to be measured against."""


class Arena:
    """Two cores of one distance. Use as a context: stock is started at its begin and ended at its end."""

    def __init__(
        self,
        inst: Installation,
        engine: Path,
        topology: Topology,
        pair: tuple[int, int],
        knobs: KnobFile,
    ) -> None:
        self._inst, self._engine, self._topology, self._pair = inst, engine, topology, pair
        self.knobs = knobs
        self._stock: Contestant | None = None
        self._launches = 0
        self.all_pairs: list[Pair] = []  # whatever was measured

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_stock()

    @contextmanager
    def against(self, settings: Settings, cases: Sequence[Case]) -> Iterator[Comparison]:
        """These settings, running and checked, beside stock. Unfit if they cannot be used."""
        sizes = sorted({size for _, size in cases})
        stock = self._stock_at(sizes)
        self._launches += 1
        with self._contestant(sizes, self._environment(settings)) as other:
            comparison = Comparison(stock, other, cases, self.all_pairs, self._launches)
            for case in comparison.cases:
                other.check(case)
            try:
                yield comparison
            except Unfit as error:
                if error.contestant is not stock:
                    raise
                self._leave_stock()  # so that the next is measured against one that lives
                raise Unfit(f"stock, beside it, {error.message}") from error

    @contextmanager
    def champion(self, settings: Settings, cases: Sequence[Case]) -> Iterator[Champion]:
        """These settings, resident, for others to duel with directly. ChampionUnfit if they cannot be used."""
        with ExitStack() as stack:
            try:
                sizes = sorted({size for _, size in cases})
                job = stack.enter_context(self._contestant(sizes, self._environment(settings)))
            except Unfit as error:
                raise ChampionUnfit(error.message) from error
            yield Champion(job, settings, cases)

    def duel(self, champion: Champion, settings: Settings, passes: int) -> float:
        """How much better these settings are than the champion, as a score. Unfit if they cannot be used, ChampionUnfit
        if it is the champion who fails."""
        cases = champion.cases
        with self._contestant(sorted({size for _, size in cases}), self._environment(settings)) as challenger:
            for case in cases:
                challenger.check(case)
            self._launches += 1
            comparison = Comparison(champion.job, challenger, cases, self.all_pairs, self._launches)
            try:
                comparison.measure(passes)
            except Unfit as error:
                if error.contestant is champion.job:
                    raise ChampionUnfit(error.message) from error
                raise
            return score(comparison.gains())

    def _environment(self, settings: Settings) -> dict[str, str]:
        return self.knobs.for_launch(settings, os.environ)

    def _contestant(self, sizes: Sequence[int], environment: dict[str, str]) -> Contestant:
        common = {name: value for name, value in self.knobs.while_tuning.items() if name not in os.environ}
        return Contestant(self._inst, self._engine, self._topology, self._pair, sizes, {**common, **environment})

    def _stock_at(self, sizes: Sequence[int]) -> Contestant:
        """Stock, started anew if it measures other sizes."""
        if self._stock and {size for _, size in self._stock.cases} >= set(sizes):
            return self._stock
        self._leave_stock()
        self._stock = self._contestant(sizes, {}).__enter__()
        return self._stock

    def flag_ns(self) -> float:
        """How far apart the two cores are now."""
        return _native.flag_ns(*self._pair)

    def launch_stock_again(self) -> None:
        """Before the next comparison."""
        self._leave_stock()

    def _leave_stock(self) -> None:
        if self._stock:
            self._stock.__exit__(None, None, None)
            self._stock = None


@dataclass
class Champion:
    """A setting that others must beat."""

    job: Contestant
    settings: Settings
    cases: Sequence[Case]


class Comparison:
    """Pairs of times of stock and one setting, case by case, as they come."""

    def __init__(
        self, stock: Contestant, other: Contestant, cases: Sequence[Case], everything: list[Pair], launch: int
    ) -> None:
        """`everything`: where all pairs are noted, too. `launch`: the number that they get."""
        self._stock, self._other, self._everything, self._launch = stock, other, everything, launch
        self.cases = cases
        self.found: dict[Case, list[Pair]] = defaultdict(list)

    def measure(self, count: int, cases: Iterable[Case] | None = None) -> None:
        """So many more pairs of each case (default: all of them)."""
        for case in self.cases if cases is None else cases:
            taken = [p._replace(launch=self._launch) for p in pairs(self._stock, self._other, case, count)]
            self.found[case] += taken
            self._everything += taken

    def here(self) -> dict[Case, list[Pair]]:
        """The pairs that count: those taken with the cores as far apart as they mostly were."""
        return usual(self.found)

    def gains(self) -> dict[Case, Gain]:
        return {case: gain(pairs) for case, pairs in self.here().items()}
