"""`nearfield simulate run`: an observed program on a cluster of a described machine."""

from __future__ import annotations

import json
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nearfield import itself, profile
from nearfield.cli.axes import SimulatedMachine, parse_factors, parse_policies
from nearfield.cli.replay_tables import as_dict, show
from nearfield.cli.traced import AccessBar, Valgrind, traced
from nearfield.errors import UsageError
from nearfield.machine import load_machine
from nearfield.machine.frequency import at_frequency
from nearfield.measure.sim.axes import check_axes, chosen_policies
from nearfield.measure.sim.cases import BASE
from nearfield.measure.stop import Stop
from nearfield.observe.places import line_of_call
from nearfield.observe.summary import read_flops, read_lines
from nearfield.observe.trace import Trace, broken_streams
from nearfield.simulate.program import save
from nearfield.simulate.replay import Cluster, Replay, run
from nearfield.simulate.shards import Alone, Shards
from nearfield.terminal import err
from nearfield.units import counted


def command(
    what: Annotated[
        list[str],
        typer.Argument(metavar="TRACE | -- COMMAND...", help="a folder that observe made, or a command"),
    ],
    on: SimulatedMachine = "power5-redstorm",
    nodes: Annotated[
        int | None, typer.Option(min=1, help="nodes, of equally many ranks (default: as many as ranks)")
    ] = None,
    policy: Annotated[str, typer.Option(help="where NICs put incoming bytes: payload-l3,ddio:ways=4, or all")] = "all",
    frequency: Annotated[
        float | None, typer.Option(metavar="GHZ", help="core frequency; memory keeps its bytes and latency in cycles")
    ] = None,
    memory_slowdown: Annotated[
        str, typer.Option(help="how many times as slow memory is as the machine describes, for up to four speeds")
    ] = "1,2.5,5,7.5",
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="count only this region: pcontrol, or a function that was observed alone"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="at most one per node (default: one per core); the result is the same")
    ] = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="a run for each policy and memory speed, with an order of events of its own"),
    ] = False,
    mpi: Annotated[
        bool, typer.Option("--mpi", help="on the processes of `mpiexec ...`, each with a part of the nodes")
    ] = False,
    valgrind: Valgrind = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="keep the trace of COMMAND there (default: it is removed)")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="save a profile, for show, diff and report")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Simulate an observed program on a cluster that is described, not present: what would another place for incoming
    bytes, or slower memory, do to it?

    Every rank makes its own loads and stores in its node's caches and calls MPI as it did when it was observed; the
    simulated MPI sends its messages by MPICH's algorithms. What MPI leaves open, such as the sender of a receive from
    any source, goes as it did then; how many outcomes another policy or speed would have decided otherwise is told if
    it is more than 1 %. All policies and speeds share one run, whose order of events is that of the first policy at the
    first speed; --apart simulates each by itself. Arithmetic is counted in the program's machine code.

    The first table shows the time of the rank that takes longest, the second one where the ranks' time goes by the base
    policy, and what other policies save there.

    Examples:

      nearfield observe -o trace -- mpirun -n 8 ./app

      nearfield simulate run trace --nodes 8 --policy header-l2,payload-l3

      nearfield simulate run trace --on my-cluster.toml --nodes 2 --memory-slowdown 1

      nearfield simulate run --policy payload-l3 -- mpirun -n 8 ./app

      mpiexec -n 4 nearfield simulate run trace --nodes 8 --mpi
    """
    asked = _Asked(on, nodes, policy, frequency, memory_slowdown, tuple(region or ()), threads, apart, out, as_json)
    if mpi:
        with Shards() as shards:
            _simulate(asked, shards.together(lambda: _trace_of(what, valgrind)), shards)
    else:
        with traced(what, keep, valgrind=valgrind) as trace:
            _simulate(asked, trace, Alone())


@dataclass(frozen=True)
class _Asked:
    """What the user asks for, as it was typed."""

    on: str
    nodes: int | None
    policy: str
    frequency: float | None
    memory_slowdown: str
    regions: tuple[str, ...]
    threads: int | None
    apart: bool
    out: Path | None
    as_json: bool


def _trace_of(what: list[str], valgrind: bool) -> Trace:
    """Returns the trace that all processes of an MPI job read. Raises UsageError for a command to observe."""
    if len(what) != 1 or not Path(what[0]).is_dir():
        observe = itself.command("observe", "-o", "trace", "--", "COMMAND")
        raise UsageError(f"--mpi takes a trace that is there, not {' '.join(what)}", f"first: {observe}")
    with traced(what, None, valgrind=valgrind) as trace:
        return trace


def _simulate(asked: _Asked, trace: Trace, shards: Alone) -> None:
    cluster = shards.together(lambda: _cluster(asked, trace, shards))
    begun = time.monotonic()
    found = _run(asked, trace, cluster, shards)
    shards.together(lambda: None if shards.number else _tell(asked, trace, found, time.monotonic() - begun))


def _cluster(asked: _Asked, trace: Trace, shards: Alone) -> Cluster:
    """Returns the cluster to simulate. Raises NearfieldError if it, or --out, is impossible."""
    if asked.out and not shards.number:
        profile.ensure_writable(asked.out, overwrite=False)
    machine = load_machine(asked.on)
    machine = at_frequency(machine, asked.frequency) if asked.frequency else machine
    ranks = len(trace.streams())
    nodes = asked.nodes or ranks
    cluster = Cluster(
        machine, nodes, _ranks_per_node(ranks, nodes),
        _policies(chosen_policies(machine, parse_policies(asked.policy))),
        tuple(parse_factors(asked.memory_slowdown)), asked.apart,
    )  # fmt: skip
    check_axes(machine, cluster.policies, cluster.slowdowns)
    if shards.count > nodes:
        raise UsageError(
            f"{shards.count} processes cannot share {counted(nodes, 'node')}", "start at most one for each node"
        )
    return cluster


def _run(asked: _Asked, trace: Trace, cluster: Cluster, shards: Alone) -> Replay:
    lines = shards.together(lambda: {} if shards.number else read_lines(trace))

    def line_of(called: str, frames: list[tuple[str, int]]) -> str:
        return str(line_of_call(lines, called, frames))

    def simulated() -> Replay:
        threads = asked.threads or shards.cores
        with broken_streams():
            return run(cluster, trace.streams(), read_flops(trace), line_of, asked.regions, pass_on, threads, shards)

    # Shards note a signal and tell the others when they next meet them.
    bar = None if shards.number else AccessBar(cluster.runs * trace.about.accesses)
    with Stop((lambda: True) if shards.count > 1 else None) as stop, bar or nullcontext():

        def pass_on(accesses: int) -> None:
            stop.check()
            shards.pass_on(accesses)
            if bar:
                bar.pass_on(shards.passed_by_all)

        if bar:
            bar.start()
        try:
            return shards.together(lambda: stop.run(simulated))
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code if stop.asked else 128 + signal.SIGINT) from None


def _tell(asked: _Asked, trace: Trace, found: Replay, seconds: float) -> None:
    """Prints what was found, and saves it if it is asked for."""
    if asked.as_json:
        print(json.dumps(as_dict(found), indent=1))
    else:
        show(found, trace, seconds)
    if out := asked.out:
        save(out, found, itself.typed(), seconds)
        err.print(f"profile: [bold]{escape(str(out))}[/bold]   next: {escape(itself.command('report', out))}")


def _ranks_per_node(ranks: int, nodes: int) -> int:
    if ranks % nodes:
        raise UsageError(f"{counted(ranks, 'rank')} cannot be dealt out evenly to {counted(nodes, 'node')}")
    return ranks // nodes


def _policies(chosen: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((BASE, *chosen)))
