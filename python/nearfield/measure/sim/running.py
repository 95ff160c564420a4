"""Simulates the cases that a store lacks, reports progress, and keeps finished cases however it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearfield.errors import MeasurementError
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.pool import Runner
from nearfield.measure.sim.store import Store

KEEP_EVERY_S = 20.0


class Listener:
    """Is told how a simulation gets on; the base class prints nothing."""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Says which cases will be simulated. `kept` more are there from an interrupted run."""

    def done(self, case: Case) -> None: ...


def simulate(
    cases: list[Case], store: Store, runner: Runner, listener: Listener, keep: Callable[[], None] | None = None
) -> bool:
    """Simulates the cases that the store lacks. Returns False if Ctrl-C ended it: then cases under way are lost. `keep`
    is called now and then to save the records so far. Raises MeasurementError."""
    different = list({store.key(case): case for case in cases}.values())
    left = [case for case in map(store.missing, different) if case]
    listener.plan(left, len(different) - len(left))
    saved = time.monotonic()
    try:
        for case, rows in runner(left):
            store.add(case, rows)
            listener.done(case)
            if keep and time.monotonic() - saved > KEEP_EVERY_S:
                keep()
                saved = time.monotonic()
    except KeyboardInterrupt:
        return False
    return True


def rows_now(cases: list[Case], runner: Runner, listener: Listener) -> list[Row]:
    """Simulates all cases and returns their records. Raises MeasurementError if it was stopped."""
    store = Store()
    if not simulate(cases, store, runner, listener):
        raise MeasurementError("the simulation was stopped")
    return store.rows(cases)
