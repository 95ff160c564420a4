"""`nearfield tune`: finds the MPI parameters with the fastest messages on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.base.units import format_bytes, format_size_range, parse_bytes, parse_share
from nearfield.cli.options import Mpi, out_option, require_single_option, typed_options
from nearfield.rules import paths
from nearfield.rules.criterion import MIN_GAIN
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.cli.tune_session import TuneOptions
    from nearfield.rules.schema import Rules, RuleTable

MAX_REGRESSION = 0.9  # max loss that the user may allow; a rule must not make a size ten times as slow

_AllMpis = Annotated[
    bool,
    typer.Option(
        "--all-mpis", help="Tune every MPI of `nearfield mpi`, one after the other, each with a rules file of its own."
    ),
]
_Budget = Annotated[float, typer.Option(help="Seconds per MPI, for all distances together.", metavar="SECONDS", min=5)]
_Out = Annotated[
    Path | None,
    out_option(
        help="Where the rules go (default: rules.toml, or with --all-mpis the folder nearfield-rules).", metavar="FILE"
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted tune of the same --out, for the rest of its time.")
]
_ConfirmBest = Annotated[
    bool,
    typer.Option(
        "--confirm-best", help="With --resume: confirm the best settings so far as rules, without further trials."
    ),
]
_Memory = Annotated[str, typer.Option(help="Limit of the shared memory per rank that a rule takes.", metavar="BYTES")]
_MaxRegression = Annotated[
    str, typer.Option(help="How much slower than the baseline a size may be if others gain.", metavar="SHARE")
]
_Exhaustive = Annotated[
    bool, typer.Option("--exhaustive", help="Try every combination of a grid, however long it takes.")
]


def command(
    ctx: typer.Context,
    mpi_name: Mpi = None,
    all_mpis: _AllMpis = False,
    budget: _Budget = 180.0,
    out: _Out = None,
    resume: _Resume = False,
    confirm_best: _ConfirmBest = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Discard an interrupted tune.")] = False,
    distance: Annotated[list[str] | None, typer.Option(help="Only this distance (repeat for more).")] = None,
    memory: _Memory = "64MiB",
    ranks_per_node: Annotated[
        int | None, typer.Option(help="Ranks per node, for --memory (default: one per core).", min=2)
    ] = None,
    max_regression: _MaxRegression = f"{1 - MIN_GAIN:.0%}",
    sizes: Annotated[str, typer.Option(help="Only these message sizes, e.g. 8,4KiB,1MiB.")] = "",
    exhaustive: _Exhaustive = False,
    collectives: Annotated[
        bool,
        typer.Option(
            "--collectives", help="Find the best algorithms of collectives, and nothing else (docs: collectives)."
        ),
    ] = False,
    native: Annotated[
        bool,
        typer.Option(
            "--native", help="With --collectives: search the MPI's own algorithms, which need no preloaded library."
        ),
    ] = False,
    ranks: Annotated[
        str, typer.Option(help="With --collectives: numbers of ranks, e.g. 2,8 (default: 2, 4, 8 ... cores).")
    ] = "",
    hostfile: Annotated[
        Path | None,
        typer.Option(help="With --collectives: span these nodes; lines: HOST [slots=N] [cpus=0,2]."),
    ] = None,
    calls: Annotated[
        Path | None,
        typer.Option(
            "--calls",
            metavar="FILE",
            help="With --collectives: only the collectives that `run --learn` counted in a program.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rules as JSON too.")] = False,
) -> None:
    """Find the protocol parameters that make this MPI's messages fastest, for every core distance of this machine.

    A baseline job and a candidate job stay resident on the same two cores and are measured alternately, milliseconds
    apart. The best candidate is confirmed in six launches, by ping-pong at every size from 1 B to four times the
    last-level cache, and by streams, exchanges, written and read messages and collectives at every fourth size. It
    becomes a rule only if it is significantly faster and no size is significantly slower: below 0.97 of the baseline's
    speed in ping-pong or in all message patterns together, or below 0.9 in one pattern or collective alone. If a
    hypervisor moves the cores during the tune, the rule holds for the placement in which they mostly were. Keep the
    machine idle.

    If the shared heap gains, rules turn it on: messages are then copied once, in user space (shared_heap = on;
    docs/explanation/shared-heap.md).

    Some settings make long messages much faster and short ones a little slower. `--max-regression 20%` allows that.

    Ctrl-C ends the tune immediately. Finished trials are saved in DEFAULT_RULES_FILE.trials until the rules are
    complete; `--resume` continues from there, and `--resume --confirm-best` makes rules of the trials so far, in less
    than a minute.

    The verdict on a distance is a rule, or that the MPI's defaults are best, or 'not decided', for instance if other
    programs use the cores. If a distance is not decided, the exit code is 6, the rules of other distances are saved,
    and `--resume` continues with the same budget again. A tune takes at most twice the budget, on a busy machine three
    times, plus 40 s for each distance; this limit is printed first.

    With `--all-mpis` the rules go into a folder, from which `run` and `compare` take those of the program's MPI. If one
    MPI fails, the others are tuned all the same, and the exit code is not 0.

    With `--collectives`, the collectives of one node are measured instead: nearfield's own algorithms against the
    MPI's, by operation, number of ranks and length, alternately in one process. The best algorithms are added to the
    rules, and `run` then preloads them. If the data do not show that nearfield's algorithm is as fast, the rules select
    the MPI's own.
    Without --budget this takes about a minute for each number of ranks. With --hostfile, the collectives of
    communicators that span these nodes are measured, with --ranks on each; nodes are expected to be like this one.

    With `--collectives --calls DEFAULT_RULES_FILE`, only the collectives of one program are measured: the operations,
    numbers of ranks and lengths that `nearfield run --learn DEFAULT_RULES_FILE` has counted. The rules of other lengths
    do not change.

    With `--collectives --native`, the MPI's own algorithms are measured against the one that the MPI chooses, without a
    preloaded library. Results are checked, and the rules select only algorithms that are significantly faster again in
    launches with the MPI's own files or variables. `run` sets these, and `export --collectives DEFAULT_RULES_FOLDER`
    writes them. This takes two minutes for each number of ranks, and five for Intel MPI, whose algorithms need a launch
    each.

    If Ctrl-C interrupts a tune of collectives, the decided rules are saved. The same command continues after the
    launches that were finished; --overwrite starts again.

    Next: `nearfield run -- mpirun ...`, `nearfield compare -- mpirun ...`, `nearfield export`.

    Examples:

      nearfield tune --budget 60

      nearfield tune --resume

      nearfield tune --all-mpis --budget 120 -o site-rules

      nearfield tune --collectives --ranks 2

      nearfield tune --collectives --calls calls.toml

      nearfield tune --collectives --native --mpi mpich
    """
    from nearfield.cli import tune_all
    from nearfield.cli.tune_session import TuneOptions
    from nearfield.tune.request import TuneRequest

    require_single_option(all_mpis=all_mpis, mpi=mpi_name)
    require_single_option(resume=resume, overwrite=overwrite)
    for name, value in {"ranks": ranks, "hostfile": hostfile, "native": native, "calls": calls}.items():
        if value and not collectives:
            raise UsageError(f"--{name} is for --collectives", "add --collectives")
    if collectives:
        require_single_option(native=native, hostfile=hostfile)
        require_single_option(native=native, calls=calls)
        require_single_option(sizes=sizes, calls=calls)
        require_single_option(collectives=True, all_mpis=all_mpis)
        budget = budget if "budget" in typed_options(ctx) else 0.0
        known = {"resume": resume, "overwrite": overwrite}
        _tune_collectives(
            out or Path(paths.DEFAULT_RULES_FILE),
            mpi_name,
            budget,
            ranks,
            sizes,
            hostfile,
            calls,
            native,
            as_json,
            **known,
        )
        return
    if confirm_best and not resume:
        raise UsageError("--confirm-best is for an interrupted tune", "add --resume")
    request = TuneRequest(
        mpi=mpi_name,
        budget_s=budget,
        exhaustive=exhaustive,
        memory_limit_bytes=parse_bytes(memory),
        never_below=_min_gain(max_regression),
        ranks_per_node=ranks_per_node,
        distances=tuple(distance or ()),
        sizes=_parse_sizes(sizes),
        command=own_command.original_command_line(),
    )
    options = TuneOptions(request, frozenset(typed_options(ctx)), resume, overwrite, confirm_best)
    if all_mpis:
        tune_all.run(out or Path(paths.DEFAULT_RULES_FOLDER), options, as_json)
    else:
        _tune_one(out or Path(paths.DEFAULT_RULES_FILE), options, as_json)


def _parse_sizes(sizes: str) -> tuple[int, ...]:
    return tuple(sorted({parse_bytes(size) for size in sizes.split(",")})) if sizes else ()


def _tune_collectives(
    out: Path,
    mpi_name: str | None,
    budget_s: float,
    ranks: str,
    sizes: str,
    hostfile: Path | None,
    calls: Path | None,
    native: bool,
    as_json: bool,
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    from nearfield.cli import tune_collectives, tune_native

    try:
        counts = [int(word) for word in ranks.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"--ranks {ranks}: not a list of numbers", "for example --ranks 2,8") from None
    if native:
        rules = tune_native.run(
            out, mpi_name, budget_s, counts, _parse_sizes(sizes), resume=resume, overwrite=overwrite
        )
    else:
        rules = tune_collectives.run(
            out, mpi_name, budget_s, counts, _parse_sizes(sizes), hostfile, calls, resume=resume, overwrite=overwrite
        )
    if as_json:
        print(json.dumps(rules.to_json(), indent=1))


def _min_gain(max_regression: str) -> float:
    """Converts --max-regression to the fraction of the baseline's speed that every message size must reach. Raises
    UsageError above MAX_REGRESSION."""
    share = parse_share(max_regression)
    if share > MAX_REGRESSION:
        raise UsageError(f"--max-regression {max_regression}: at most {MAX_REGRESSION:.0%}")
    return round(1 - share, 6)


def _tune_one(out: Path, options: TuneOptions, as_json: bool) -> None:
    from nearfield.cli.tune_session import INTERRUPTED, tune_and_save
    from nearfield.rules.schema import require_writable_rules_file
    from nearfield.tune.trial_log_file import TrialLogFile

    if out.is_dir():
        raise UsageError(
            f"'{out}' is a folder", f"name a file: -o {out / paths.DEFAULT_RULES_FILE}, or tune with --all-mpis"
        )
    if not options.resume:
        require_writable_rules_file(out)
    with TrialLogFile(out).open_locked(resume=options.resume) as unfinished:
        options.require_free(unfinished)
        request = options.begin(unfinished)
        rules: Rules | None = None
        try:
            rules = tune_and_save(unfinished, request, confirm_best=options.confirm_best)
        except SystemExit:  # raised by the handler of SIGTERM or SIGHUP
            if not unfinished.count_trials():
                err.print("ended before anything was measured")
            raise
        finally:
            if not (unfinished.count_trials() or unfinished.is_undecided()):
                unfinished.remove_file()
            elif unfinished.path.exists():
                again = "" if rules and rules.undecided else f". To continue: {_resume_command_line(out)}"
                err.print(escape(f"saved: {unfinished.describe_content()} in {unfinished.path}{again}"))
    if rules is None:
        if not unfinished.count_trials():
            err.print("ended before anything was measured")
        raise typer.Exit(INTERRUPTED)
    if as_json:
        print(json.dumps(rules.to_json(), indent=1))
    else:
        print_rules(rules)
    _print_next_steps(rules, out)


def _print_next_steps(rules: Rules, out: Path) -> None:
    """Prints where the rules were saved and which command to run next. Exits with NOT_DECIDED_EXIT_CODE if some core
    distance is not decided."""
    from nearfield.cli.tune_session import is_saved
    from nearfield.rules.schema import run_command_line

    if is_saved(rules):
        err.print(f"rules: [bold]{escape(str(out))}[/bold]")
    elif out.exists():
        err.print(escape(f"{out} is of an earlier tune, and is not changed"))
    if rules.has_any_setting:
        err.print(f"next: {escape(run_command_line(out))}")
    if rules.undecided:
        err.print(f"next: {escape(_resume_command_line(out))}")
        if any(one.seen for one in rules.undecided):
            err.print(
                "or, for rules of the best so far in less than a minute: "
                f"{escape(_resume_command_line(out))} --confirm-best"
            )
        raise typer.Exit(NOT_DECIDED_EXIT_CODE)


def _resume_command_line(out: Path) -> str:
    return own_command.command_line("tune", "--resume", "-o", out)


def print_rules(rules: Rules) -> None:
    """Prints the rules as human-readable text."""
    console = Terminal()
    if (busy := rules.busy_machine_note()) and rules.rule:
        console.print(f"[yellow]{busy}: tune again when it is quiet[/yellow]")
    for undecided in rules.undecided:
        console.print(f"[yellow]{escape(str(undecided))}[/yellow]")
    for rule in filter(lambda rule: rule.is_tuned_for_messages, rules.rule):
        if moved := rule.changed_latency_note():
            console.print(f"[yellow]{rule.distance}: {moved}[/yellow]")
        if not rule.parameters:
            console.print(f"[bold]{rule.distance}[/bold]: the defaults of this MPI are best ({escape(rule.reason)})")
            _print_rejected(console, rule)
            continue
        speed = "of the baseline's speed, all sizes and patterns"
        gained = f"{gain_text(rule.gain)} {speed}" if rule.gain else "gain not known"
        console.print(f"[bold]{rule.distance}[/bold]: {gained}")
        if brief := rule.few_launches_note():
            console.print(f"  [yellow]{brief}[/yellow]")
        console.print(_make_range_table(rule))
        if best := rule.gaining_range():
            span = format_size_range(best.from_bytes, best.to_bytes)
            console.print(f"  for messages of [bold]{span}[/bold]: {gain_text(best.gain)}")
        if slower := rule.slower_points():
            losses = ", ".join(f"{p.pattern} of {format_bytes(p.size_bytes)} {p.gain.value:.2f}x" for p in slower)
            console.print(f"  slower: {losses}")
        console.print("  " + ", ".join(f"{name} = {_format_value(value)}" for name, value in rule.parameters.items()))
        if rule.memory_per_rank_bytes:
            cost = format_bytes(rule.memory_per_rank_bytes)
            console.print(f"[dim]  shared memory: {cost} per rank at {rule.at_ranks_per_node} ranks per node[/dim]")
        _print_rejected(console, rule)


def _print_rejected(console: Terminal, rule: RuleTable) -> None:
    if rule.beyond:
        console.print(f"  there is more: {rule.beyond}")


def _make_range_table(rule: RuleTable) -> Table:
    table = Table(Column("sizes", key=True), *map(Column, ("all", *rule.message_patterns())))
    for one in rule.range:
        cells = [rule.format_pattern_gain(pattern, one) for pattern in rule.message_patterns()]
        table.add_row(format_size_range(one.from_bytes, one.to_bytes), gain_text(one.gain), *cells)
    return table


def gain_text(gain: Any) -> str:
    """Formats a gain, for example '2.81x (2.69 to 2.93)'."""
    return f"{gain.value:.2f}x ({gain.low:.2f} to {gain.high:.2f})"


def _format_value(value: int | str) -> str:
    return format_bytes(value) if isinstance(value, int) and value >= 1024 else str(value)
