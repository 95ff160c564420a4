"""Simulates what a store lacks, with progress, and keeps what is done at any end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nearfield.errors import MeasurementError
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.pool import Runner
from nearfield.measure.sim.store import Store

KEEP_EVERY_S = 20.0


class Listener:
    """What a simulation tells while it runs; the base class keeps quiet."""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Says which cases will be simulated. `kept` more are there from an interrupted run."""

    def done(self, case: Case) -> None: ...


@dataclass(frozen=True)
class Ran:
    """How far a simulation came."""

    complete: bool  # False: the user stopped it
    simulated: int  # cases of this run
    kept: int  # cases that were there already


def simulate(
    cases: list[Case], store: Store, runner: Runner, listener: Listener, keep: Callable[[], None] | None = None
) -> Ran:
    """Simulates the cases that the store lacks. Ctrl-C ends it with what there is: cases under way are lost. `keep` is
    called now and then, to save what is there. Raises MeasurementError."""
    different = list({store.key(case): case for case in cases}.values())
    left = [case for case in map(store.missing, different) if case]
    kept = len(different) - len(left)
    listener.plan(left, kept)
    done, saved = 0, time.monotonic()
    try:
        for case, rows in runner(left):
            store.add(case, rows)
            done += 1
            listener.done(case)
            if keep and time.monotonic() - saved > KEEP_EVERY_S:
                keep()
                saved = time.monotonic()
    except KeyboardInterrupt:
        return Ran(False, done, kept)
    return Ran(True, done, kept)


def rows_now(cases: list[Case], runner: Runner, listener: Listener) -> list[Row]:
    """Simulates all cases and returns their records. Raises MeasurementError if it was stopped."""
    store = Store()
    if not simulate(cases, store, runner, listener).complete:
        raise MeasurementError("the simulation was stopped")
    return store.rows(cases)
