"""`nearfield simulate`: simulates collectives and applications on a described machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.cli.axes import parse_counts, parse_factors, parse_policies, parse_sizes
from nearfield.cli.options import (
    DEFAULT_MACHINE,
    AsCsv,
    AsJson,
    FrequencyGhz,
    Jobs,
    MemorySlowdown,
    Policy,
    Sensitivity,
    SimulatedMachine,
    SweptKeys,
    out_option,
    print_assumed_machine,
    require_single_format,
    require_single_option,
)
from nearfield.measure.sim.usual import MIN_SIMULATED_RANKS, default_num_nodes, default_ranks_per_node
from nearfield.ui.terminal import err, print_csv, print_error

if TYPE_CHECKING:
    from nearfield.measure.checkpoint import RequestOutcome
    from nearfield.measure.sim.cases import SimulationCase
    from nearfield.measure.sim.operations import OperationRequest

FURTHER = {"run": "simulate_run", "trace": "simulate_trace"}  # subcommand -> module; all other words are operations


def _name_incomplete_cases(incomplete: str) -> list[str]:
    """Returns the names of operations and subcommands that begin with `incomplete`, for shell completion."""
    from nearfield.measure.sim.cases import applications, collectives

    return [name for name in (*collectives(), *applications(), *FURTHER) if name.startswith(incomplete)]


_Collective = Annotated[
    list[str] | None,
    typer.Argument(help="bcast, allgather, ..., amg, fft: see --list.", autocompletion=_name_incomplete_cases),
]
_Nodes = Annotated[
    str, typer.Option(help=f"Numbers of nodes: 8,64 (default: at least 2, for {MIN_SIMULATED_RANKS} ranks or more).")
]
_RanksPerNode = Annotated[
    int | None, typer.Option(min=1, help="Ranks on each node, one per core (default: as many as it has cores).")
]
_Sizes = Annotated[
    str, typer.Option("--sizes", help="Sizes: 1K,12K or 1K..4M, every power of two (collectives: 1K..1M).")
]
_TotalBytes = Annotated[
    bool, typer.Option("--total-bytes", help="Sizes of collectives are of the whole buffer; a block is its part.")
]
_Repetitions = Annotated[
    int | None,
    typer.Option(min=1, help="Calls in a row (7), or runs of an application (1); caches are not emptied in between."),
]
_IndependentRuns = Annotated[
    bool,
    typer.Option(
        "--independent-runs",
        help="Simulate each policy in a run of its own (slower, more accurate); needs another --out folder.",
    ),
]
_Out = Annotated[
    Path | None,
    out_option(help="The folder for the profile; cases that it has are not simulated again."),
]
_List = Annotated[bool, typer.Option("--list", help="List collectives, applications and policies and stop.")]


def command(
    ctx: typer.Context,
    collective: _Collective = None,
    on: SimulatedMachine = DEFAULT_MACHINE,
    nodes: _Nodes = "",
    ranks_per_node: _RanksPerNode = None,
    sizes: _Sizes = "",
    total_bytes: _TotalBytes = False,
    policy: Policy = "all",
    memory_slowdown: MemorySlowdown = "1",
    sweep: SweptKeys = None,
    sensitivity: Sensitivity = False,
    frequency: FrequencyGhz = None,
    repetitions: _Repetitions = None,
    independent_runs: _IndependentRuns = False,
    jobs: Jobs = None,
    mpi: Annotated[
        bool, typer.Option("--mpi", help="Simulate on the ranks of `mpiexec ... -m mpi4py.futures`.")
    ] = False,
    out: _Out = None,
    list_: _List = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Simulate collectives and applications on a described machine: what would another NIC placement policy, or slower
    memory, change?

    Every node has its caches, DRAM and NIC, and every rank runs MPICH's algorithms. A policy determines where NICs put
    incoming bytes; the base of comparisons is `memory`. All policies and memory speeds execute the same calls, in the
    order of the base with the fastest memory, except with --independent-runs. The table shows the share of time that
    each policy saves over the base, as the mean of the repetitions. The lines below it state which policy saves most
    at which sizes. A range, as in ddio:ways=1..8, is a policy with each number; the output then also states how many
    ways are enough.

    Sizes are those that MPI calls take: the message of a bcast, a reduce and an allreduce, and one rank's block of
    others. With --total-bytes they are of the whole buffer: a bcast and an allgather of one size then move the same
    bytes.

    With --sensitivity, every number that the machine's file marks as chosen or fitted is changed alone, to either end
    of its interval, or to half and twice its value if the file states none, and everything is simulated again. Each
    result then has error bars, the single deviations added in quadrature, and a second table has the values that matter
    most: these are worth a better source.

    If there is an --out folder, Ctrl-C keeps the finished cases, and the same command continues from there. The folder
    is a profile: `nearfield show`, `diff` and `report` read it.

    Examples:

      nearfield simulate bcast --on epyc-9755 --policy payload-l3 --sizes 1K..4M

      nearfield simulate allreduce --on grace --sweep memory.latency_ns=80..200 --sizes 64K --csv

      nearfield simulate bcast allgather alltoall --nodes 16,64 --total-bytes --sizes 64K --out collectives

      nearfield simulate allreduce --on my-cluster.toml --policy ddio,ddio:ways=4 --memory-slowdown 1,2

      nearfield simulate allreduce --on epyc-9755 --nodes 2 --ranks-per-node 4 --sizes 64K --sensitivity

      nearfield simulate amg fft --nodes 8,64 --policy header-l2,payload-l3 --frequency 2.1
    """
    from nearfield.cli import simulate_tables as tables
    from nearfield.machine import load_machine
    from nearfield.machine.frequency import scale_to_frequency
    from nearfield.machine.sweep import parse_sweep
    from nearfield.measure.sim.operations import OperationRequest, savings_of, swept_cases

    if list_:
        return tables.list_operations(as_json)
    require_single_format(as_json, as_csv)
    machine = scale_to_frequency(load_machine(on), frequency) if frequency is not None else load_machine(on)
    names = tuple(dict.fromkeys(collective or ()))
    each = ranks_per_node or default_ranks_per_node(machine, names)
    operations = OperationRequest(
        machine=machine,
        names=names,
        sizes=tuple(parse_sizes(sizes)) if sizes else (),
        nodes=tuple(parse_counts(nodes, "nodes")) if nodes else (default_num_nodes(machine, each),),
        policies=parse_policies(policy),
        slowdowns=tuple(parse_factors(memory_slowdown)),
        ranks_per_node=each,
        repetitions=repetitions,
        uses_total_sizes=total_bytes,
        uses_independent_runs=independent_runs,
    )
    require_single_option(sweep=sweep, sensitivity=sensitivity)
    sweeps = [parse_sweep(text, machine) for text in sweep or ()]
    _print_assumptions(ctx, operations)
    if sensitivity:
        raise typer.Exit(_run_varied(operations, out, jobs=jobs, mpi=mpi, as_json=as_json, as_csv=as_csv))
    outcome, exit_code = _simulate_cases(operations, swept_cases(operations, sweeps), out, jobs=jobs, mpi=mpi)
    found = savings_of(outcome.rows, sweeps)
    if as_json:
        print(json.dumps(tables.as_dicts(outcome, operations, found), indent=1))
    elif as_csv:
        print_csv([row for one in found for row in tables.rows_of(one)])
    else:
        tables.show(found, operations)
    _print_summary(outcome, out)
    raise typer.Exit(exit_code)


