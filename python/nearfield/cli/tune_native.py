"""`nearfield tune --collectives --native`: adds the best of the MPI's own algorithms to a rules file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.markup import escape

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.topology import Topology
from nearfield.base.units import counted, format_bytes
from nearfield.cli.tune_collectives import (
    INTERRUPTED_EXIT_CODE,
    existing_rules,
    make_empty_rules,
    placements_of,
    print_how_to_continue,
    require_usable,
    rule_of_distance,
)
from nearfield.rules.collective_tables import NativeCollectiveTable
from nearfield.rules.schema import Rules, require_writable_rules_file, run_command_line, save_rules
from nearfield.tune.launch_log import NATIVE_LAUNCH_LOG_SUFFIX, LaunchLog
from nearfield.tune.native import DEFAULT_NATIVE_LENGTHS, NativeTuning
from nearfield.tune.tuning import measure_other_load
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import Column, Table, Terminal, err


def run(
    out: Path,
    mpi_name: str | None,
    budget_s: float,
    ranks: Sequence[int],
    sizes: Sequence[int] = (),
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> Rules:
    """Measures the MPI's own algorithms for each number of ranks, and saves those that gain to the rules file, whose
    other content is retained. `budget_s` is the time for all numbers of ranks together; 0 means the default time for
    each. `sizes` are multiples of 8 B. Launches of an interrupted tune of this file count, unless `overwrite`; `resume`
    requires them. Exits with NOT_DECIDED_EXIT_CODE if nothing is decided, and with INTERRUPTED_EXIT_CODE after
    Ctrl-C."""
    require_usable(out, sizes)
    inst = mpi.choose_mpi(mpi_name)
    topology = Topology.of_this_machine()
    places = placements_of(topology, ranks)
    rules = existing_rules(out, inst, topology) or make_empty_rules(inst, topology)
    require_writable_rules_file(out)
    busy = measure_other_load()
    tunings: list[NativeTuning] = []
    found: list[NativeCollectiveTable] = []
    log = LaunchLog(out, NATIVE_LAUNCH_LOG_SUFFIX)
    with log.open_locked(resume=resume, overwrite=overwrite), ProgressDisplay() as display:
        if busy > BUSY_SHARE:
            display(f"other programs take {busy:.0%} of the cores' time: more will be left undecided")
        for cpus, distance, _ in places:
            tuning = NativeTuning(
                inst, cpus, budget_s / len(places), display, sizes=sorted(set(sizes)) or DEFAULT_NATIVE_LENGTHS, log=log
            )
            tables = tuning.search()
            tunings.append(tuning)
            if tuning.is_interrupted:
                break
            if tables:
                latency_ns = median(tuning.c2c_latencies_ns) if tuning.c2c_latencies_ns else 0.0
                _store_tables(rules, distance, cpus, tables, latency_ns)
                found += tables
        if not any(one.is_interrupted for one in tunings):
            log.remove()
    rules.busy_share = max(rules.busy_share, busy, measure_other_load())
    if found:
        save_rules(rules, out)
        print_native(found)
    for tuning in tunings:
        _print_findings(tuning)
    _print_conclusion(out, rules, tunings, found)
    return rules


def _store_tables(
    rules: Rules, distance: str, cpus: Sequence[int], tables: Sequence[NativeCollectiveTable], latency_ns: float
) -> None:
    """Inserts tables into the rule of a core distance. They replace tables for the same operation and ranks."""
    rule = rule_of_distance(rules, distance, cpus, latency_ns, len(cpus))
    replaced = {(one.operation, one.ranks) for one in tables}
    stay = [one for one in rule.native_collective if (one.operation, one.ranks) not in replaced]
    rule.native_collective = [*stay, *tables]


def print_native(tables: Sequence[NativeCollectiveTable]) -> None:
    """Prints a table of the MPI's algorithms selected for each collective."""
    columns = [Column("collective", key=True), Column("ranks", right=True), Column("bytes up to", right=True)]
    made = Table(*columns, Column("algorithm of the MPI"), Column("times as fast as its choice"))
    for table in tables:
        for one in table.range:
            name = "its choice" if one.algorithm == "mpi" else one.algorithm
            made.add_row(
                table.operation,
                table.format_communicator_shape,
                *map(escape, (one.format_max_length(), name, one.format_gain())),
            )
    Terminal().print(made)


def _print_findings(tuning: NativeTuning) -> None:
    """Prints the algorithms that were dropped with the reasons, and the cells whose gain was not confirmed."""
    for (operation, name), reason in tuning.drop_reasons.items():
        err.print(escape(f"left out: {operation}, {name}: {reason}"))
    if tuning.unconfirmed_cells:
        cells = ", ".join(f"{cell.operation} of {format_bytes(cell.size_bytes)}" for cell in tuning.unconfirmed_cells)
        err.print(f"faster in the search, but not significantly in the confirmation, and not selected: {cells}")


def _print_conclusion(
    out: Path, rules: Rules, tunings: Sequence[NativeTuning], tables: Sequence[NativeCollectiveTable]
) -> None:
    """Prints the conclusion and the next commands. Exits if interrupted or if nothing is decided."""
    if any(one.is_interrupted for one in tunings):
        saved = f"; {escape(str(out))} has the earlier decisions" if tables else f"; {escape(str(out))} is as it was"
        err.print(f"interrupted before this number of ranks was confirmed{saved}")
        print_how_to_continue(True)
        raise SystemExit(INTERRUPTED_EXIT_CODE)
    undecided = sum(len(one.undecided_cells()) for one in tunings)
    cells = sum(len(one.cells) for one in tunings)
    if undecided:
        err.print(
            f"{undecided} of {counted(cells, 'operation and length', 'operations and lengths')} are not decided; there "
            "the MPI chooses, as without rules"
        )
    if not tables or undecided == cells:
        raise SystemExit(NOT_DECIDED_EXIT_CODE)
    err.print(f"rules: [bold]{escape(str(out))}[/bold]")
    if all(one.is_left_to_mpi for one in tables):
        err.print("no gain: of the decided cases, the algorithms that this MPI chooses itself are best")
        return
    err.print(f"next: {escape(run_command_line(out))}")
    needs_folder = tunings[0].family.make_selection([], tunings[0].inst).files
    export = own_command.command_line("export", "--rules", out, *(["--collectives", "FOLDER"] if needs_folder else []))
    err.print(f"or, for programs that are started without nearfield: {escape(export)}")
