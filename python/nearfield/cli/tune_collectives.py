"""`nearfield tune --collectives`: adds the best algorithms of collectives to a rules file and prints them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.markup import escape

import nearfield
from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, MeasurementError, NodeLostError, UsageError
from nearfield.base.topology import CORE_DISTANCES, Topology
from nearfield.base.units import format_ns
from nearfield.measure.live.layout import read_hostfile
from nearfield.rules.applicability import make_machine_table, rules_mismatches
from nearfield.rules.called_collectives import CalledCollectives, load_called_collectives
from nearfield.rules.collective_tables import CollectiveTable
from nearfield.rules.schema import (
    FORMAT_VERSION,
    UNTUNED_REASON,
    MpiTable,
    Rules,
    RuleTable,
    TriedTable,
    load_rules,
    require_writable_rules_file,
    run_command_line,
    save_rules,
)
from nearfield.tune.collectives import DEFAULT_LENGTHS, CollectiveTuning, merge_points
from nearfield.tune.launch_log import LaunchLog
from nearfield.tune.tuning import measure_other_load
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import Column, Table, Terminal, err

INTERRUPTED_EXIT_CODE = 130
DEFAULT_BUDGET_S = 60.0


class RankPlacement(NamedTuple):
    """Where collectives are measured: one CPU per rank; the largest core distance within a node; and the hosts, each
    with the same number of CPUs (empty: this machine)."""

    cpus: tuple[int, ...]
    distance: str
    hosts: tuple[str, ...] = ()


@dataclass
class MeasuredCollectives:
    """The results of all places: the tables, the number of operations and lengths that were measured, how many of these
    are undecided, and whether Ctrl-C ended the measurement."""

    tables: list[CollectiveTable] = field(default_factory=list)
    cells: int = 0
    undecided: int = 0
    is_interrupted: bool = False

    def add(self, tuning: CollectiveTuning, tables: Sequence[CollectiveTable]) -> None:
        """Adds what was measured at one place."""
        self.tables += tables
        self.cells += len(tuning.cells)
        self.undecided += len(tuning.undecided_cells())
        self.is_interrupted = tuning.is_interrupted


def run(
    out: Path,
    mpi_name: str | None,
    budget_s: float,
    ranks: Sequence[int],
    sizes: Sequence[int] = (),
    hostfile: Path | None = None,
    calls: Path | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> Rules:
    """Measures the collectives of an MPI for each number of ranks per node, and saves the best algorithms to the rules
    file, whose rules for messages are retained. `budget_s` is the time for all numbers of ranks together; 0 means
    DEFAULT_BUDGET_S for each. `sizes` are multiples of 8 B (default: 8 B to 16 MiB). `hostfile` names the nodes that
    communicators span. `calls` is a file of `run --learn`: measures only what that program calls, and retains the rules
    for other lengths. After Ctrl-C, saves what is decided. Launches of an interrupted tune of this file count, unless
    `overwrite`; `resume` requires them. Exits with NOT_DECIDED_EXIT_CODE if nothing is decided."""
    require_usable(out, sizes)
    called = load_called_collectives(calls) if calls else None
    inst = mpi.choose_mpi(mpi_name or (called.mpi if called else None))
    topology = Topology.of_this_machine()
    if called:
        ranks = _choose_called_rank_counts(called, topology, hostfile, ranks)
    places = placements_of(topology, ranks) if hostfile is None else _placements_on_hosts(hostfile, topology, ranks)
    rules = existing_rules(out, inst, topology) or make_empty_rules(inst, topology)
    require_writable_rules_file(out)
    busy = measure_other_load()
    measured = MeasuredCollectives()
    lost: NodeLostError | None = None
    with LaunchLog(out).open_locked(resume=resume, overwrite=overwrite) as log, ProgressDisplay() as display:
        if busy > BUSY_SHARE:
            display(f"other programs take {busy:.0%} of the cores' time: more will be left undecided")
        for cpus, distance, hosts in places:
            tuning = CollectiveTuning(
                inst,
                cpus,
                budget_s / len(places) or DEFAULT_BUDGET_S,
                display,
                hosts,
                sizes=sorted(set(sizes)) or DEFAULT_LENGTHS,
                lengths_by_operation=called.lengths_to_measure(len(cpus) // max(1, len(hosts)), max(1, len(hosts)))
                if called
                else {},
                cache_group_size=0 if hosts else _cache_group_size(topology, cpus),
                log=log,
            )
            tables = tuning.run()
            latency_ns = median(tuning.c2c_latencies_ns) if tuning.c2c_latencies_ns else 0.0
            replace_tables(rules, distance, cpus, tables, latency_ns, keep_points=called is not None)
            measured.add(tuning, tables)
            lost = tuning.lost_node_error
            if measured.is_interrupted or lost:
                break
        if not (lost or measured.is_interrupted):
            log.remove()
    if lost:
        lost.remedy = (
            f"when the node is available again, continue with the same command: {own_command.original_command_line()}"
        )
        raise lost
    rules.busy_share = max(rules.busy_share, busy, measure_other_load())
    _save_and_report(out, rules, measured, called)
    return rules


def _save_and_report(out: Path, rules: Rules, measured: MeasuredCollectives, called: CalledCollectives | None) -> None:
    """Saves the rules, and prints the selected algorithms, what is undecided and how to continue. Exits with
    NOT_DECIDED_EXIT_CODE if nothing is decided, and with INTERRUPTED_EXIT_CODE after Ctrl-C."""
    found, interrupted = rules.collective_tables(), measured.is_interrupted
    if not found:
        reason = "interrupted before anything was decided" if interrupted else "too little time to decide anything"
        err.print(f"{reason}; {escape(str(out))} is as it was")
        print_how_to_continue(interrupted)
        raise SystemExit(INTERRUPTED_EXIT_CODE if interrupted else NOT_DECIDED_EXIT_CODE)
    save_rules(rules, out)
    print_collectives(found)
    if called and (saved := called.estimate_saved_s(measured.tables)):
        err.print(
            f"by these measurements, each rank of the program would spend {format_ns(saved * 1e9)} less of the "
            f"{format_ns(called.total_s * 1e9)} that it spent in collectives"
        )
    if measured.undecided:
        err.print(
            f"{measured.undecided} of {measured.cells} operations and lengths are not decided; there the MPI does the "
            "collective itself, as without rules"
        )
    err.print(f"rules: [bold]{escape(str(out))}[/bold]")
    print_how_to_continue(interrupted)
    if measured.undecided == measured.cells:
        raise SystemExit(NOT_DECIDED_EXIT_CODE)
    if rules.loads_collectives:
        err.print(f"next: {escape(run_command_line(out))}")
    if interrupted:
        raise SystemExit(INTERRUPTED_EXIT_CODE)


def print_how_to_continue(interrupted: bool) -> None:
    """Prints how to continue an interrupted tune."""
    if interrupted:
        err.print(
            f"the same command continues after the finished launches: {escape(own_command.original_command_line())}"
        )


def require_usable(out: Path, sizes: Sequence[int]) -> None:
    """Raises UsageError if `out` is a folder, or if a size is not a multiple of 8 B."""
    if out.is_dir():
        raise UsageError(f"'{out}' is a folder", f"name a file: -o {out / 'rules.toml'}")
    if wrong := [size for size in sizes if size % 8]:
        raise UsageError(f"--sizes {wrong[0]}: collectives are measured with numbers of 8 B")


def placements_of(topology: Topology, ranks: Sequence[int]) -> list[RankPlacement]:
    """Returns the places to measure for each number of ranks: for two ranks, a pair of cores at each core distance; for
    more ranks, the first cores."""
    cores = _choose_cores(topology)
    pairs = topology.representative_pairs()
    if not pairs:
        raise MeasurementError("collectives need two cores; there is one")
    places: list[RankPlacement] = []
    for n in _choose_rank_counts(ranks, len(cores), "of this machine"):
        if n == 2:
            places += [RankPlacement(pair, distance) for distance, pair in pairs.items()]
        else:
            places.append(RankPlacement(cores[:n], _farthest_distance(pairs)))
    return places


def _placements_on_hosts(hostfile: Path, topology: Topology, ranks: Sequence[int]) -> list[RankPlacement]:
    """Returns the places to measure for each number of ranks per node: the first cores of each node in the hostfile."""
    nodes = read_hostfile(hostfile, _choose_cores(topology))
    if len(nodes) < 2:
        raise UsageError(f"the hostfile {hostfile} names one host", "leave --hostfile out to measure inside a node")
    min_cores = min(len(node.cpus) for node in nodes)
    if min_cores < 2:
        raise UsageError(f"a node of {hostfile} has one CPU", "collectives across nodes need two ranks on each")
    pairs = topology.representative_pairs()
    distance = _farthest_distance(pairs) if pairs else CORE_DISTANCES[0]
    hosts = tuple(node.host for node in nodes)
    return [
        RankPlacement(tuple(cpu for node in nodes for cpu in node.cpus[:n]), distance, hosts)
        for n in _choose_rank_counts(ranks, min_cores, f"that each node of {hostfile} has")
    ]


def _choose_cores(topology: Topology) -> tuple[int, ...]:
    """Returns the first PU of each core."""
    return tuple(core[0] if isinstance(core, (list, tuple)) else core for core in topology.cores)


def _choose_rank_counts(ranks: Sequence[int], cores: int, of: str) -> list[int]:
    """Returns the numbers of ranks per node to measure. Raises UsageError if one exceeds the number of cores."""
    counts = sorted(set(ranks)) or [2, *(n for n in (4, 8, 16, 32, 64, 128, 256) if n <= cores)]
    if wrong := [n for n in counts if not 2 <= n <= cores]:
        raise UsageError(f"--ranks {wrong[0]}: from 2 to the {cores} cores {of}")
    return counts


def _choose_called_rank_counts(
    called: CalledCollectives, topology: Topology, hostfile: Path | None, ranks: Sequence[int]
) -> list[int]:
    """Returns the numbers of ranks per node of the program's communicators that can be measured: on this node, or on
    the nodes of the hostfile. Prints what cannot be measured. Exits with NOT_DECIDED_EXIT_CODE if nothing can."""
    cores = _choose_cores(topology)
    nodes = len(read_hostfile(hostfile, cores)) if hostfile else 1
    found, reasons = [], []
    for node_ranks, of_nodes in called.shapes_worth_measuring():
        if ranks and node_ranks not in ranks:
            continue
        where = f"{node_ranks} ranks" + (f" on each of {of_nodes} nodes" if of_nodes > 1 else "")
        if of_nodes != nodes:
            reasons.append(f"{where}: --hostfile with {of_nodes} nodes" if of_nodes > 1 else f"{where}: no --hostfile")
        elif not 2 <= node_ranks <= len(cores):
            reasons.append(f"{where}: a node with so many cores; this one has {len(cores)}")
        else:
            found.append(node_ranks)
    if reasons:
        err.print(escape(f"not measured, since it needs something else: {'; '.join(reasons)}"))
    if not found:
        err.print("no collective of the program can be measured here")
        raise SystemExit(NOT_DECIDED_EXIT_CODE)
    return found


def _farthest_distance(pairs: Mapping[str, tuple[int, int]]) -> str:
    return max(pairs, key=list(CORE_DISTANCES).index)


def _cache_group_size(topology: Topology, cpus: Sequence[int]) -> int:
    """Returns the number of neighbouring ranks that share a last-level cache, if all groups have this size; 0 if all
    ranks share one, or if the groups are unequal."""
    near = [topology.distance(cpus[0], cpu) for cpu in cpus[1:]]
    size = 1 + next((i for i, distance in enumerate(near) if distance != near[0]), len(near))
    return size if 1 < size < len(cpus) and len(cpus) % size == 0 else 0


def existing_rules(out: Path, inst: mpi.Installation, topology: Topology) -> Rules | None:
    """Returns the rules in the file `out`; None if it does not exist. Raises UsageError if they are for another MPI or
    machine."""
    if not out.is_file():
        return None
    rules, machine = load_rules(out), make_machine_table(topology, topology.cache_bytes(topology.pus[0]))
    if reasons := rules_mismatches(rules, inst.family, inst.version, machine):
        other = own_command.command_line("tune", "--collectives", "--mpi", inst.name, "-o", f"{inst.name}.toml")
        raise UsageError(f"{out} has rules that do not fit: {'; '.join(reasons)}", f"name another file: {other}")
    return rules


def make_empty_rules(inst: mpi.Installation, topology: Topology) -> Rules:
    """Returns rules for this MPI and machine that set nothing."""
    transport, _ = mpi.transport_or_reason(inst)
    return Rules(
        schema_version=FORMAT_VERSION,
        nearfield=nearfield.__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=own_command.original_command_line(),
        seconds=0,
        host=socket.gethostname(),
        mpi=MpiTable(family=inst.family, version=inst.version, transport=transport or "unknown"),
        machine=make_machine_table(topology, topology.cache_bytes(topology.pus[0])),
        tried=TriedTable(measured=0, left=0),
        rule=[],
    )


def replace_tables(
    rules: Rules,
    distance: str,
    cpus: Sequence[int],
    tables: Sequence[CollectiveTable],
    latency_ns: float,
    keep_points: bool = False,
) -> None:
    """Inserts tables into the rule of a core distance. They replace tables for the same operation, ranks and nodes.
    With `keep_points`, measured lengths that only the replaced tables have are retained."""
    rule = rule_of_distance(rules, distance, cpus, latency_ns, max((one.ranks for one in tables), default=len(cpus)))
    made = {(one.operation, one.format_communicator_shape): one for one in tables}
    old = {(one.operation, one.format_communicator_shape): one for one in rule.collective}
    if keep_points:
        made |= {key: merge_points(old[key], made[key]) for key in made if key in old}
    rule.collective = list({**old, **made}.values())


def rule_of_distance(rules: Rules, distance: str, cpus: Sequence[int], latency_ns: float, ranks: int) -> RuleTable:
    """Returns the rule of a core distance. If there is none, adds a rule that sets nothing."""
    rule = next((one for one in rules.rule if one.distance == distance), None)
    if rule is None:
        rule = RuleTable(
            distance=distance,
            pair=f"{cpus[0]}-{cpus[1]}",
            c2c_latency_ns=round(latency_ns, 1),
            reason=UNTUNED_REASON,
            at_ranks_per_node=ranks,
        )
        rules.rule.append(rule)
    return rule


def print_collectives(tables: Sequence[CollectiveTable]) -> None:
    """Prints a table of the algorithms selected for each collective."""
    columns = [Column("collective", key=True), Column("ranks", right=True), Column("bytes up to", right=True)]
    made = Table(*columns, Column("done by"), Column("times as fast as the MPI's own"))
    for table in tables:
        for one in table.range:
            cells = (one.format_max_length(), one.format_algorithm(), one.format_gain())
            made.add_row(table.operation, table.format_communicator_shape, *map(escape, cells))
    Terminal().print(made)
