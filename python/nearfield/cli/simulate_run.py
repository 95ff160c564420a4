"""`nearfield simulate run`: an observed program on a cluster of a described machine."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nearfield import itself, profile
from nearfield.cli.axes import SimulatedMachine, parse_factors, parse_policies
from nearfield.cli.replay_tables import as_dict, show
from nearfield.cli.work_bar import Standing, WorkBar
from nearfield.errors import MeasurementError, UsageError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.frequency import at_frequency
from nearfield.measure.sim.axes import check_axes, chosen_policies
from nearfield.measure.sim.cases import BASE
from nearfield.measure.stop import Stop
from nearfield.observe.observing import observe
from nearfield.observe.places import line_of_call
from nearfield.observe.summary import read_flops, read_lines
from nearfield.observe.trace import Trace, broken_streams
from nearfield.simulate.program import save
from nearfield.simulate.replay import Cluster, run
from nearfield.terminal import err
from nearfield.units import counted, format_rounded


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
    any source, goes as it did then. Arithmetic is counted in the program's machine code.

    The first table shows the time of the rank that takes longest, the second one where the ranks' time goes by the base
    policy, and what other policies save there.

    Examples:

      nearfield observe -o trace -- mpirun -n 8 ./app

      nearfield simulate run trace --nodes 8 --policy header-l2,payload-l3

      nearfield simulate run trace --on my-cluster.toml --nodes 2 --memory-slowdown 1

      nearfield simulate run --policy payload-l3 -- mpirun -n 8 ./app
    """
    with _traced(what, keep) as trace:
        machine = at_frequency(load_machine(on), frequency) if frequency else load_machine(on)
        _simulate(trace, machine, nodes, policy, memory_slowdown, region or [], out, as_json)


@contextmanager
def _traced(what: list[str], keep: Path | None) -> Iterator[Trace]:
    """Provides the trace that a folder holds or that the command leaves. Raises MeasurementError if it is not whole."""
    if len(what) == 1 and Path(what[0]).is_dir():
        yield Trace(Path(what[0]))
        return
    if len(what) == 1 and not shutil.which(what[0]):
        raise UsageError(f"{what[0]} is neither a trace nor a command", "name a folder that observe made")
    with tempfile.TemporaryDirectory(prefix="nearfield-", ignore_cleanup_errors=True) as folder:
        done = observe(what, keep or Path(folder) / "trace", progress=lambda line: err.print(f"nearfield: {line}"))
        if done.problem:
            raise MeasurementError(f"the program was not observed to its end: {done.problem}")
        yield done.trace


def _simulate(
    trace: Trace, machine: DescribedMachine, nodes: int | None, policy: str, memory_slowdown: str, regions: list[str],
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    if out:
        profile.ensure_writable(out, overwrite=False)
    streams = trace.streams()
    cluster = Cluster(
        machine, nodes or len(streams), _ranks_per_node(len(streams), nodes or len(streams)),
        _policies(chosen_policies(machine, parse_policies(policy))), tuple(parse_factors(memory_slowdown)),
    )  # fmt: skip
    check_axes(machine, cluster.policies, cluster.slowdowns)
    lines = read_lines(trace)

    def line_of(frames: list[tuple[str, int]]) -> str:
        return str(line_of_call(lines, frames))

    begun = time.monotonic()
    with Stop() as stop, _ReplayBar(trace.about.accesses) as bar, broken_streams():
        bar.start()
        try:
            found = stop.run(lambda: run(cluster, streams, read_flops(trace), line_of, regions, bar.pass_on))
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code) from None
    seconds = time.monotonic() - begun
    if as_json:
        print(json.dumps(as_dict(found), indent=1))
    else:
        show(found, trace, seconds)
    if out:
        save(out, found, itself.typed(), seconds)
        err.print(f"profile: [bold]{escape(str(out))}[/bold]   next: {escape(itself.command('report', out))}")


def _ranks_per_node(ranks: int, nodes: int) -> int:
    if ranks % nodes:
        raise UsageError(f"{counted(ranks, 'rank')} cannot be dealt out evenly to {counted(nodes, 'node')}")
    return ranks // nodes


def _policies(chosen: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((BASE, *chosen)))


class _ReplayBar(WorkBar):
    """Shows how much of the streams has been simulated."""

    def __init__(self, whole: int) -> None:
        super().__init__(err, self.standing)
        self._whole, self._done, self._begun = whole, 0, time.monotonic()

    def pass_on(self, accesses: int) -> None:
        """Notes how far it is."""
        self._done = accesses

    def standing(self) -> Standing:
        """Returns how far it is now."""
        seconds = time.monotonic() - self._begun
        share = min(1.0, self._done / self._whole) if self._whole else None
        what = (
            f"{format_rounded(self._done)} accesses, {format_rounded(self._done / seconds if seconds else 0)} a second"
        )
        return Standing(what, share, seconds * (1 / share - 1) if share else None)
