"""`nearfield reproduce`: judges the claims of papers by simulation and measurement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.cli.options import AsJson, Jobs, mpi_option, out_option
from nearfield.ui.terminal import err

if TYPE_CHECKING:
    from nearfield.measure.sim.cases import SimulationCase
    from nearfield.measure.sim.pool import FinishedCase
    from nearfield.reproduce.live.measure import LiveMeasurements
    from nearfield.reproduce.session import AnsweringTraces, ReproductionSettings, SelectedClaims
    from nearfield.reproduce.traced import ApplicationTrace


def _claim_names(incomplete: str) -> list[str]:
    """Returns the names of papers and claims that begin with `incomplete`, for shell completion."""
    from nearfield.reproduce.papers import claims_file_by_paper, load_paper

    papers = [load_paper(name) for name in claims_file_by_paper()]
    names = [*(paper.name for paper in papers), *(claim.id for paper in papers for claim in paper.claim)]
    return [name for name in names if name.startswith(incomplete)]


_Claims = Annotated[
    list[str] | None,
    typer.Argument(help="Papers or single claims: S0 S3.1 (default: all).", autocompletion=_claim_names),
]
_Out = Annotated[
    Path, out_option(help="The folder for the results; results that it already has are not simulated again.")
]
_Live = Annotated[
    bool, typer.Option("--live", help="Also measure on this machine: at most 15 minutes, with --quick 4.")
]
_LiveOnly = Annotated[bool, typer.Option("--live-only", help="Measure on this machine only, and simulate nothing.")]
_Hostfile = Annotated[
    Path | None, typer.Option(help="With --live: measure between these nodes, too; as `nearfield probe` takes it.")
]
_Traces = Annotated[
    list[str] | None,
    typer.Option(
        "--trace", metavar="NAME=TRACE", help="Also judge by a real program: amg=TRACE, fft:4MiB=TRACE (repeatable)."
    ),
]


_Collect = Annotated[
    Path | None,
    typer.Option("--collect", help="Print a table, machine by claim, of --live --json files in this folder."),
]


def command(
    claims: _Claims = None,
    quick: Annotated[bool, typer.Option("--quick", help="Simulate fewer sizes.")] = False,
    out: _Out = Path("reproduction"),
    jobs: Jobs = None,
    live: _Live = False,
    live_only: _LiveOnly = False,
    mpi_name: Annotated[str | None, mpi_option(help="With --live: which MPI, a name of `nearfield mpi`.")] = None,
    hostfile: _Hostfile = None,
    traces: _Traces = None,
    collect_from: _Collect = None,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate what five papers measured, on the machines that they describe, and judge each claim by the records.

    S0: caches and point-to-point. S1: shared memory. S2: tuning by locality. S3: strides and network load. S4: cache
    injection. Acoll is a further paper, on collectives inside a node, with a score of its own. Nothing is fitted to a
    claim: numbers come from machines/*.toml with their sources, and numbers that no source states are listed with the
    claims that depend on them (--json, and the page).

    A claim consists of statements. A number is reproduced if ours is within a quarter of the paper's. A shape is which
    curve is higher, where it is flat, or where it bends. Verdicts: 'within' (everything holds), 'shape only'
    (shapes hold, a number does not), 'in part', 'not', 'cannot tell', 'not simulated'.

    The folder gets a profile for each simulated machine, which `nearfield show` and `report` read, and report.html, a
    page with all verdicts. After Ctrl-C, the same command continues where it was interrupted.

    --live also tests the statements on this machine, as far as they apply to any machine: it measures in several
    launches, and a further column says 'holds', 'does not', or 'cannot tell' if launches differ too much, are
    incomplete, or ran while the machine was busy. The exit code is 6 if no statement could be decided. The verdicts on
    the papers are not affected. Some statements have a control, and an effect that its control shows, too, is an
    'artefact'. Keep the machine idle during the measurement. Each launch is saved as a profile.

    --trace uses a real program instead of the model of the application that the paper names: a trace of
    `nearfield observe`, on as many nodes as it has ranks. A further column shows the result; the verdicts are not
    affected.

    Examples:

      nearfield reproduce S0 S3 S4

      nearfield reproduce S4 --trace amg=amg-8 --trace amg=amg-64 --trace fft:4MiB=fft-8

      nearfield reproduce S0.4 S0.5 --out eager

      nearfield reproduce --live --quick S0 S1

      nearfield reproduce --live-only --json >epyc.json; nearfield reproduce --collect .

      nearfield reproduce --list
    """
    from nearfield.cli import reproduce_tables as tables
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.measure.sim import pool
    from nearfield.reproduce.collect import collect_machines
    from nearfield.reproduce.page import render_page
    from nearfield.reproduce.papers import select_claims
    from nearfield.reproduce.session import ReproductionSettings
    from nearfield.reproduce.session import reproduce as run_reproduction
    from nearfield.reproduce.traced import parse_traces
    from nearfield.ui.html import write_page
    from nearfield.ui.progress import ProgressDisplay

    if collect_from is not None:
        tables.print_collected(collect_machines(collect_from), as_json)
        return
    wanted = select_claims(list(claims or ()))
    if list_:
        tables.list_claims(wanted, as_json)
        return
    live = live or live_only
    if not live and (mpi_name or hostfile):
        raise UsageError(f"--{'mpi' if mpi_name else 'hostfile'} is for measuring", "Add --live, or leave it out.")
    real = parse_traces(traces or ())
    measured = _measure_claims(wanted, out, mpi_name, hostfile, quick) if live else None
    stopped = measured.stop_signal if measured else None
    at_once = jobs or pool.num_usable_cores()
    settings = ReproductionSettings(out, quick, own_command.original_command_line())
    by_traces = _simulate_traces(wanted, real, settings) if real else None
    with InterruptGuard() as stop, ProgressDisplay() as display:
        if stopped or live_only:
            found = run_reproduction(wanted, settings, _ignore_cases, live_measurements=measured, traced=by_traces)
        else:
            runner = pool.make_runner_on_cores(at_once, stop)
            found = run_reproduction(wanted, settings, runner, display, measured, by_traces, at_once)
    page = write_page(out / "report.html", render_page(found, out))
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        for paper in found.papers:
            if not live_only:
                tables.print_verdicts(paper)
            if live:
                tables.print_live_answers(paper)
        tables.print_counts(found, live_only)
    if stopped or (not found.complete and not live_only):
        err.print("stopped: incomplete claims are not judged; the same command continues")
        raise typer.Exit(128 + stopped if stopped else stop.exit_code)
    err.print(f"page: [bold]{escape(str(page))}[/bold]   the profiles are beside it")
    if live and not {"holds", "does not", "artefact"} & set(tables.live_answers(found)):
        err.print("no statement could be decided on this machine; the column 'here' has the reason for each")
        raise typer.Exit(NOT_DECIDED_EXIT_CODE)


