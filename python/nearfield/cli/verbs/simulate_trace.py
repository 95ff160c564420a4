"""`nearfield simulate trace`: simulates a program's memory accesses, from a trace, on a described machine."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearfield._native import trace
from nearfield.base.errors import UsageError
from nearfield.base.units import counted
from nearfield.base.words import join_and
from nearfield.cli import complete
from nearfield.cli.axes import parse_factors
from nearfield.cli.options import (
    DEFAULT_MACHINE,
    AsJson,
    MemorySlowdown,
    Sensitivity,
    SimulatedMachine,
    SweepAsCsv,
    SweptKeys,
    require_single_format,
    require_single_option,
)
from nearfield.ui.terminal import err, print_csv

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.simulate.memory import Memory
    from nearfield.simulate.sensitivity import TraceSensitivity
    from nearfield.simulate.settings import TraceResult
    from nearfield.simulate.trace import TraceRun, TraceSelection
    from nearfield.ui.progress import ProgressDisplay


def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Traces, one after the other; - is standard input.")
    ],
    on: SimulatedMachine = DEFAULT_MACHINE,
    memory_slowdown: MemorySlowdown = "1",
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help=f"{join_and([one.name for one in trace.formats()])} are known (default: recognised by content).",
            autocompletion=complete.trace_formats,
        ),
    ] = "",
    instructions: Annotated[
        bool,
        typer.Option("--instructions", help="Simulate fetches of instructions as loads (default: only count them)."),
    ] = False,
    chase: Annotated[
        bool, typer.Option("--chase", help="Every load waits for the load before it: the other bound of the time.")
    ] = False,
    sweep: SweptKeys = None,
    sensitivity: Sensitivity = False,
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Skip the first N accesses.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N accesses (default: at the end).")
    ] = None,
    as_json: AsJson = False,
    as_csv: SweepAsCsv = False,
) -> None:
    """Simulate a program's own memory accesses, from a trace, on a described machine: where would they hit, and how
    long would they take?

    Traces of other tools are read as they are, also compressed by gzip, xz or bzip2. The tables show the hits and
    misses of each cache level, the DRAM traffic, and the time at every memory speed, as if the program did nothing but
    these accesses. No format says which loads need the data of others: the time assumes that none does, and is a lower
    bound. With --chase each load needs the one before, which is an upper bound for the accesses.

    din: Dinero's, `label address` (Dinero III) or `label address size` (Dinero IV's extended format).

    lackey: what valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM writes.

    view: what DynamoRIO's drrun -t drcachesim -tool view writes to stderr. Every thread runs on a core of its own, in
    the order of the trace; if there are more threads than cores, they share cores in turn.

    binary: little-endian addresses of 64 bits and nothing else, loads of 8 bytes, as numpy's tofile writes them.

    With --sweep, the trace is simulated once for each value of a key of the machine's file, and a table compares the
    times: --sweep 'memory.tier[0].share=0..1' says how much of the data may lie in a slower memory.

    With --sensitivity, the trace is simulated again for every number that the machine's file gives as chosen or fitted,
    at either end of its interval, or at half and twice its value where the file states none. Times, misses and traffic
    then have error bars, and a table has the values that matter most. This takes some fifty times as long; --limit
    takes a part.

    Ctrl-C shows what has been counted so far.

    Examples:

      nearfield simulate trace trace.din.gz

      nearfield simulate trace lackey.out --on my-machine.toml --memory-slowdown 1 --instructions

      nearfield simulate trace lackey.out --on grace --sweep memory.latency_ns=80..200 --sweep 'cache[2].ways=8,16'

      valgrind --tool=lackey --trace-mem=yes --log-fd=9 9>&1 1>/dev/null ./a.out | nearfield simulate trace -
    """
    from nearfield.cli.sensitivity_tables import print_trace_sensitivity
    from nearfield.cli.trace_tables import as_dict, print_trace_counts
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.simulate.memory import Memory
    from nearfield.simulate.trace import TraceRun, TraceSelection

    require_single_option(sweep=sweep, sensitivity=sensitivity)
    require_single_format(as_json, as_csv)
    if as_csv and not sweep:
        raise UsageError("--csv is for the table of --sweep", "add --sweep, or take --json")
    if sweep or sensitivity:
        from nearfield.simulate.settings import require_no_standard_input

        require_no_standard_input(files, "--sweep" if sweep else "--sensitivity")
    memory = Memory(on, parse_factors(memory_slowdown))
    choice = TraceSelection(format_, skip, limit, instructions, chase)
    if sweep:
        _simulate_sweep(memory, choice, files, sweep, as_json, as_csv)
        return
    with InterruptGuard() as stop:
        run = TraceRun(memory, choice, stop.run)
        begun = time.monotonic()
        whole = _read_traces(run, files, stop)
        seconds = time.monotonic() - begun
        varied = _compute_sensitivity(run, files, stop) if sensitivity and whole else None
    if as_json:
        print(json.dumps(as_dict(run, files, seconds, whole) | _sensitivity_as_dict(varied), indent=1))
    else:
        print_trace_counts(run, files, seconds)
        if varied:
            print_trace_sensitivity(varied, memory.memory_slowdown)
    if sensitivity and whole and not varied:
        err.print("stopped: there are no error bars")
        raise typer.Exit(stop.exit_code)
    if not whole:
        err.print(f"stopped: these are the counts of the first {run.accesses:,} accesses")
        raise typer.Exit(stop.exit_code)


def _simulate_sweep(
    memory: Memory, choice: TraceSelection, files: list[str], sweep: list[str], as_json: bool, as_csv: bool
) -> None:
    """Simulates the traces once for each combination of the swept values, and prints the results. If interrupted,
    prints those of the values that are finished, and exits."""
    from nearfield.cli.sweep_tables import print_trace_sweep, trace_sweep_as_dict, trace_sweep_rows
    from nearfield.machine.sweep import parse_sweep, setting_combinations
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.measure.sim import pool
    from nearfield.simulate.settings import simulate_with_settings
    from nearfield.ui.progress import ProgressDisplay

    settings = setting_combinations(parse_sweep(text, memory.machine) for text in sweep)
    finished: dict[int, TraceResult] = {}
    with InterruptGuard() as stop, ProgressDisplay() as display:
        progress = _progress_of_machines(display)
        try:
            stop.run(
                lambda: simulate_with_settings(
                    memory.machine,
                    memory.memory_slowdown,
                    choice,
                    files,
                    settings,
                    pool.num_usable_cores(),
                    progress,
                    finished,
                )  # fmt: skip
            )
        except KeyboardInterrupt:
            err.print(f"stopped: {len(finished)} of {counted(len(settings), 'value')} were simulated")
    settings, results = [settings[index] for index in sorted(finished)], [finished[index] for index in sorted(finished)]
    if not results:
        raise typer.Exit(stop.exit_code)
    if as_csv:
        print_csv(trace_sweep_rows(memory, settings, results))
    elif as_json:
        print(json.dumps(trace_sweep_as_dict(memory, files, settings, results), indent=1))
    else:
        print_trace_sweep(memory, files, settings, results, choice.chase)
    if stop.signal_number:
        raise typer.Exit(stop.exit_code)


def _progress_of_machines(display: ProgressDisplay) -> Callable[[int, int], None]:
    """Returns a function that shows how many variants of the machine have been simulated."""
    from nearfield.base.progress import Progress

    return lambda done, of: display(Progress(f"{done} of {of} machines with another value", done / of))


def _read_traces(run: TraceRun, files: list[str], stop: InterruptGuard) -> bool:
    """Simulates the accesses of all traces. Returns False if interrupted."""
    try:
        for name in files:
            _read_file(run, name, stop)
    except KeyboardInterrupt:
        return False
    return True


def _compute_sensitivity(run: TraceRun, files: list[str], stop: InterruptGuard) -> TraceSensitivity | None:
    """Simulates the traces once for each change of an uncertain value. Returns the error bars; None if interrupted."""
    from nearfield.measure.sim import pool
    from nearfield.simulate.sensitivity import sensitivity_of_trace
    from nearfield.ui.progress import ProgressDisplay

    with ProgressDisplay() as display:
        progress = _progress_of_machines(display)
        try:
            return stop.run(lambda: sensitivity_of_trace(run, files, pool.num_usable_cores(), progress))
        except KeyboardInterrupt:
            return None


def _sensitivity_as_dict(varied: TraceSensitivity | None) -> dict[str, Any]:
    from nearfield.cli.sensitivity_tables import trace_as_dict

    return {"sensitivity": trace_as_dict(varied)} if varied else {}


def _read_file(run: TraceRun, name: str, stop: InterruptGuard) -> None:
    from nearfield.cli.trace_argument import AccessReporter
    from nearfield.simulate.source import TraceSource
    from nearfield.ui.progress import ProgressDisplay

    with stop.run(lambda: TraceSource(name)) as source, ProgressDisplay() as display:
        reporter = AccessReporter(display, source=f", from {source.name}", before=run.accesses)

        def progress() -> None:
            reporter(run.accesses, run.completed_share(source))
            stop.raise_if_signalled()

        run.run(source, progress)