def _run_varied(
    operations: OperationRequest, out: Path | None, *, jobs: int | None, mpi: bool, as_json: bool, as_csv: bool
) -> int:
    """Simulates the machine once for each change of a single uncertain value, and prints the results with error bars.
    Returns the exit code."""
    from nearfield.cli import sensitivity_tables as tables
    from nearfield.machine.uncertainty import uncertainty_of
    from nearfield.measure.sim.sensitivity import cases_of_variations, sensitivity_of

    uncertainty = uncertainty_of(operations.machine)
    outcome, exit_code = _simulate_cases(
        operations, cases_of_variations(operations, uncertainty.variations), out, jobs=jobs, mpi=mpi
    )
    found = sensitivity_of(outcome.rows, uncertainty.variations)
    if as_json:
        print(json.dumps(tables.as_dict(operations.machine, found, uncertainty, outcome.is_complete), indent=1))
    elif as_csv:
        print_csv(tables.rows(found.cases))
    else:
        tables.show(operations.machine, found, uncertainty)
    _print_summary(outcome, out)
    return exit_code


def _simulate_cases(
    operations: OperationRequest, cases: list[SimulationCase], out: Path | None, *, jobs: int | None, mpi: bool
) -> tuple[RequestOutcome, int]:
    """Simulates the cases on the ranks of an MPI job if `mpi` is set, otherwise in `jobs` processes (default: one per
    core). Returns the outcome and the exit code."""
    from nearfield import _native
    from nearfield.base.errors import NodeLostError
    from nearfield.measure.interrupt import InterruptGuard
    from nearfield.measure.sim import pool
    from nearfield.measure.sim.session import add_to_profile
    from nearfield.ui.progress import ProgressDisplay

    at_once = None if mpi else jobs or pool.num_usable_cores()
    with InterruptGuard() as stop, ProgressDisplay() as display:
        runner = pool.make_runner_on_cores(at_once, stop) if at_once else pool.make_runner_on_mpi(stop)
        try:
            outcome = add_to_profile(
                operations.machine, cases, runner, display, out, own_command.original_command_line(), at_once
            )
        except NodeLostError as error:
            print_error(error)
            _native.end_job("the simulation is ended")  # MPI_Finalize would wait for the dead node
    return outcome, 0 if outcome.is_complete else stop.exit_code


def _print_assumptions(ctx: typer.Context, operations: OperationRequest) -> None:
    """Prints which defaults were assumed for ranks, nodes and the machine."""
    by_nodes, by_cores = not ctx.params["nodes"], ctx.params["ranks_per_node"] is None
    ranks = f"{counted(operations.ranks_per_node, 'rank')} on each node" + (", one per core" if by_cores else "")
    assumed = [f"{counted(operations.nodes[0], 'node')} (--nodes)"] * by_nodes
    assumed += [f"{ranks} (--ranks-per-node)"] * by_cores
    if assumed:
        err.print(f"assumed: {' and '.join(assumed)}")
    print_assumed_machine(ctx)


def _print_summary(outcome: RequestOutcome, out: Path | None) -> None:
    folder = escape(str(out))
    if not outcome.is_complete:
        text = (
            f"finished cases: [bold]{folder}[/bold]; the same command continues" if out else "give --out to save cases"
        )
        err.print(f"stopped: {text}")
    elif out:
        err.print(f"profile: [bold]{folder}[/bold]   next: {escape(own_command.command_line('show', out))}")
