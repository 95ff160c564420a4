"""`nearfield verify`: measures again what matters most of a profile, and says whether this node is as fast as then."""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, ProfileError, UsageError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.units import format_ratio
from nearfield.cli.options import AsJson, Mpi, out_option
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.base.frames import pl
    from nearfield.measure import Request
    from nearfield.mpi import Installation
    from nearfield.profile import Profile
    from nearfield.profile.gate import GateResult

# the time that the hardware permits between two cores, and the time that the MPI achieves
SCENARIOS = ("floor", "pingpong")
STATE = "reused"  # of the buffers of ping-pongs: the one whose times vary least
SIZES = (64, 4096, 65536, 1048576)  # the usual ones; those that the profile has are measured
BUDGET_S, LAUNCHES = 25, 3  # budget and number of launches of one attempt
MAX_START_S = 12  # seconds after which no further attempt begins


def command(
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="A profile of this kind of node from before.")],
    fail_if_slower: Annotated[
        str, typer.Option(metavar="SHARE", help="By how much a scenario's times may be slower in the geometric mean.")
    ] = "5%",
    mpi_name: Mpi = None,
    out: Annotated[Path | None, out_option(help="Save the new measurements as a profile.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say in half a minute whether this node is as fast as when a profile was made, for example after maintenance.

    Measures the memory between two cores of each distance (`floor`) and ping-pongs of the MPI at a few sizes that the
    profile has, and compares them with it. Differences of kernel, MPI and settings are listed.

    The exit code is 0 if both scenarios are as fast as before, 1 if one is slower by more than --fail-if-slower, and 6
    if that cannot be decided: something else kept the processors busy, or a virtual machine's cores are at another
    place. Then wait for a quiet moment and try again.

    Examples:

      nearfield probe --quick -o before

      nearfield verify before

      nearfield verify before --fail-if-slower 3% --json
    """
    from nearfield.cli import diff_tables as tables
    from nearfield.cli.verbs.diff import parse_limit
    from nearfield.profile import load
    from nearfield.profile.compare import compare_records
    from nearfield.profile.gate import GateLimits, judge_slowdown

    limits = GateLimits(parse_limit(fail_if_slower))
    before = load(profile)
    if before.run.backend != "live":
        raise UsageError(f"{profile} was simulated", "name a profile that was measured on this kind of node")
    request = _make_same_request(before, mpi_name)
    with OwnedFolder("nearfield-verify-") as temporary:
        begun = time.monotonic()
        for attempt in count():
            now = _measure_again(out or Path(temporary) / "now", request, overwrite=attempt > 0)
            comparison = compare_records(
                _select_requested_records(before, request), now.records, (before.run, now.run), limits.max_slowdown
            )
            gate = judge_slowdown(comparison, (before.run, now.run), limits)
            if gate.verdict != "not decided" or time.monotonic() - begun > MAX_START_S:
                break
        if as_json:
            print(json.dumps(_as_dict(before, now, gate), indent=1))
        else:
            _print_comparison(before, now, gate)
        for line in tables.gate_lines(gate):
            print(line, file=sys.stderr)
        if gate.verdict == "not decided":
            err.print("[dim]try again when no other program runs on this node[/dim]")
    raise typer.Exit(tables.EXIT_CODES[gate.verdict])


def _make_same_request(baseline: Profile, mpi_name: str | None) -> Request:
    """Returns what to measure: the scenarios and sizes that the profile has, under its MPI unless another is named."""
    from nearfield import mpi
    from nearfield.measure import Request
    from nearfield.measure.request import parse_filter

    have = set(baseline.records["scenario"])
    if not have.intersection(SCENARIOS):
        raise ProfileError(
            f"{baseline.path} has neither {' nor '.join(SCENARIOS)}",
            f"make one: {own_command.command_line('probe', '--quick')}",
        )
    sizes = set(baseline.records["size_bytes"].drop_nulls())
    name = mpi_name or _find_same_mpi(baseline).name
    return Request(
        tier="quick", budget_s=BUDGET_S, launches=LAUNCHES, scenarios=tuple(one for one in SCENARIOS if one in have),
        sizes=tuple(size for size in SIZES if size in sizes) or tuple(sorted(sizes)[:4]), mpi=mpi.choose_mpi(name).name,
        only=(parse_filter(f"pingpong:state={STATE}"),) if "pingpong" in have else (),
        preferred_latencies_ns={one.pair or "": one.c2c_latency_ns for one in baseline.run.place if one.used},
    )  # fmt: skip


def _find_same_mpi(baseline: Profile) -> Installation:
    """Returns the MPI of the profile, in another version if that one is not here any more, as after an update."""
    from nearfield import mpi

    family, version = baseline.run.mpi.family, baseline.run.mpi.version
    found = [one for one in mpi.find_usable_mpis() if one.family == family]
    if not found:
        raise UsageError(f"{baseline.path} is of {family} {version}, which is not here", "name another one with --mpi")
    return next((one for one in found if one.version == version), found[0])


def _select_requested_records(baseline: Profile, request: Request) -> pl.DataFrame:
    """Returns the records of the profile that are measured again."""
    records = baseline.records  # has a column only if some scenario of the profile has this parameter
    of_size = records["size_bytes"].is_in(list(request.sizes)) | records["size_bytes"].is_null()
    if "kind" in records.columns:
        of_size |= (records["kind"] == "flag").fill_null(False)
    chosen = records["scenario"].is_in(list(request.scenarios)) & of_size
    if "state" in records.columns:
        chosen &= (records["scenario"] != "pingpong") | (records["state"] == STATE)
    return records.filter(chosen)


def _measure_again(folder: Path, request: Request, *, overwrite: bool) -> Profile:
    """Measures, saves and returns a profile. With `overwrite`, it replaces the one that is in the folder."""
    from nearfield.measure.live.session import probe
    from nearfield.profile import load
    from nearfield.ui.progress import ProgressDisplay

    with ProgressDisplay() as display:
        outcome = probe(folder, request, resume=False, overwrite=overwrite, keep_samples=False, report=display)
    if outcome.stop_signal:
        raise typer.Exit(outcome.exit_code)
    if not outcome.is_saved:
        raise MeasurementError("nothing was measured in time", "try again when no other program runs on this node")
    return load(folder)


def _print_comparison(baseline: Profile, remeasured: Profile, gate: GateResult) -> None:
    """Prints what differs in the set-up, and the verdict on each scenario."""
    from nearfield.profile.differences import profile_differences

    console = Terminal()
    if changed := profile_differences(baseline, remeasured):
        table = Table(Column("difference", key=True), Column("then"), Column("now"))
        for words in changed:
            table.add_row(*map(escape, map(str, words)))
        console.print(table)
    table = Table(Column("scenario", key=True), Column("times"), Column("now / then"), Column("verdict", prose=True))
    for name, one in gate.scenarios.items():
        ratio = format_ratio(one.geometric_mean) if one.geometric_mean else "-"
        table.add_row(name, f"{one.stable} of {one.times} stable", ratio, escape(one.reason or one.verdict))
    console.print(table)
    console.print(f"[bold]{escape(_format_verdict(baseline, gate))}[/bold]")


def _format_verdict(baseline: Profile, gate: GateResult) -> str:
    then = f"{baseline.run.created:%Y-%m-%d %H:%M}"
    if gate.verdict == "not decided":
        return f"cannot tell whether this node is as fast as on {then}"
    return f"this node is {'slower than' if gate.verdict == 'slower' else 'as fast as'} on {then}"


def _as_dict(baseline: Profile, remeasured: Profile, gate: GateResult) -> dict[str, object]:
    from nearfield.cli.diff_tables import gate_as_dict
    from nearfield.profile.differences import profile_differences

    return {
        "profile": str(baseline.path),
        "created": baseline.run.created.isoformat(),
        "differences": [
            {"what": what, "then": then, "now": today}
            for what, then, today in profile_differences(baseline, remeasured)
        ],
        "gate": gate_as_dict(gate),
    }