def _measure_claims(
    selected_claims: SelectedClaims, out: Path, mpi_name: str | None, hostfile: Path | None, quick: bool
) -> LiveMeasurements:
    from nearfield import mpi
    from nearfield.reproduce.live.measure import MeasurementSetup, measure_profiles
    from nearfield.reproduce.session import open_record_store
    from nearfield.ui.progress import ProgressDisplay

    with open_record_store(out):
        pass
    inst = mpi.choose_mpi(mpi_name)
    setup = MeasurementSetup(
        out / "here" / inst.name, mpi_name or inst.name, str(hostfile.resolve()) if hostfile else None, quick
    )
    with ProgressDisplay() as display:
        return measure_profiles(selected_claims, setup, display)


def _simulate_traces(
    selected_claims: SelectedClaims, traces: list[ApplicationTrace], settings: ReproductionSettings
) -> AnsweringTraces:
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.reproduce.traced import simulate_traces

    with InterruptGuard() as stop:
        try:
            return stop.run(
                lambda: simulate_traces(
                    selected_claims, traces, settings, lambda line: err.print(f"nearfield: {escape(line)}")
                )
            )
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code) from None


def _ignore_cases(cases: list[SimulationCase]) -> Iterator[FinishedCase]:
    """A runner that simulates no case."""
    return iter(())
