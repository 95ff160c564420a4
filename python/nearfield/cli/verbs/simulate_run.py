"""`nearfield simulate run`: simulates an observed program on a cluster of a described machine.

The file is long because a third of it declares options, each with its description."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write
from nearfield.base.units import counted
from nearfield.base.words import join_and
from nearfield.cli.axes import parse_factors, parse_policies, ranks_per_node
from nearfield.cli.options import (
    DEFAULT_MACHINE,
    AsJson,
    FrequencyGhz,
    MemorySlowdown,
    Policy,
    Sensitivity,
    SimulatedMachine,
    SweepAsCsv,
    SweptKeys,
    TraceOrCommand,
    Valgrind,
    out_option,
    print_assumed_machine,
    require_single_format,
    require_single_option,
)
from nearfield.ui.terminal import err, print_csv, program_output_to_stderr

if TYPE_CHECKING:
    from nearfield.cli.run_simulation import SimulationParameters, SimulationResult
    from nearfield.measure.sim.mpi_shards import SingleShard
    from nearfield.observe.replay import Cluster
    from nearfield.observe.trace import Trace

_Nodes = Annotated[
    int | None,
    typer.Option(min=1, help="Number of nodes, of equally many ranks (default: as few as have a core for each)."),
]
_Region = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Count only this region: pcontrol, or a function that was observed alone."),
]
_Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Threads, at most one per node (default: one per core); the result does not depend on it."
    ),
]
_IndependentRuns = Annotated[
    bool,
    typer.Option("--independent-runs", help="Simulate each policy and memory speed in a run of its own (slower)."),
]
_Mpi = Annotated[
    bool, typer.Option("--mpi", help="Simulate on the processes of `mpiexec ...`, each with a part of the nodes.")
]
_ReplayOutcomes = Annotated[
    bool,
    typer.Option(
        "--replay-outcomes",
        help="Replay nondeterministic MPI outcomes as recorded, instead of letting the simulator decide.",
    ),
]
_Repeat = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        metavar="N",
        help="Simulate a TRACE N times, with ranks that start up to 100 ns apart at random, and print means with 95 % "
        "confidence intervals: ranks of a node share caches, so times scatter with the order of their accesses.",
    ),
]
_FirstReads = Annotated[
    bool,
    typer.Option(
        "--first-reads",
        help="Also print how long received data lies before the program reads it, by the line that receives it.",
    ),
]
_Timeline = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write what each rank did when as Chrome trace JSON, for https://ui.perfetto.dev."
    ),
]
_Goal = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the computed times and the messages in GOAL, for LogGOPSim and ATLAHS."),
]
_VirtualWtime = Annotated[bool, typer.Option("--virtual-wtime", help="MPI_Wtime of COMMAND returns simulated seconds.")]


def command(
    ctx: typer.Context,
    program: TraceOrCommand = None,
    on: SimulatedMachine = DEFAULT_MACHINE,
    nodes: _Nodes = None,
    policy: Policy = "all",
    frequency: FrequencyGhz = None,
    memory_slowdown: MemorySlowdown = "1",
    sweep: SweptKeys = None,
    sensitivity: Sensitivity = False,
    repeat: _Repeat = 1,
    first_reads: _FirstReads = False,
    region: _Region = None,
    threads: _Threads = None,
    independent_runs: _IndependentRuns = False,
    mpi: _Mpi = False,
    replay_outcomes: _ReplayOutcomes = False,
    virtual_wtime: _VirtualWtime = False,
    valgrind: Valgrind = False,
    keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep the trace of COMMAND there, too.")] = None,
    timeline: _Timeline = None,
    goal: _Goal = None,
    out: Annotated[Path | None, out_option(help="Save a profile, for show, diff and report.")] = None,
    as_json: AsJson = False,
    as_csv: SweepAsCsv = False,
) -> None:
    """Simulate a program on a cluster of a described machine: what would another NIC placement policy, or slower
    memory, change? A COMMAND is simulated while it runs, all ranks on this host; a TRACE was observed before.

    Every rank executes its own loads and stores in its node's caches and calls MPI as it does on this host; the
    simulated MPI uses MPICH's algorithms. For a COMMAND, the simulation decides nondeterministic outcomes, such as the
    sender of a receive from any source, by the first policy at the first speed; for a TRACE they are replayed as
    recorded. Warns if more than 1 % of nondeterministic outcomes would differ under another policy or memory
    speed. All policies and speeds share one run; with --independent-runs there is one for each, and a COMMAND runs once
    for each. Arithmetic is counted from the program's machine code.

    The first table shows the time of the slowest rank, the second one where the ranks spend time under the base policy,
    and what other policies save there.

    With --sweep, a TRACE is simulated once for each value of a key of the machine's file, and one table compares the
    times. With --sensitivity, every number that the file gives as chosen or fitted is changed alone, to either end of
    its interval, or to half and twice its value where the file states none; times then have error bars, and a table has
    the values that matter most. With --repeat, each of these simulations is repeated with ranks that start at other
    times, which tells what a value changes from what the order of accesses changes.

    --timeline and --goal describe the whole program at the first memory speed, under the policy that --policy names, or
    under the base policy if it names several. In GOAL, a rank is a node and a CPU is a rank of MPI; computation, caches
    and messages inside a node are times of `calc`, and messages between nodes are left to the other simulator, whose
    parameters for the machine's network are printed.

    Examples:

      nearfield observe -o trace -- mpirun -n 8 ./app

      nearfield simulate run trace --nodes 8 --policy header-l2,payload-l3

      nearfield simulate run trace --on my-cluster.toml --nodes 2 --memory-slowdown 1

      nearfield simulate run --policy payload-l3 -- mpirun -n 8 ./app

      nearfield simulate run trace --nodes 4 --policy payload-l3 --timeline app.json --goal app.goal

      nearfield simulate run trace --on my-cluster.toml --policy memory --sweep 'memory.tier[0].share=0..1'

      nearfield simulate run trace --nodes 1 --repeat 8

      mpiexec -n 4 nearfield simulate run trace --nodes 8 --mpi
    """
    from nearfield.cli.run_simulation import (
        OutcomeSource,
        is_command,
        simulate_independently,
        simulate_live,
        simulate_trace,
    )
    from nearfield.cli.trace_argument import provide_trace
    from nearfield.measure.sim.mpi_shards import SingleShard

    options = _Options(
        ctx, on, nodes, policy, frequency, memory_slowdown, tuple(region or ()), threads, independent_runs, timeline,
        goal, out, as_json, repeat, first_reads, as_csv,
    )  # fmt: skip
    program = program or []
    course = OutcomeSource(simulates_outcomes=not replay_outcomes, simulates_clock=virtual_wtime)
    live = is_command(program) and not (valgrind or mpi)
    if virtual_wtime and (replay_outcomes or not live):
        raise UsageError(
            "--virtual-wtime is for a command that its simulation drives", "leave out --replay-outcomes and --valgrind"
        )
    require_single_option(sweep=sweep, sensitivity=sensitivity)
    require_single_format(as_json, as_csv)
    if as_csv and not sweep:
        raise UsageError("--csv is for the table of --sweep", "add --sweep, or take --json")
    if first_reads and region:
        raise UsageError("--first-reads follows data through the whole program", "leave out --region")
    if sweep or sensitivity or repeat > 1:
        _require_table_options(
            {"--sweep": sweep, "--sensitivity": sensitivity, "--repeat": repeat > 1},
            {"--mpi": mpi, "--independent-runs": independent_runs, "--first-reads": first_reads, "--out": out,
             "--timeline": timeline, "--goal": goal, "a command": live},
        )  # fmt: skip
        with provide_trace(program, keep, valgrind=valgrind, prints_data=as_json or as_csv) as trace:
            _simulate_sweep(options, trace, sweep) if sweep else _simulate_repeatedly(
                options, trace, sensitivity=sensitivity
            )
    elif mpi:
        _simulate_on_shards(options, program, valgrind)
    elif live and independent_runs and not replay_outcomes:
        if keep or out:
            raise UsageError("--independent-runs runs the command several times", "--keep and --out are for one run")
        from nearfield.cli.replay_tables import print_runs, runs_as_dict

        with program_output_to_stderr(as_json):
            runs = simulate_independently(program, _make_simulation_parameters(options, SingleShard()), course)
        if as_json:
            print(json.dumps(runs_as_dict(runs), indent=1))
        else:
            print_runs(runs, shlex.join(program))
        _print_assumptions(options, runs[0].cluster)
    elif live and not independent_runs:
        with program_output_to_stderr(as_json):
            result = simulate_live(program, keep, _make_simulation_parameters(options, SingleShard()), course)
        _print_result(options, result)
    else:
        parameters = _make_simulation_parameters(options, SingleShard())
        with provide_trace(program, keep, valgrind=valgrind, prints_data=as_json or as_csv) as trace:
            _print_result(options, simulate_trace(trace, parameters, SingleShard()))


_ANOTHER_FILE = "name another file, in a folder that you may write"


@dataclass(frozen=True)
class _Options:
    """The options of `nearfield simulate run` as typed by the user."""

    ctx: typer.Context
    on: str
    nodes: int | None
    policy: str
    frequency: float | None
    memory_slowdown: str
    regions: tuple[str, ...]
    threads: int | None
    independent_runs: bool
    timeline: Path | None
    goal: Path | None
    out: Path | None
    as_json: bool
    repeat: int
    first_reads: bool
    as_csv: bool


def _simulate_sweep(options: _Options, trace: Trace, sweep: list[str]) -> None:
    """Simulates the trace once for each combination of the swept values, and prints the times."""
    from nearfield.cli.run_variants import simulate_variants
    from nearfield.cli.sweep_tables import print_program_sweep, program_sweep_as_dict, program_sweep_rows
    from nearfield.machine.sweep import parse_sweep, setting_combinations, with_settings
    from nearfield.measure.sim.mpi_shards import SingleShard

    parameters = _make_simulation_parameters(options, SingleShard())
    machine = parameters.cluster_of(len(trace.streams())).machine
    settings = setting_combinations(parse_sweep(text, machine) for text in sweep)
    machines = [with_settings(machine, setting) for setting in settings]  # before anything is simulated
    result = simulate_variants(trace, parameters, machines, options.repeat)
    found = [(setting, one) for setting, one in zip(settings, result.by_machine, strict=True) if one]
    if found:
        finished, results = [setting for setting, _ in found], [one for _, one in found]
        if options.as_csv:
            print_csv(program_sweep_rows(finished, results))
        elif options.as_json:
            print(json.dumps(program_sweep_as_dict(finished, results), indent=1))
        else:
            print_program_sweep(trace.metadata.command, finished, results)
        _print_assumptions(options, results[0].cluster)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _simulate_repeatedly(options: _Options, trace: Trace, *, sensitivity: bool) -> None:
    """Simulates the trace as often as --repeat says, with `sensitivity` also for each change of an uncertain value, and
    prints the times, with error bars."""
    from nearfield.cli.replay_tables import as_dict, print_replay
    from nearfield.cli.run_variants import simulate_variants
    from nearfield.cli.sensitivity_tables import print_program_sensitivity, program_as_dict
    from nearfield.machine.sweep import with_settings
    from nearfield.machine.uncertainty import uncertainty_of
    from nearfield.measure.sim.mpi_shards import SingleShard
    from nearfield.observe.sensitivity import sensitivity_of_program
    from nearfield.observe.summary import missing_function_names_advice

    parameters = _make_simulation_parameters(options, SingleShard())
    machine = parameters.cluster_of(len(trace.streams())).machine
    uncertainty = uncertainty_of(machine) if sensitivity else None
    variations = uncertainty.variations if uncertainty else ()
    machines = [machine, *(with_settings(machine, ((one.key, one.other),)) for one in variations)]
    result = simulate_variants(trace, parameters, machines, options.repeat)
    base, *others = result.by_machine
    results = [one for one in others if one]
    if base:
        found = None
        if uncertainty and len(results) == len(variations):
            found = sensitivity_of_program(base, dict(zip(variations, results, strict=True)), uncertainty.fixed_keys)
        if options.as_json:
            print(json.dumps(as_dict(base) | ({"sensitivity": program_as_dict(found)} if found else {}), indent=1))
        else:
            print_replay(
                base, trace.metadata.command, result.seconds, decides_outcomes=False, simulations=result.simulations
            )
            if found:
                print_program_sensitivity(found, base.cluster.slowdowns)
        if lack := missing_function_names_advice(result.named_lines):
            err.print(f"nearfield: {escape(lack)}")
        _print_assumptions(options, base.cluster)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _simulate_on_shards(options: _Options, program: list[str], valgrind: bool) -> None:
    from nearfield.cli.run_simulation import simulate_trace
    from nearfield.measure.sim.mpi_shards import MpiShards

    with MpiShards() as shards:
        trace = shards.run_on_all(lambda: _provide_shard_trace(program, valgrind))
        parameters = shards.run_on_all(lambda: _make_simulation_parameters(options, shards))
        result = simulate_trace(trace, parameters, shards)
        shards.run_on_all(lambda: None if shards.shard_index else _print_result(options, result))


def _provide_shard_trace(program: list[str], valgrind: bool) -> Trace:
    """Returns the trace that all processes of the MPI job read. Raises UsageError for a command, which cannot be
    observed by several processes."""
    from nearfield.cli.trace_argument import provide_trace

    if program and (len(program) != 1 or not Path(program[0]).is_dir()):
        observe = own_command.command_line("observe", "-o", "trace", "--", "COMMAND")
        raise UsageError(f"--mpi takes a trace that is there, not {' '.join(program)}", f"first: {observe}")
    with provide_trace(program, None, valgrind=valgrind) as trace:
        return trace


def _make_simulation_parameters(options: _Options, shards: SingleShard) -> SimulationParameters:
    """Returns the simulation that the options describe. Raises NearfieldError if it is impossible, or if the --out
    folder cannot be written."""
    from nearfield import profile
    from nearfield._native import simulation
    from nearfield.cli.run_simulation import SimulationParameters
    from nearfield.machine import load_machine
    from nearfield.machine.frequency import scale_to_frequency
    from nearfield.measure.sim.axes import check_axes, select_policies
    from nearfield.measure.sim.cases import BASE_POLICY
    from nearfield.measure.sim.usual import min_nodes_for_ranks
    from nearfield.observe.replay import Cluster

    machine = load_machine(options.on)
    machine = scale_to_frequency(machine, options.frequency) if options.frequency is not None else machine
    policies = tuple(dict.fromkeys((BASE_POLICY, *select_policies(machine, parse_policies(options.policy)))))
    slowdowns = tuple(parse_factors(options.memory_slowdown))
    check_axes(machine, policies, slowdowns)
    if len(policies) > simulation.max_policies:
        others = simulation.max_policies - 1
        raise UsageError(
            f"{len(policies)} policies with the base policy '{BASE_POLICY}', and one run simulates it and at most "
            f"{others} others",
            "name fewer, and run it again for the rest",
        )
    if options.out and not shards.shard_index:
        profile.ensure_writable(options.out, remedy="Give another name, or remove that folder.")
    scheduled_policy = None
    if options.timeline or options.goal:
        _require_whole_program(options)
        named = [policy for policy in policies if policy in parse_policies(options.policy)]
        scheduled_policy = policies.index(named[0]) if len(named) == 1 else 0

    def cluster_of(ranks: int) -> Cluster:
        nodes = options.nodes or min_nodes_for_ranks(machine, ranks)
        each = ranks_per_node(ranks, nodes)
        if shards.num_shards > nodes:
            raise UsageError(
                f"{shards.num_shards} processes cannot share {counted(nodes, 'node')}",
                "start at most one for each node",
            )
        return Cluster(machine, nodes, each, policies, slowdowns, options.independent_runs)

    threads = options.threads or shards.num_cores
    return SimulationParameters(
        cluster_of, policies, slowdowns, options.regions, threads, scheduled_policy, options.first_reads
    )


def _require_table_options(several: dict[str, object], others: dict[str, object]) -> None:
    """Raises UsageError if any of the `others` is given: the `several` options simulate a trace several times."""
    if given := [name for name, value in others.items() if value]:
        named = join_and([name for name, value in several.items() if value])
        first = own_command.command_line("observe", "-o", "trace", "--", "COMMAND")
        remedy = f"first: {first}" if given == ["a command"] else "leave one out"
        raise UsageError(f"{named} cannot be used with {join_and(given)}", remedy)


def _require_whole_program(options: _Options) -> None:
    """Raises UsageError if --timeline or --goal stand beside options with which there is no schedule of the whole
    program, or name a file that cannot or must not be written, and ProfileError if it cannot be written."""
    from nearfield.cli.trace_argument import require_output_file

    if options.regions or options.independent_runs:
        raise UsageError(
            "--timeline and --goal describe one run of the whole program", "leave out --region and --independent-runs"
        )
    for option, file in (("--timeline", options.timeline), ("--goal", options.goal)):
        if file:
            require_output_file(file, option)
    if options.timeline == options.goal:
        raise UsageError("--timeline and --goal name one file", "name two")


def _print_result(options: _Options, result: SimulationResult) -> None:
    """Prints the result of the simulation, and saves it if --out is given."""
    from nearfield.cli.first_read_table import first_reads_as_dict, print_first_reads
    from nearfield.cli.replay_tables import as_dict, print_replay
    from nearfield.observe.repeats import RepeatedReplay
    from nearfield.observe.replay_profile import save_replay
    from nearfield.observe.summary import missing_function_names_advice

    repeated_replay = RepeatedReplay((result.replay,))
    if options.as_json:
        more = first_reads_as_dict(result.replay) if options.first_reads else {}
        print(json.dumps(as_dict(repeated_replay) | more, indent=1))
    else:
        print_replay(repeated_replay, result.command, result.seconds, decides_outcomes=result.decides_outcomes)
        if options.first_reads:
            print_first_reads(result.replay)
    if lack := missing_function_names_advice(result.named_lines):
        err.print(f"nearfield: {escape(lack)}")
    _print_assumptions(options, result.replay.cluster)
    _write_schedules(options, result)
    if out := options.out:
        save_replay(out, result.replay, own_command.original_command_line(), result.seconds)
        err.print(f"profile: [bold]{escape(str(out))}[/bold]   next: {escape(own_command.command_line('report', out))}")


def _write_schedules(options: _Options, result: SimulationResult) -> None:
    """Writes the files of --timeline and --goal."""
    from nearfield.observe.goal import to_goal
    from nearfield.observe.timeline import simulated_timeline

    if options.timeline:
        atomic_write(options.timeline, simulated_timeline(result.replay), _ANOTHER_FILE)
        err.print(f"timeline: [bold]{escape(str(options.timeline))}[/bold]   next: open it at https://ui.perfetto.dev")
    if options.goal:
        text, network = to_goal(result.replay, result.command)
        atomic_write(options.goal, text, _ANOTHER_FILE)
        err.print(
            f"schedule: [bold]{escape(str(options.goal))}[/bold]   next: convert it by ATLAHS's txt2bin, then run its "
            f"LogGOPSim with {network.to_options()}"
        )


def _print_assumptions(options: _Options, cluster: Cluster) -> None:
    """Prints which defaults were assumed for nodes and the machine."""
    if options.nodes is None:
        each = counted(cluster.ranks_per_node, "rank")
        err.print(f"assumed: {counted(cluster.nodes, 'node')} with {each} on each (--nodes)")
    print_assumed_machine(options.ctx)
