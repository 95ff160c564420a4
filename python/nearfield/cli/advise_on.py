"""`nearfield advise --on MACHINE`: determines the costs of MPI calls on a described machine, and the program's
simulated run time."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from nearfield.advise.run import AssumedMachine, read_host_by_rank
from nearfield.base import own_command
from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import UsageError
from nearfield.base.units import counted
from nearfield.cli.axes import absolute_path, ranks_per_node
from nearfield.cli.probe_on import was_simulated
from nearfield.cli.run_simulation import SimulationParameters, simulate_trace
from nearfield.machine import DescribedMachine
from nearfield.measure import Request
from nearfield.measure.sim.cases import BASE_POLICY
from nearfield.measure.sim.mpi_shards import SingleShard
from nearfield.measure.sim.pool import num_usable_cores
from nearfield.measure.sim.session import probe_on
from nearfield.measure.sim.store import machine_fingerprint
from nearfield.observe.replay import Cluster, ReplayError
from nearfield.observe.summary import summarize
from nearfield.observe.trace import Trace
from nearfield.profile.store import RUN_FILE
from nearfield.ui.progress import ProgressDisplay

# scenarios needed by the rules of `advise` that can be simulated on every machine
SCENARIOS = ("pingpong", "pollution", "stride")


def simulated_profile_of(machine: DescribedMachine, name: str) -> Path:
    """Returns the folder of a simulated profile of this machine. Simulates it once and stores it in the cache folder.
    `name` is the argument of load_machine(). Ctrl-C exits; finished cases stay in the cache."""
    out = cache_root() / "profiles" / f"{machine.name}-{machine_fingerprint(machine)}"
    unfinished = was_simulated(out)
    if (out / RUN_FILE).exists() and not unfinished:
        return out
    request = Request(
        tier="quick", scenarios=SCENARIOS, on=absolute_path(name), command=own_command.original_command_line()
    )
    with ProgressDisplay() as display:
        outcome = probe_on(out, request, resume=unfinished, overwrite=True, jobs=num_usable_cores(), report=display)
    if not outcome.is_complete:
        raise typer.Exit(outcome.exit_code)
    return out


def require_simulable(trace: Trace, machine: DescribedMachine, nodes: int | None) -> None:
    """Raises UsageError if a node of the machine has too few cores for the ranks, and ReplayError if a rank does
    something that cannot be simulated. Call it before work that takes minutes."""
    node_count = nodes or len(set(read_host_by_rank(trace)))
    streams = trace.streams()
    each, cores = ranks_per_node(len(streams), node_count), machine.cores
    if cores and each > cores.value:
        raise UsageError(
            f"a node of {machine.name} has {counted(cores.value, 'core')}, and there would be {each} ranks on each",
            f"give at least {math.ceil(len(streams) / cores.value)} nodes with --nodes",
        )
    for summary in summarize(trace):
        for what in summary.refused:
            raise ReplayError(f"rank {summary.rank}: the program uses {what}, which cannot be simulated")


def simulate_on(trace: Trace, machine: DescribedMachine, nodes: int | None) -> AssumedMachine:
    """Simulates the program on `nodes` nodes of the machine (default: as many as it was observed on). Returns the
    number of nodes and the simulated run time. Raises NearfieldError if the program cannot be simulated there."""
    node_count = nodes or len(set(read_host_by_rank(trace)))

    def cluster_of(ranks: int) -> Cluster:
        return Cluster(machine, node_count, ranks_per_node(ranks, node_count), (BASE_POLICY,), (1.0,))

    result = simulate_trace(
        trace, SimulationParameters(cluster_of, (BASE_POLICY,), (1.0,), (), num_usable_cores()), SingleShard()
    )
    return AssumedMachine(node_count, result.replay.time_ns()[0][0] / 1e9)
