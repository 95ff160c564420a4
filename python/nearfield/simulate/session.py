"""A simulation from request to profile: leaves out what is there already, and saves what there is at any end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearfield.simulate.case import Case, Result
from nearfield.simulate.folder import Folder
from nearfield.simulate.pool import Runner
from nearfield.simulate.request import Request, policy_order, refused
from nearfield.simulate.rows import Row, rows_of, slowdown_text

SAVE_EVERY_S = 20.0


class Listener:
    """What a simulation tells while it runs; the base class keeps quiet."""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Says which cases will be simulated. `kept` more are there from an interrupted run."""

    def done(self, case: Case, result: Result) -> None: ...


@dataclass
class Outcome:
    rows: list[Row] = field(default_factory=list)  # of what was asked for, earlier ones included
    events: int = 0
    seconds: float = 0.0  # of processors
    complete: bool = False  # False: the user stopped it


def simulate(
    request: Request, runner: Runner, listener: Listener, out: Path | None = None, command: str = ""
) -> Outcome:
    """Ctrl-C ends it with what there is. UsageError for what cannot be simulated; ProfileError if `out` is no profile
    of this machine, or cannot be written."""
    folder = Folder(out, request.machine, command) if out else None
    known = Known(folder.rows if folder else [])
    cases = list(request.cases())
    left = [case for case in map(known.missing, cases) if case]
    listener.plan(left, len(cases) - len(left))
    outcome, saved = Outcome(), time.monotonic()
    try:
        for case, result in runner(left):
            known.add(rows_of(case, result))
            outcome.events += result.events
            outcome.seconds += result.seconds
            listener.done(case, result)
            if folder and time.monotonic() - saved > SAVE_EVERY_S:
                folder.save(known.rows(), complete=False, seconds=outcome.seconds)
                saved = time.monotonic()
        outcome.complete = True
    except KeyboardInterrupt:
        pass
    except ValueError as error:
        raise refused(error) from error
    finally:
        if folder and left and known.added:
            folder.save(known.rows(), complete=outcome.complete, seconds=outcome.seconds)
    outcome.rows = known.of(cases)
    return outcome


class Known:
    """Records by what identifies them; those that are there stay."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows: dict[tuple, Row] = {_identity(row): row for row in rows}
        self.added = False

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            there = self._rows.get(_identity(row))
            if there is None or there["n"] != row["n"]:
                self._rows[_identity(row)] = row
        self.added = True

    def rows(self) -> list[Row]:
        """Sorted, so that the order in which cases end does not show."""
        return sorted(self._rows.values(), key=_order)

    def of(self, cases: list[Case]) -> list[Row]:
        keys = {key for case in cases for key in self._keys(case)}
        return [row for row in self.rows() if _short(row) in keys]

    def missing(self, case: Case) -> Case | None:
        """The case without the policies and speeds that are there; the first policy stays. None: all is there."""
        there = {_short(row) for row in self._rows.values() if row["metric"] == "time" and row["n"] == case.repetitions}
        lacking = [key for key in self._keys(case) if key[-1] is not None and key not in there]
        if not lacking:
            return None
        policies, texts = {key[-2] for key in lacking}, {key[-1] for key in lacking}
        return replace(
            case,
            policies=(case.policies[0], *(p for p in case.policies[1:] if p in policies)),
            slowdowns=tuple(factor for factor in case.slowdowns if slowdown_text(factor) in texts),
        )

    @staticmethod
    def _keys(case: Case) -> list[tuple]:
        place = (case.operation, case.size_bytes, case.ranks, case.nodes)
        texts = [None, *map(slowdown_text, case.slowdowns)]
        return [(*place, policy, text) for policy in case.policies for text in texts]


def _short(row: Row) -> tuple:
    return tuple(row.get(name) for name in ("operation", "size_bytes", "ranks", "nodes", "policy", "memory_slowdown"))


def _identity(row: Row) -> tuple:
    return (row["scenario"], row["metric"], *_short(row))


def _order(row: Row) -> tuple:
    """Times first, the usual one before all."""
    operation, size, ranks, nodes, policy, slowdown = _short(row)
    metric = row["metric"]
    return (operation, ranks, nodes, size, policy_order(policy), float(slowdown or "inf"), metric != "time", metric)
