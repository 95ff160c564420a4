"""`nearfield machine calibrate`: creates a description of this machine from micro-benchmarks."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write
from nearfield.cli.options import AsJson, out_option, profile_option
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.calibrate.describing import CalibratedDescription
    from nearfield.calibrate.measured import Measurements

LIMIT_PUS = 1024


def command(
    profile: Annotated[
        Path | None, profile_option(help="A profile of this machine: the costs of MPI calls are fitted to its records.")
    ] = None,
    out: Annotated[Path, out_option(help="Where to write it.", metavar="FILE")] = Path("machine.toml"),
    as_json: AsJson = False,
) -> None:
    """Describe the machine at hand by measuring it, for the simulator: about a minute.

    Micro-benchmarks find the clock, the latency of each cache and of memory, loads in flight, prefetching, TLBs and
    their walks, rates of copies, page faults, copies by the kernel, and what two cores cost each other. They need no
    MPI. The costs of MPI calls come from a profile (-p). The file says of each fitted value in which interval it may
    be, and what it was fitted to; `nearfield machine validate` does not score these.

    A virtual machine's cores move. All that two cores do is sorted by the core-to-core latency at that moment, and each
    place gets a file of its own. With -p, calibration waits for the profile's place, at most a minute.

      nearfield machine calibrate -o mine.toml

      nearfield machine calibrate -p nearfield-profile -o mine.toml
    """
    if out.suffix != ".toml":
        raise UsageError(f"'{out}' does not end in .toml, by which files of machines are known", f"-o {out}.toml")
    if os.path.lexists(out):
        raise UsageError(f"there is a file '{out}' already", "Give another name with -o.")
    found, made, notes, disturbed = _calibrate_machine(profile, out)
    from nearfield.calibrate.describing import format_description_file

    for one in made:
        if one is made[0] or not os.path.lexists(one.path):
            atomic_write(one.path, format_description_file(one, notes, disturbed), "Give another place with -o.")
    if as_json:
        print(json.dumps({"files": [one.as_dict() for one in made], "notes": notes, "disturbed": disturbed}, indent=1))
        return
    _print_calibration(found, made, notes, disturbed)


def _calibrate_machine(
    profile: Path | None, out: Path
) -> tuple[Measurements, list[CalibratedDescription], list[str], str]:
    from nearfield.base.cpu_load import measure_busyness
    from nearfield.base.topology import Topology
    from nearfield.calibrate.describing import MAX_DISTURBED_SHARE, describe_places
    from nearfield.calibrate.probing import CalibrationRun
    from nearfield.machine.new import require_same_machine
    from nearfield.measure.live.facts import capture_machine
    from nearfield.profile import load
    from nearfield.profile.contradictions import core_to_core_latency_ns_of
    from nearfield.ui.progress import ProgressDisplay

    topology = Topology.of_this_machine()
    host = capture_machine(topology, None)
    known = load(profile) if profile else None
    if known:
        require_same_machine(host, known)
    pus = [core[0] for core in topology.cores][:LIMIT_PUS]
    pairs = list(topology.representative_pairs().values())
    busy = measure_busyness(1.0)
    with ProgressDisplay() as display:
        flag_ns = core_to_core_latency_ns_of(known) if known else None
        found = CalibrationRun(host, pus, pairs[0] if pairs else None, display, flag_ns).measure()
        made, notes = describe_places(host, found, known, out)
    share = found.share_of_disturbed_benchmarks()
    disturbed = str(busy) if busy.disturbs_measurements else ""
    if share > MAX_DISTURBED_SHARE:
        disturbed = f"{share:.0%} of the measurements vary by more than a quarter" + f"; {disturbed}" * bool(disturbed)
    return found, made, notes, disturbed


def _print_calibration(
    measurements: Measurements, descriptions: list[CalibratedDescription], notes: list[str], disturbance: str
) -> None:
    from nearfield.calibrate.describing import is_time_reproduced

    first = descriptions[0]
    table = Table(Column("micro-benchmark", key=True), Column("measured"), Column("interval"), Column("simulated"))
    for name, time, simulated in first.compared_benchmarks:
        mark = "" if is_time_reproduced(time, simulated) else "  [yellow]off[/yellow]"
        interval = f"{_format_ns(time.low)} to {_format_ns(time.high)}"
        table.add_row(name, _format_ns(time.value), interval, f"{_format_ns(simulated)}{mark}")
    Terminal().print(table)
    repeated, benchmarks = first.num_reproduced_benchmarks, len(first.compared_benchmarks)
    Terminal().print(f"{repeated} of {benchmarks} micro-benchmarks are simulated within 10 %")
    with suppress(ValueError):
        far, near = max(measurements.strided_memory_chains.items()), min(measurements.strided_memory_chains.items())
        Terminal().print(
            f"[dim]every {near[0]}nd line of memory in order: {_format_ns(near[1].value)} a load; every {far[0]}th: "
            f"{_format_ns(far[1].value)} (the simulated prefetcher follows consecutive lines only)[/dim]"
        )
    for one in descriptions:
        where = (
            f": cores {_format_ns(one.place.flag_ns.value)} apart, {one.place.share_of_samples:.0%} of the time"
            if one.place
            else ""
        )
        Terminal().print(f"wrote [bold]{escape(str(one.path))}[/bold]{where}")
    for note in notes:
        err.print(f"[yellow]note:[/yellow] {escape(note)}")
    if disturbance:
        err.print(
            f"[yellow]disturbed:[/yellow] {escape(disturbance)}. Intervals are wide; measure again when the machine "
            "is quiet."
        )


def _format_ns(value: float) -> str:
    if value < 1000:
        return f"{value:.3g} ns"
    return f"{value / 1e3:.3g} us" if value < 1e6 else f"{value / 1e6:.3g} ms"
