"""`nearfield advise`: prints notes on a program's MPI calls, with the cost of each on a measured machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.base.files import atomic_write
from nearfield.base.units import counted, parse_share
from nearfield.cli.options import AsJson, Sarif, TraceOrCommand, Valgrind, machine_option, out_option, profile_option
from nearfield.notes import Note, notes_as_dicts, notes_as_sarif, notes_as_text
from nearfield.notes.text import place_text
from nearfield.ui.terminal import Terminal

if TYPE_CHECKING:
    from nearfield.advise import Advice
    from nearfield.advise.run import AssumedMachine
    from nearfield.observe.trace import Trace

_LARGEST = 3  # number of losses to print if none is large enough for a note

_On = Annotated[
    str | None,
    machine_option(help="Losses on a described machine (see `nearfield machine`), on which the program is simulated."),
]
_Nodes = Annotated[
    int | None, typer.Option(min=1, help="With --on: number of nodes (default: that of the observed run).")
]
_MinLoss = Annotated[
    str, typer.Option(metavar="SHARE", help="The smallest loss that is worth a note, as a share of the run's time.")
]
_Times = Annotated[
    Path | None,
    typer.Option(metavar="TRACE", help="Times from this trace, of the same program compiled without hooks."),
]


def command(
    what: TraceOrCommand = None,
    profile: Annotated[Path | None, profile_option(help="The profile with the times of MPI calls.")] = None,
    on: _On = None,
    nodes: _Nodes = None,
    min_loss: _MinLoss = "1%",
    times: _Times = None,
    valgrind: Valgrind = False,
    out: Annotated[Path | None, out_option(help="Save the trace of COMMAND there (default: it is removed).")] = None,
    sarif: Sarif = None,
    as_json: AsJson = False,
) -> None:
    """Report what a program loses at its MPI calls, in the form of compiler notes: each note has the file and line of
    the call, the loss and the rule. Notes are ranked by the time lost on the machine of a profile.

    If the program was compiled with `nearfield cc`, `cxx` or `fc`, or if Valgrind runs it (--valgrind), all rules but
    those of waiting apply. For any other program only MPI calls are known, which is enough for the rules of waiting and
    some others. The first lines list the calls that cannot be judged; the last ones say what was examined, what was
    compared with what, and which rules could not be applied. The exit code is 6 if no call can be judged.

    The profile is ./nearfield-profile, or the only one in this folder; `nearfield probe --quick` measures one. With
    --on MACHINE, losses are those on a described machine: what calls cost there is simulated once and cached, and
    losses are shares of the simulated run time.

    Examples:

      nearfield advise -- mpirun -n 4 ./app

      nearfield advise --valgrind -- mpirun -n 4 ./app-of-somebody-else

      nearfield observe -- mpirun -n 4 ./app

      nearfield advise app.trace --min-loss 5% --sarif notes.sarif

      nearfield advise app.trace --on leo3 --nodes 2
    """
    from nearfield.cli.trace_argument import provide_trace
    from nearfield.observe.trace import Trace
    from nearfield.profile import load

    share = parse_share(min_loss)
    if on and (profile or times):
        raise UsageError("--on is another machine than that of --profile or --times", "leave one of them out")
    if nodes and not on:
        raise UsageError("--nodes is for --on", "add --on MACHINE, or leave it out")
    if on:
        from nearfield.cli.advise_on import require_simulable, simulate_on, simulated_profile_of
        from nearfield.machine import load_machine

        machine = load_machine(on)
    else:
        known = load(_find_profile(profile))
    with provide_trace(what or [], out, valgrind=valgrind, prints_data=as_json) as trace:
        if on:
            require_simulable(trace, machine, nodes)
            known = load(simulated_profile_of(machine, on))
        simulated_run = simulate_on(trace, machine, nodes) if on else None
        found = _compute_advice(trace, known, Trace(times) if times else None, simulated_run, share)
    if sarif:
        log = notes_as_sarif(
            found.notes,
            evaluated_rules=[spec.rule for spec in found.evaluated_rules],
            command_line=own_command.original_command_line(),
        )
        atomic_write(sarif, json.dumps(log, indent=1).encode(), "Give another file with --sarif.")
    if as_json:
        print(json.dumps(_advice_as_dict(found), indent=1))
    else:
        _print_advice(found)
    if not found.is_decided:
        raise typer.Exit(NOT_DECIDED_EXIT_CODE)


def _find_profile(path: Path | None) -> Path:
    from nearfield.profile import find_profile

    try:
        return find_profile(path)
    except UsageError as error:
        measure = f"measure one: {own_command.command_line('probe', '--quick')}; or name one with --profile"
        raise UsageError(f"no profile has the times of MPI calls: {error.message}", measure) from error


def _compute_advice(
    trace: Trace, known: Any, times: Trace | None, assumed: AssumedMachine | None, min_loss: float
) -> Advice:
    from nearfield.advise import advise, read_run
    from nearfield.cli.trace_argument import AccessReporter
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.ui.progress import ProgressDisplay

    with InterruptGuard() as stop, ProgressDisplay() as display:
        progress = AccessReporter(display, 2 * trace.metadata.accesses)
        try:
            run = stop.run(
                lambda: read_run(trace, known, timing_trace=times, assumed_machine=assumed, progress=progress)
            )
            return advise(run, min_loss)
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code) from None


def _print_advice(advice: Advice) -> None:
    terminal = Terminal()
    for warning in advice.warnings:
        terminal.print(f"[bold yellow]warning:[/bold yellow] {escape(warning)}")
    if advice.headline:
        terminal.print(escape(advice.headline))
    if advice.notes:
        print(notes_as_text(advice.notes))
    for note in advice.undecided_notes:
        terminal.print(f"[dim]cannot tell: {escape(place_text(note.place))}: {escape(note.message)}[/dim]")
    shown = [] if advice.notes else advice.notes_below_min_share[:_LARGEST]
    for note in shown:
        terminal.print(f"[dim]largest: {escape(_in_short(note))}[/dim]")
    if more := len(advice.notes_below_min_share) - len(shown):
        terminal.print(f"[dim]{counted(more, 'smaller loss', 'smaller losses')} not shown: --min-loss 0[/dim]")
    for remark in advice.remarks:
        terminal.print(f"[dim]{escape(remark)}[/dim]")


def _in_short(note: Note) -> str:
    """Returns a short description of a note: '0.42 % of the run at a.c:32 (cold-send)'."""
    share = (note.loss.share or 0.0) if note.loss else 0.0
    return f"{share * 100:.2g} % of the run at {place_text(note.place)} ({note.rule.id})"


def _advice_as_dict(advice: Advice) -> dict[str, Any]:
    run = advice.run
    return {
        "trace": str(run.trace.folder),
        "profile": str(run.profile.path),
        "seconds": run.seconds,
        "seconds_are": "simulated" if run.assumed_machine else "observed" if run.has_program_times else "estimated",
        "accesses": run.num_accesses,
        "ranks": len(run.ranks),
        "headline": advice.headline,
        "decided": advice.is_decided,
        "calls": advice.judged_calls.num_calls,
        "calls_not_judged": advice.judged_calls.num_unjudged,
        "warnings": advice.warnings,
        "notes": notes_as_dicts(advice.notes),
        "undecided": notes_as_dicts(advice.undecided_notes),
        "smaller_losses": len(advice.notes_below_min_share),
        "largest_smaller": notes_as_dicts(advice.notes_below_min_share[:_LARGEST]),
        "rules": [spec.rule.id for spec in advice.evaluated_rules],
        "remarks": advice.remarks,
    }
