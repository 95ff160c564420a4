"""`nearfield tune`: find what makes this MPI's messages fastest on this machine."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nearfield.cli import complete
from nearfield.terminal import Column, Table, Terminal
from nearfield.tune.criterion import NEVER_BELOW
from nearfield.tune.gains import geometric_mean
from nearfield.tune.rules import Rules, RuleTable, applied_by, require_writable, save_rules
from nearfield.tune.search import Trial
from nearfield.tune.tuning import Listener, Request, Tuning
from nearfield.units import format_bytes, format_span, parse_bytes

INTERRUPTED = 130

err = Console(stderr=True, highlight=False, soft_wrap=True)


def command(
    mpi_name: Annotated[
        str | None,
        typer.Option("--mpi", help="Which MPI: a name of `nearfield mpi`, or a path.", autocompletion=complete.mpis),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Seconds for everything, all distances together.", metavar="SECONDS", min=5)
    ] = 180.0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the rules go.")] = Path("rules.toml"),
    distance: Annotated[list[str] | None, typer.Option(help="Only this distance (repeat for more).")] = None,
    memory: Annotated[
        str, typer.Option(help="Shared memory per rank that a rule may cost.", metavar="BYTES")
    ] = "64MiB",
    ranks_per_node: Annotated[int | None, typer.Option(help="For that cost (default: a rank per core).", min=2)] = None,
    never_below: Annotated[
        float, typer.Option(help="How slow a size may become, of stock's speed, where others gain.", min=0.1, max=1)
    ] = NEVER_BELOW,
    sizes: Annotated[str, typer.Option(help="Only these message sizes, e.g. 8,4KiB,1MiB.")] = "",
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Every combination of a grid, however long.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rules as JSON too.")] = False,
) -> None:
    """Find the protocol parameters that make this MPI's messages fastest, for every core distance of this machine.

    Two jobs, one with stock settings and one with the candidate, sleep on the same two cores and are measured in turn,
    milliseconds apart. What is found is confirmed in six launches, by ping-pong at every size from 1 B to four times
    the last-level cache, and by streams, exchanges, written and read messages and collectives at every fourth size. It
    is a rule only if it is surely faster and no size was found slower: below 0.97 of stock's speed in ping-pong or in
    all message patterns together, nor one pattern or collective alone below 0.9. Where the cores move meanwhile, as a
    virtual machine's do, that is for where they mostly were. Keep the machine quiet.

    Where it gains, messages are copied once, in user space, by the shared heap (shared_heap = on; docs/heap.md).

    Some settings make long messages much faster and short ones a little slower: with `--never-below 0.8` they are
    allowed to.

    Ctrl-C confirms and keeps the best so far; again ends at once.

    Next: `nearfield run -- mpirun ...`, `nearfield compare -- mpirun ...`, `nearfield export`.
    """
    request = Request(
        mpi=mpi_name,
        budget_s=budget,
        exhaustive=exhaustive,
        memory_limit_bytes=parse_bytes(memory),
        never_below=never_below,
        ranks_per_node=ranks_per_node,
        distances=tuple(distance or ()),
        sizes=tuple(sorted({parse_bytes(size) for size in sizes.split(",")})) if sizes else (),
        command=shlex.join(["nearfield", *sys.argv[1:]]),
    )
    require_writable(out)
    with _Display() as display:
        tuning = Tuning(request, display)
        previous = signal.signal(signal.SIGINT, _stopper(tuning, display))
        try:
            rules = tuning.run()
        except KeyboardInterrupt:
            err.print("ended; nothing is written")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            signal.signal(signal.SIGINT, previous)
    save_rules(rules, out)
    if as_json:
        print(json.dumps(rules.model_dump(exclude_none=True), indent=1))
    else:
        tell(rules)
    err.print(f"rules: [bold]{escape(str(out))}[/bold]   next: {escape(applied_by(out))}")


def _stopper(tuning: Tuning, display: Listener) -> Any:
    def stop(number: int, frame: FrameType | None) -> None:
        if tuning.stopped:
            raise KeyboardInterrupt
        tuning.stop()
        display.say("stopping: the best so far is confirmed and kept (again to end at once)")

    return stop


def tell(rules: Rules) -> None:
    """What was found, for a person."""
    console = Terminal()
    if busy := rules.busy():
        console.print(f"[yellow]{busy}: tune again when it is quiet[/yellow]")
    for rule in rules.rule:
        if moved := rule.moved():
            console.print(f"[yellow]{rule.distance}: {moved}[/yellow]")
        if not rule.parameters:
            console.print(f"[bold]{rule.distance}[/bold]: stock is best ({escape(rule.reason)})")
            _tell_beyond(console, rule)
            continue
        gained = f"{gain_text(rule.gain)} of stock's speed, all sizes and patterns" if rule.gain else "gain not known"
        console.print(f"[bold]{rule.distance}[/bold]: {gained}")
        console.print(_ranges(rule))
        if best := rule.gaining():
            span = format_span(best.from_bytes, best.to_bytes)
            console.print(f"  for messages of [bold]{span}[/bold]: {gain_text(best.gain)}")
        if slower := rule.slower():
            told = ", ".join(f"{p.pattern} of {format_bytes(p.size_bytes)} {p.gain.value:.2f}x" for p in slower)
            console.print(f"  slower: {told}")
        console.print("  " + ", ".join(f"{name} = {_value(value)}" for name, value in rule.parameters.items()))
        if rule.memory_per_rank_bytes:
            cost = format_bytes(rule.memory_per_rank_bytes)
            console.print(f"[dim]  shared memory: {cost} per rank at {rule.at_ranks_per_node} ranks per node[/dim]")
        _tell_beyond(console, rule)


def _tell_beyond(console: Terminal, rule: RuleTable) -> None:
    if rule.beyond:
        console.print(f"  there is more: {rule.beyond}")


def _ranges(rule: RuleTable) -> Table:
    table = Table(Column("sizes", key=True), *map(Column, ("all", *rule.patterns())))
    for one in rule.range:
        cells = [rule.gain_text(pattern, one) for pattern in rule.patterns()]
        table.add_row(format_span(one.from_bytes, one.to_bytes), gain_text(one.gain), *cells)
    return table


def gain_text(gain: Any) -> str:
    return f"{gain.value:.2f}x ({gain.low:.2f} to {gain.high:.2f})"


def _value(value: int | str) -> str:
    return format_bytes(value) if isinstance(value, int) and value >= 1024 else str(value)


class _Clock(Progress):
    """Its tasks are done when their time is over."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            task.completed = min(task.total or 0, task.elapsed or 0)
        return super().get_renderables()


class _Display(Listener):
    """One bar for the phase under way; in a log, a line for each phase."""

    def __enter__(self) -> _Display:
        self._bar = _Clock(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[best]}"),
            console=err,
            refresh_per_second=4,
            transient=True,
            disable=not err.is_terminal,
        )
        self._bar.start()
        self._task: Any = None
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def begin(self, distance: str, phase: str, seconds: float) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(f"{distance}: {phase}", total=seconds, best="")
        self._bar.start_task(self._task)
        if not err.is_terminal:
            err.print(f"{distance}: {phase} ({seconds:.0f} s)")

    def tried(self, trial: Trial, best: Trial | None, count: int) -> None:
        if best and best.gains:
            mean = geometric_mean(best.gains.values()).value
            self._bar.update(self._task, best=f"{count} tried, best {mean:.2f}x")
        if trial.reason and err.is_terminal:
            err.print(f"[dim]{trial.state}: {escape(trial.reason)}[/dim]")
