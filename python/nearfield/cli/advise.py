"""`nearfield advise`: notes on a program's MPI calls, with what each costs on a measured machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nearfield import itself
from nearfield.advise import Advice, advise, read_run
from nearfield.base.files import write_whole
from nearfield.cli.traced import AccessBar, Valgrind, traced
from nearfield.errors import UsageError
from nearfield.measure.stop import Stop
from nearfield.notes import as_dict, as_sarif, as_text
from nearfield.observe.trace import Trace
from nearfield.profile import find_profile, load
from nearfield.terminal import Terminal
from nearfield.units import counted, parse_share


def command(
    what: Annotated[
        list[str],
        typer.Argument(metavar="TRACE | -- COMMAND...", help="a folder that observe made, or a command"),
    ],
    profile: Annotated[
        Path | None, typer.Option("--profile", "-p", metavar="FOLDER", help="the profile with what calls cost")
    ] = None,
    least: Annotated[
        str, typer.Option(metavar="SHARE", help="the smallest loss that is worth a note, as a share of the run's time")
    ] = "1%",
    times: Annotated[
        Path | None,
        typer.Option(metavar="TRACE", help="times from this trace, of the same program compiled without hooks"),
    ] = None,
    valgrind: Valgrind = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="keep the trace of COMMAND there (default: it is removed)"),
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the notes as SARIF 2.1.0, for editors and CI")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Say what a program loses at its MPI calls, as a compiler's notes: at the file and line of each call, ranked by
    the time that is lost on the machine of a profile, each with its number and its rule.

    A program that was compiled with `nearfield cc`, `cxx` or `fc`, or that Valgrind runs (--valgrind), is judged by all
    rules but those of waiting; of any other one only MPI calls are known, which is enough for those and some others.
    The last lines say what was examined, what was compared with what, and what could not be judged.

    The profile is ./nearfield-profile, or the only one in this folder; `nearfield probe --quick` measures one, and with
    --on MACHINE simulates one of a machine that is not here.

    Examples:

      nearfield advise -- mpirun -n 4 ./app

      nearfield advise --valgrind -- mpirun -n 4 ./app-of-somebody-else

      nearfield observe -o trace -- mpirun -n 4 ./app

      nearfield advise trace --least 5% --sarif notes.sarif
    """
    share = parse_share(least)
    known = load(_profile(profile))
    with traced(what, out, valgrind=valgrind) as trace:
        found = _advice(trace, known, Trace(times) if times else None, share)
    if sarif:
        log = as_sarif(found.notes, rules=[spec.rule for spec in found.rules], command=itself.typed())
        write_whole(sarif, json.dumps(log, indent=1).encode(), "Give another file with --sarif.")
    if as_json:
        print(json.dumps(_plain(found), indent=1))
    else:
        _show(found, least)


def _profile(given: Path | None) -> Path:
    try:
        return find_profile(given)
    except UsageError as error:
        measure = f"measure one: {itself.command('probe', '--quick')}; or name one with --profile"
        raise UsageError(f"no profile says what calls cost: {error.message}", measure) from error


def _advice(trace: Trace, known: Any, times: Trace | None, least: float) -> Advice:
    with Stop() as stop, AccessBar(2 * trace.about.accesses) as bar:
        bar.start()
        try:
            return advise(stop.run(lambda: read_run(trace, known, times=times, progress=bar.pass_on)), least)
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code) from None


def _show(found: Advice, least: str) -> None:
    terminal = Terminal()
    if found.notes:
        print(as_text(found.notes))
    else:
        terminal.print(f"nothing to gain: no rule finds a loss of {least} of the run's time or more")
    if found.smaller:
        terminal.print(f"[dim]{counted(found.smaller, 'smaller loss', 'smaller losses')} not shown: --least 0[/dim]")
    for remark in found.remarks:
        terminal.print(f"[dim]{escape(remark)}[/dim]")


def _plain(found: Advice) -> dict[str, Any]:
    run = found.run
    return {
        "trace": str(run.trace.folder),
        "profile": str(run.profile.path),
        "seconds": run.seconds,
        "seconds_are": "observed" if run.timed else "estimated",
        "accesses": run.accesses,
        "ranks": len(run.ranks),
        "notes": as_dict(found.notes),
        "smaller_losses": found.smaller,
        "rules": [spec.rule.id for spec in found.rules],
        "remarks": found.remarks,
    }
