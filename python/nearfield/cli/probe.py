"""`nearfield probe`: measure this machine and this MPI, or simulate one that is described."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nearfield import itself, mpi
from nearfield.cli import complete, probe_on
from nearfield.errors import UsageError
from nearfield.machine import machine_files
from nearfield.probe import TIERS, Listener, Request
from nearfield.probe import probe as run_probe
from nearfield.probe.launch import Job, describe_scenarios
from nearfield.probe.simulated.session import usable_cores
from nearfield.terminal import Terminal
from nearfield.units import parse_bytes

err = Console(stderr=True, highlight=False, soft_wrap=True)


INTERRUPTED = 130  # as shells say: 128 + SIGINT


def command(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help=f"{TIERS['quick'].summary}, fewer sizes")] = False,
    full: Annotated[bool, typer.Option("--full", help=f"{TIERS['full'].summary}, all sizes, many repetitions")] = False,
    budget: Annotated[
        float | None, typer.Option(help="this many seconds of measuring instead of the tier's", metavar="SECONDS")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="only this scenario (repeat for more); see --list", autocompletion=complete.scenarios),
    ] = None,
    sizes: Annotated[str, typer.Option(help="message sizes instead of the tier's, e.g. 8,4KiB,1MiB")] = "",
    mpi_name: Annotated[
        str | None,
        typer.Option("--mpi", help="which MPI: a name of `nearfield mpi`, or a path", autocompletion=complete.mpis),
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(min=2, help="ranks of collectives and load (default: one per core)")
    ] = None,
    pairs: Annotated[str, typer.Option(help="`one` pair per distance, or `all` of them")] = "one",
    hostfile: Annotated[
        Path | None, typer.Option(help="measure across these nodes too; lines HOST [slots=N] [cpus=0,2]")
    ] = None,
    launcher: Annotated[str | None, typer.Option(help="mpirun, mpiexec or srun (default: what fits)")] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="simulate instead: a described machine (see `nearfield machine`), its file, or a measured profile",
            metavar="MACHINE",
            autocompletion=complete.machines,
        ),
    ] = None,
    distance: Annotated[
        list[str] | None,
        typer.Option(help="with --on: only this distance, e.g. shared-l3 or network-1 (repeat for more)"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="with --on: simulate so many cases at a time (default: one per core)")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder for the profile")] = Path("nearfield-profile"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the profile that is there")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="complete an interrupted probe")] = False,
    keep_samples: Annotated[bool, typer.Option("--keep-samples", help="keep raw samples in the profile")] = False,
    list_: Annotated[bool, typer.Option("--list", help="list the scenarios and stop")] = False,
    json_: Annotated[bool, typer.Option("--json", help="with --list: as JSON")] = False,
) -> None:
    """Measure what caches, core distance, strides, pages and load do to this machine's MPI.

    Ranks bind themselves to cores, put message buffers into known cache states, and time what happens. The result is a
    profile: a folder that `nearfield show`, `diff` and `report` read. Keep the machine quiet meanwhile.

    Ctrl-C saves what was measured; --resume completes it.

    Examples:

      nearfield probe --quick

      nearfield probe --mpi mpich --scenario pingpong --sizes 8,4KiB,64KiB -o mpich-profile

      nearfield probe --quick --on leo3 -o leo3-profile
    """
    if list_:
        return probe_on.list_scenarios(json_) if on else _list(mpi_name, json_)
    if quick and full:
        raise UsageError("--quick and --full exclude each other", "leave one of them out")
    if pairs not in ("one", "all"):
        raise UsageError(f"--pairs {pairs}: must be 'one' or 'all'")
    if resume:
        _require_alone(ctx)
    elif on is None and (distance or jobs):
        raise UsageError(
            f"--{'distance' if distance else 'jobs'} is for simulating", "Add --on MACHINE, or leave it out."
        )
    elif on is not None:
        probe_on.refuse_live_options([name for name in ctx.params if _is_given(ctx, name)])
    request = Request(
        budget_s=budget,
        tier="quick" if quick else "full" if full else "default",
        scenarios=tuple(scenario or ()),
        sizes=tuple(parse_bytes(size) for size in sizes.split(",")) if sizes else (),
        mpi=mpi_name,
        ranks=ranks,
        all_pairs=pairs == "all",
        hostfile=str(hostfile.resolve()) if hostfile else None,
        launcher=launcher,
        command=shlex.join(["nearfield", *sys.argv[1:]]),
        on=_absolute(on),
        distances=tuple(distance or ()),
    )
    if on is not None or (resume and probe_on.was_simulated(out)):
        return probe_on.run(out, request, resume=resume, overwrite=overwrite, jobs=jobs or usable_cores())
    with _Display() as display:
        outcome = run_probe(
            out, request, resume=resume, overwrite=overwrite, keep_samples=keep_samples, listener=display
        )
    folder = escape(str(out))
    if not outcome.saved:
        err.print("stopped before anything was measured")
    elif not outcome.complete:
        again = escape(itself.command("probe", "--resume", "-o", out))
        err.print(f"stopped; what was measured is in [bold]{folder}[/bold]. To go on: {again}")
    else:
        err.print(f"profile: [bold]{folder}[/bold]   next: {escape(itself.command('report', out))}")
    raise typer.Exit(0 if outcome.complete else INTERRUPTED)


def _absolute(machine: str | None) -> str | None:
    """Files and folders as they can be found from anywhere, for --resume."""
    is_path = machine and machine not in machine_files() and Path(machine).exists()
    return str(Path(machine).resolve()) if is_path else machine


def _require_alone(ctx: typer.Context) -> None:
    """--resume measures what the interrupted probe was asked for."""
    allowed = {"resume", "out", "keep_samples", "jobs"}
    given = [name for name in ctx.params if _is_given(ctx, name) and name not in allowed]
    if given:
        option = {"mpi_name": "mpi"}.get(given[0], given[0])
        raise UsageError(
            f"--resume completes what was asked for; --{option} cannot change that",
            "leave it out, or start anew with --overwrite",
        )


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _list(mpi_name: str | None, as_json: bool) -> None:
    inst = mpi.choose(mpi_name)
    scenarios = describe_scenarios(inst, mpi.program(inst, progress=lambda text: err.print(escape(text))))
    if as_json:
        print(json.dumps(scenarios, indent=2))
        return
    Terminal().print(probe_on.table(scenarios, "what it measures"))


class _Display(Listener):
    """One progress bar over all launches; its unit is a second of measuring. In a log, a line for each launch."""

    def __enter__(self) -> _Display:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=err,
            refresh_per_second=2,
            transient=True,
            disable=not err.is_terminal,
        )
        self._task: Any = None
        self._done_s = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def plan(self, jobs: list[Job]) -> None:
        total = sum(sum(job.budgets.values()) for job in jobs)
        self._task = self._bar.add_task("starting", total=total)
        self._bar.start()

    def begin(self, job: Job) -> None:
        where = f"{job.group.distance or 'all cores'} ({job.group.pair})"
        self._label = f"{where} launch {job.number + 1}"
        self._bar.update(self._task, description=f"{self._label}: starting {len(job.group.places)} ranks")
        if not err.is_terminal:  # a log: a line for each launch
            err.print(f"{self._label}: {', '.join(job.budgets)}")

    def progress(self, job: Job, scenario: str, share: float) -> None:
        names = list(job.budgets)
        before = sum(job.budgets[name] for name in names[: names.index(scenario)])
        completed = self._done_s + before + share * job.budgets[scenario]
        self._bar.update(self._task, completed=completed, description=f"{self._label}: {scenario}")

    def end(self, job: Job, ending: dict[str, Any]) -> None:
        self._done_s += sum(job.budgets.values())
        self._bar.update(self._task, completed=self._done_s)
        if ending["state"] == "failed":
            err.print(f"[yellow]launch failed[/yellow] ({self._label}): {escape(ending['reason'])}")
