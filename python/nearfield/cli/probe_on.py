"""`nearfield probe --on MACHINE`: the same scenarios on a machine that is described instead of present."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from nearfield import itself
from nearfield.cli.work_bar import work_bar
from nearfield.errors import UsageError
from nearfield.probe.request import Request
from nearfield.probe.simulated import Watcher, scenarios, simulate
from nearfield.probe.simulated.cases import Case
from nearfield.probe.work import Work
from nearfield.terminal import Column, Table, Terminal
from nearfield.units import counted

err = Console(stderr=True, highlight=False, soft_wrap=True)
INTERRUPTED = 130  # as shells say: 128 + SIGINT
# Options of `probe` that are about ranks, launching and time, of which a simulation has none.
LIVE_ONLY = ("budget", "mpi_name", "ranks", "pairs", "hostfile", "launcher", "keep_samples")


def was_simulated(out: Path) -> bool:
    """Whether the interrupted probe at `out` is one of a described machine."""
    with suppress(UsageError):
        return Work(out.resolve()).read_request().on is not None
    return False


def refuse_live_options(given: list[str]) -> None:
    for name in given:
        if name in LIVE_ONLY:
            option = {"mpi_name": "mpi", "keep_samples": "keep-samples"}.get(name, name)
            raise UsageError(f"--{option} is for measuring; with --on nothing is measured", "Leave it out.")


def run(out: Path, request: Request, *, resume: bool, overwrite: bool, jobs: int) -> None:
    """Ends with the exit code."""
    with _Display() as display:
        outcome = simulate(out, request, resume=resume, overwrite=overwrite, jobs=jobs, watcher=display)
    folder = escape(str(out))
    if not outcome.saved:
        err.print("stopped before anything was simulated")
    elif not outcome.complete:
        again = escape(itself.command("probe", "--resume", "-o", out))
        err.print(f"stopped; what there is is in [bold]{folder}[/bold]. To go on: {again}")
    else:
        err.print(f"simulated profile: [bold]{folder}[/bold]   next: {escape(itself.command('report', out))}")
    raise typer.Exit(0 if outcome.complete else INTERRUPTED)


def list_scenarios(as_json: bool) -> None:
    found = [_described(spec) for spec in scenarios()]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    Terminal().print(table(found, "what is simulated"))


def table(scenarios: list[dict[str, Any]], summary: str) -> Table:
    """A line each; which ranks take part is said of those that are measured."""
    ranks = [Column("ranks")] if "ranks" in scenarios[0] else []
    lists = (Column(name, prose=True) for name in (summary, "parameters", "metrics"))
    made = Table(Column("scenario", key=True), *ranks, *lists)
    for one in scenarios:
        names = [", ".join(item["name"] for item in one[key]) for key in ("parameters", "metrics")]
        made.add_row(one["name"], *(one["ranks"] for _ in ranks), escape(one["summary"]), *names)
    return made


def _described(spec: Any) -> dict[str, Any]:
    return {
        "name": spec.name,
        "summary": spec.summary,
        "parameters": [{"name": p.name, "summary": p.summary} for p in spec.parameters],
        "metrics": [{"name": m.name, "unit": m.unit, "summary": m.summary} for m in spec.metrics],
    }


class _Display(Watcher):
    """One progress bar over all cases; in a log, a line for each scenario and place."""

    def __enter__(self) -> _Display:
        self._bar = work_bar(err)
        self._left: dict[str, int] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def plan(self, cases: list[Case], at_once: int) -> None:
        for case in cases:
            self._left[_where(case)] = self._left.get(_where(case), 0) + 1
        self._task = self._bar.add_task("simulating", total=sum(case.cost for case in cases))
        self._bar.start()
        err.print(f"simulating {counted(len(cases), 'case')}, {at_once} at a time")

    def done(self, case: Case) -> None:
        where = _where(case)
        self._left[where] -= 1
        self._bar.update(self._task, advance=case.cost, description=where)
        if not self._left[where] and not err.is_terminal:
            err.print(f"{where}: done")


def _where(case: Case) -> str:
    return f"{case.place.distance or 'all cores'}: {case.scenario}"
