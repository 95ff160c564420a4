"""`nearfield simulate run`: an observed program on a cluster of a described machine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nearfield import itself, profile
from nearfield.cli.axes import SimulatedMachine, parse_factors, parse_policies
from nearfield.cli.replay_tables import as_dict, runs_as_dict, show, show_runs
from nearfield.cli.simulated import Chosen, Course, is_command, simulate_apart, simulate_live, simulate_trace
from nearfield.cli.traced import Valgrind, traced
from nearfield.errors import UsageError
from nearfield.machine import load_machine
from nearfield.machine.frequency import at_frequency
from nearfield.measure.sim.axes import check_axes, chosen_policies
from nearfield.measure.sim.cases import BASE
from nearfield.measure.sim.pool import cores
from nearfield.simulate.program import save
from nearfield.simulate.replay import Cluster
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
    as_observed: Annotated[
        bool, typer.Option("--as-observed", help="what MPI leaves to time goes as on this host, not as simulated")
    ] = False,
    wtime: Annotated[bool, typer.Option("--wtime", help="MPI_Wtime returns simulated seconds to COMMAND")] = False,
    valgrind: Valgrind = False,
    keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="keep the trace of COMMAND there, too")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="save a profile, for show, diff and report")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Simulate a program on a cluster that is described, not present: what would another place for incoming bytes, or
    slower memory, do to it? A COMMAND is simulated while it runs, all ranks on this host; a TRACE was observed before.

    Every rank makes its own loads and stores in its node's caches and calls MPI as it does on this host; the simulated
    MPI sends its messages by MPICH's algorithms. What MPI leaves open, such as the sender of a receive from any source,
    the simulation decides for a COMMAND that runs meanwhile, by the first policy at the first speed; in a TRACE it goes
    as it did then. How many outcomes another policy or speed would have decided otherwise is told if it is more than
    1 %. All policies and speeds share one run; --apart has one for each, and runs a COMMAND once for each. Arithmetic
    is counted in the program's machine code.

    The first table shows the time of the rank that takes longest, the second one where the ranks' time goes by the base
    policy, and what other policies save there.

    Examples:

      nearfield observe -o trace -- mpirun -n 8 ./app

      nearfield simulate run trace --nodes 8 --policy header-l2,payload-l3

      nearfield simulate run trace --on my-cluster.toml --nodes 2 --memory-slowdown 1

      nearfield simulate run --policy payload-l3 -- mpirun -n 8 ./app
    """
    machine = at_frequency(load_machine(on), frequency) if frequency else load_machine(on)
    policies = _policies(chosen_policies(machine, parse_policies(policy)))
    slowdowns = tuple(parse_factors(memory_slowdown))
    check_axes(machine, policies, slowdowns)
    if out:
        profile.ensure_writable(out, overwrite=False)

    def cluster_of(ranks: int) -> Cluster:
        each = _ranks_per_node(ranks, nodes or ranks)
        return Cluster(machine, nodes or ranks, each, policies, slowdowns, apart)

    chosen = Chosen(cluster_of, policies, slowdowns, tuple(region or ()), threads or cores())
    course = Course(asks=not as_observed, clock=wtime)
    live = is_command(what) and not valgrind
    if wtime and (as_observed or not live):
        raise UsageError("--wtime is for a command that asks its simulation", "leave out --as-observed and --valgrind")
    if live and apart and not as_observed:
        if keep or out:
            raise UsageError("--apart runs the command several times", "--keep and --out are for one run")
        runs = simulate_apart(what, chosen, course)
        if as_json:
            print(json.dumps(runs_as_dict(runs), indent=1))
        else:
            show_runs(runs, shlex.join(what))
        return
    if live and not apart:
        done = simulate_live(what, keep, chosen, course)
    else:
        with traced(what, keep, valgrind=valgrind) as trace:
            done = simulate_trace(trace, chosen)
    if as_json:
        print(json.dumps(as_dict(done.found), indent=1))
    else:
        show(done.found, done.command, done.seconds, decided=done.decided)
    if out:
        save(out, done.found, itself.typed(), done.seconds)
        err.print(f"profile: [bold]{escape(str(out))}[/bold]   next: {escape(itself.command('report', out))}")


def _ranks_per_node(ranks: int, nodes: int) -> int:
    if ranks % nodes:
        raise UsageError(f"{counted(ranks, 'rank')} cannot be dealt out evenly to {counted(nodes, 'node')}")
    return ranks // nodes


def _policies(chosen: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((BASE, *chosen)))
