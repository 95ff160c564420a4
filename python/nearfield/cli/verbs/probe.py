"""`nearfield probe`: measures this machine and this MPI, or simulates a described machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.units import counted, parse_bytes
from nearfield.cli import complete
from nearfield.cli.axes import absolute_path, parse_counts, parse_factors, parse_policies
from nearfield.cli.options import Mpi, machine_option, out_option, require_single_option, typed_options
from nearfield.measure import TIERS, Request
from nearfield.measure.request import parse_filter
from nearfield.ui.terminal import Terminal, err

if TYPE_CHECKING:
    from nearfield.measure.checkpoint import RequestOutcome

_Full = Annotated[
    bool, typer.Option("--full", help=f"Measure for {TIERS['full'].summary}: all sizes, many repetitions.")
]
_Budget = Annotated[
    float | None,
    typer.Option(
        help="Stop after this many seconds, instead of the tier's time; --resume measures the rest.",
        metavar="SECONDS",
    ),
]
_Scenario = Annotated[
    list[str] | None,
    typer.Option(help="Only these scenarios, e.g. pingpong,stride; see --list.", autocompletion=complete.scenarios),
]
_Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="Restrict a scenario to values of a parameter, e.g. pingpong:state=reused (repeat for more).",
        metavar="SCENARIO:PARAMETER=VALUE,...",
    ),
]
_Launches = Annotated[
    int | None, typer.Option(min=1, help="Number of launches of each group of ranks, instead of the tier's.")
]
_Ranks = Annotated[
    int | None, typer.Option(min=2, help="Number of ranks of collectives and load (default: one per core).")
]
_Hostfile = Annotated[
    Path | None, typer.Option(help="Measure across these nodes, too; lines: HOST [slots=N] [cpus=0,2].")
]
_On = Annotated[
    str | None,
    machine_option(
        help="Simulate instead: a described machine (see `nearfield machine`), its file, or a measured profile."
    ),
]
_Distance = Annotated[
    list[str] | None,
    typer.Option(help="With --on: only this distance, e.g. shared-l3 or network-1 (repeat for more)."),
]
_Nodes = Annotated[
    str, typer.Option(help="With --on: on how many nodes collectives and load run, e.g. 8,64 (default: one node).")
]
_Policy = Annotated[
    str,
    typer.Option(
        help="With --on: where NICs put incoming bytes, e.g. memory,payload-l3, or all (default: the machine's own)."
    ),
]
_Jobs = Annotated[
    int | None, typer.Option(min=1, help="With --on: cases to simulate concurrently (default: one per core).")
]


def command(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help=f"Measure for {TIERS['quick'].summary}: fewer sizes.")] = False,
    full: _Full = False,
    budget: _Budget = None,
    scenario: _Scenario = None,
    sizes: Annotated[str, typer.Option(help="Message sizes instead of the tier's, e.g. 8,4KiB,1MiB.")] = "",
    filter_: _Filter = None,
    launches: _Launches = None,
    mpi_name: Mpi = None,
    ranks: _Ranks = None,
    pairs: Annotated[str, typer.Option(help="`one` pair per distance, or `all` of them.")] = "one",
    hostfile: _Hostfile = None,
    launcher: Annotated[str | None, typer.Option(help="mpirun, mpiexec or srun (default: the one that fits).")] = None,
    on: _On = None,
    distance: _Distance = None,
    nodes: _Nodes = "",
    policy: _Policy = "",
    memory_slowdown: Annotated[str, typer.Option(help="With --on: memory slowdown factors, e.g. 1,7.5.")] = "",
    jobs: _Jobs = None,
    out: Annotated[Path, out_option(help="The folder for the profile.")] = Path("nearfield-profile"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the profile that is there.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Complete an interrupted probe.")] = False,
    keep_samples: Annotated[bool, typer.Option("--keep-samples", help="Save raw samples in the profile.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the scenarios and stop.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --list: print JSON.")] = False,
) -> None:
    """Measure how caches, core distance, strides, pages and load affect this machine's MPI.

    Ranks bind themselves to cores, put message buffers into known cache states, and time the messages. The result is a
    profile: a folder that `nearfield show`, `diff` and `report` read. Keep the machine idle during the measurement.

    Ctrl-C saves what was measured; --resume completes it. With --budget the probe ends when the time is over, and
    --resume measures the rest.

    Examples:

      nearfield probe --quick

      nearfield probe --mpi mpich --scenario pingpong --sizes 8,4KiB,64KiB -o mpich-profile

      nearfield probe --quick --on leo3 -o leo3-profile

      nearfield probe --on power5-redstorm --scenario pingpong --policy all --memory-slowdown 1,7.5
    """
    from nearfield.cli import probe_on

    if list_:
        return probe_on.list_scenarios(json_) if on else _print_scenarios(mpi_name, json_)
    require_single_option(quick=quick, full=full)
    if pairs not in ("one", "all"):
        raise UsageError(f"--pairs {pairs}: must be 'one' or 'all'")
    simulated = probe_on.was_simulated(out) if resume else on is not None
    probe_on.check_options(typed_options(ctx), resume=resume, simulated=simulated)
    request = Request(
        budget_s=budget,
        tier="quick" if quick else "full" if full else "default",
        scenarios=tuple(name for names in scenario or () for name in names.split(",")),
        sizes=tuple(parse_bytes(size) for size in sizes.split(",")) if sizes else (),
        only=tuple(parse_filter(one) for one in filter_ or ()),
        launches=launches,
        mpi=mpi_name,
        ranks=ranks,
        all_pairs=pairs == "all",
        hostfile=str(hostfile.resolve()) if hostfile else None,
        launcher=launcher,
        command=own_command.original_command_line(),
        on=absolute_path(on),
        distances=tuple(distance or ()),
        nodes=tuple(parse_counts(nodes, "nodes")) if nodes else (),
        policies=parse_policies(policy) if policy else (),
        slowdowns=tuple(parse_factors(memory_slowdown)) if memory_slowdown else (),
    )
    if simulated:
        return probe_on.run(out, request, resume=resume, overwrite=overwrite, jobs=jobs)
    return _run_probe(out, request, resume=resume, overwrite=overwrite, keep_samples=keep_samples)


def _run_probe(out: Path, request: Request, *, resume: bool, overwrite: bool, keep_samples: bool) -> None:
    """Measures, prints the outcome, and exits with its exit code."""
    from nearfield.measure.live.session import probe
    from nearfield.ui.progress import ProgressDisplay

    with ProgressDisplay() as display:
        outcome = probe(out, request, resume=resume, overwrite=overwrite, keep_samples=keep_samples, report=display)
    _print_summary(outcome, out, request.budget_s)
    raise typer.Exit(outcome.exit_code)


def _print_summary(outcome: RequestOutcome, out: Path, budget_s: float | None) -> None:
    from nearfield.profile import load
    from nearfield.profile.stability import MAX_UNSTABLE_SHARE, unstable_share
    from nearfield.report.findings import quality

    folder, again = escape(str(out)), escape(own_command.command_line("probe", "--resume", "-o", out))
    if not outcome.is_saved:
        err.print("stopped before anything was measured")
    elif outcome.is_complete:
        profile = load(out)
        for finding in quality.find_moved_cores(profile):
            err.print(escape(finding.statement))
        if (unstable := unstable_share(profile)) > MAX_UNSTABLE_SHARE:
            err.print(f"[yellow]{unstable:.0%} of the times cannot be used, since too much moved meanwhile[/yellow]")
        err.print(f"profile: [bold]{folder}[/bold]   next: {escape(own_command.command_line('report', out))}")
    elif outcome.stop_signal:
        err.print(f"stopped; the measurements are in [bold]{folder}[/bold]. To continue: {again}")
    else:
        cases, launches = (
            counted(outcome.num_missed_cases, "case"),
            counted(outcome.num_skipped_launches, "launch", "launches"),
        )
        left = [f"{cases} not reached"] * bool(outcome.num_missed_cases) + [f"{launches} not begun"] * bool(
            outcome.num_skipped_launches
        )
        err.print(f"the {budget_s:g} s of --budget are over: {', '.join(left)}")
        err.print(f"the measurements are in [bold]{folder}[/bold]. To measure the rest without a time limit: {again}")


def _print_scenarios(mpi_name: str | None, as_json: bool) -> None:
    from nearfield import mpi
    from nearfield.cli.probe_on import table
    from nearfield.measure.live.launch import query_scenarios

    inst = mpi.choose_mpi(mpi_name)
    scenarios = query_scenarios(inst, mpi.build_target(inst, progress=lambda text: err.print(escape(text))))
    if as_json:
        print(json.dumps([one.model_dump() for one in scenarios], indent=2))
        return
    Terminal().print(table(scenarios, "measured quantity", {one.name: one.ranks for one in scenarios}))
