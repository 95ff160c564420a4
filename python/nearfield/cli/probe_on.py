"""`nearfield probe --on MACHINE`: simulates the scenarios of `probe` on a described machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.measure import Request
from nearfield.measure.checkpoint import CheckpointFolder
from nearfield.measure.sim.cases import scenarios
from nearfield.measure.sim.describe import describe_scenario
from nearfield.measure.sim.pool import num_usable_cores
from nearfield.measure.sim.session import probe_on
from nearfield.profile.schema import Scenario
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import Column, Table, Terminal, err

# Parameters of `probe` that only apply to measurements, not to simulations.
LIVE_ONLY_PARAMETERS = {
    "budget",
    "launches",
    "mpi_name",
    "ranks",
    "pairs",
    "hostfile",
    "launcher",
    "keep_samples",
}
SIMULATED_ONLY_PARAMETERS = {"distance", "nodes", "policy", "memory_slowdown", "jobs"}
RESUME_PARAMETERS = {"resume", "out", "keep_samples", "jobs", "budget"}


def was_simulated(out: Path) -> bool:
    """Returns whether the interrupted probe at `out` simulates a described machine."""
    with suppress(UsageError):
        return CheckpointFolder(out.resolve()).read_request().on is not None
    return False


def check_options(typed: Iterable[str], *, resume: bool, simulated: bool) -> None:
    """Raises UsageError for a typed option that would change what an interrupted probe measures, that only applies to
    measurements if the probe simulates, or that only applies to simulations if it measures."""
    for name in typed:
        option = f"--{name.removesuffix('_name').strip('_').replace('_', '-')}"
        if resume and name not in RESUME_PARAMETERS:
            raise UsageError(
                f"--resume completes the same request; {option} cannot change that",
                "leave it out, or start again with --overwrite",
            )
        if simulated and name in LIVE_ONLY_PARAMETERS:
            raise UsageError(f"{option} is for measuring; with --on nothing is measured", "Leave it out.")
        if not (simulated or resume) and name in SIMULATED_ONLY_PARAMETERS:
            raise UsageError(f"{option} is for simulating", "Add --on MACHINE, or leave it out.")


def run(out: Path, request: Request, *, resume: bool, overwrite: bool, jobs: int | None) -> None:
    """Runs the simulation, prints its outcome, and exits with the exit code. Simulates `jobs` cases concurrently
    (default: one per core)."""
    jobs = jobs or num_usable_cores()
    with ProgressDisplay() as display:
        outcome = probe_on(out, request, resume=resume, overwrite=overwrite, jobs=jobs, report=display)
    folder = escape(str(out))
    if not outcome.is_saved:
        err.print("stopped before anything was simulated")
    elif not outcome.is_complete:
        again = escape(own_command.command_line("probe", "--resume", "-o", out))
        err.print(f"stopped; the finished cases are in [bold]{folder}[/bold]. To continue: {again}")
    else:
        err.print(f"simulated profile: [bold]{folder}[/bold]   next: {escape(own_command.command_line('report', out))}")
    raise typer.Exit(outcome.exit_code)


def list_scenarios(as_json: bool) -> None:
    """Prints the scenarios that can be simulated."""
    found = [describe_scenario(spec) for spec in scenarios().values()]
    if as_json:
        print(json.dumps([one.model_dump() for one in found], indent=2))
        return
    Terminal().print(table(found, "simulated operation"))


def table(scenarios: Iterable[Scenario], summary: str, ranks: Mapping[str, str] | None = None) -> Table:
    """Returns a table with a row for each scenario. `ranks` maps the name of a scenario to its number of ranks, as
    text."""
    column = [Column("ranks")] if ranks else []
    lists = (Column(name, prose=True) for name in (summary, "parameters", "metrics"))
    made = Table(Column("scenario", key=True), *column, *lists)
    for one in scenarios:
        names = (", ".join(item.name for item in items) for items in (one.parameters, one.metrics))
        made.add_row(one.name, *([ranks[one.name]] if ranks else []), escape(one.summary), *names)
    return made
