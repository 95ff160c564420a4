"""Do two runs of `nearfield probe --quick` agree?

Runs it back to back, compares every two of the profiles as `nearfield diff` does, and says of which times the stable
records agree: their intervals overlap, or the values are within 5 %. Then what disagrees most, and which values of
which parameter it has in common, to find causes. `--profiles` looks at profiles that are there already.

Criterion: at least 90 % of the stable times, in every comparison.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table
from support import console, finish, new_table, parser, verdict

from nearfield import load
from nearfield.base.errors import MeasurementError
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.compare import (
    DEFAULT_THRESHOLD,
    RecordChange,
    compare_records,
    count_agreeing_times,
    values_agree,
)

LIMIT = 0.90
LEAST_COMMON = 5  # a group of fewer times says nothing


def main(options: argparse.Namespace) -> dict[str, Any]:
    with TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        folders = options.profiles or list(measure(options.keep or Path(scratch), options))
        profiles = [load(folder) for folder in folders]
    if len(profiles) < 2:
        raise MeasurementError("there is nothing to compare: one profile", "give --runs or --profiles two or more")
    console.print(sittings(profiles))
    comparisons = [changes_between(a, b) for a, b in combinations(profiles, 2)]
    together = [change for changes in comparisons for change in changes]
    console.print(by_scenario(together), causes(together), offenders(together, options.worst))
    shares = [count_agreeing_times(changes) for changes in comparisons]
    for (a, b), share in zip(combinations(profiles, 2), shares, strict=True):
        console.print(f"{a.path.name} and {b.path.name}: {share['agreeing']} of {share['stable']} stable times agree")
    known = [share["share"] for share in shares if share["share"] is not None]
    met = min(known) >= LIMIT if len(known) == len(shares) else None
    verdict(met, f"{100 * min(known, default=0):.1f} % agree at worst (limit: {100 * LIMIT:.0f} %)")
    return {"met": met, "bar": LIMIT, "comparisons": shares, "disagreeing": [as_dict(c) for c in worst_first(together)]}


def measure(folder: Path, options: argparse.Namespace) -> Iterable[Path]:
    program = Path(sys.executable).with_name("nearfield")
    arguments = ["--mpi", options.mpi] if options.mpi else []
    arguments += [word for name in options.scenario or () for word in ("--scenario", name)]
    for number in range(options.runs):
        out = folder / f"run-{number + 1}"
        command = [program, "probe", f"--{options.tier}", "--out", out, "--overwrite", *arguments]
        if subprocess.run([word for word in command if word != "--default"], check=False).returncode != 0:
            raise MeasurementError(f"run {number + 1} of {options.runs} failed")
        yield out


def changes_between(a: Profile, b: Profile) -> list[RecordChange]:
    """The times that count: of the scenarios themselves, with a value in both."""
    changes = compare_records(a.records, b.records, (a.run, b.run), DEFAULT_THRESHOLD).changes
    return [c for c in changes if c.unit == "ns" and not c.diagnostic and c.a and c.b]


def is_stable(change: RecordChange) -> bool:
    return change.verdict != "unstable"


def agrees(change: RecordChange) -> bool:
    assert change.a and change.b
    return values_agree(change.a, change.b)


def deviation(change: RecordChange) -> float:
    """How far apart the values are, on a log scale."""
    return abs(math.log(change.ratio.value)) if change.ratio else math.inf


def worst_first(changes: Iterable[RecordChange]) -> list[RecordChange]:
    return sorted((c for c in changes if is_stable(c) and not agrees(c)), key=deviation, reverse=True)


# ---- what is printed


def sittings(profiles: list[Profile]) -> Table:
    """Describes what the machine did meanwhile."""
    made = new_table("profiles", "profile, MPI, tier, complete", "seconds, load before")
    for profile in profiles:
        run = profile.run
        load_1m = "-" if run.host.load_1m is None else f"{run.host.load_1m:.1f}"
        made.add_row(str(profile.path), run.mpi.name, run.tier, str(run.complete), f"{run.seconds:.0f}", load_1m)
    return made


def by_scenario(changes: list[RecordChange]) -> Table:
    numbers = "times, unstable, stable, agree, share, median deviation"
    made = new_table("times stable in both, by scenario", "scenario", numbers)
    groups = {**grouped(changes, lambda c: [c.key["scenario"]]), "all": changes}
    for scenario, group in groups.items():
        share = count_agreeing_times(group)
        known = sorted(deviation(c) for c in group if is_stable(c))
        middle = f"{100 * math.expm1(known[len(known) // 2]):.1f} %" if known else "-"
        part = f"{100 * share['share']:.1f} %" if share["share"] is not None else "-"
        counts = (len(group), share["unstable"], share["stable"], share["agreeing"])
        made.add_row(scenario, *map(str, counts), part, middle)
    return made


def causes(changes: list[RecordChange]) -> Table:
    """Values of a parameter (or metric, or side) whose stable times disagree most often."""
    made = new_table("where disagreement gathers", "scenario, what", "disagree, of stable, unstable")
    groups = grouped(changes, lambda c: [(c.key["scenario"], *item) for item in c.key.items() if item[0] != "scenario"])
    sizes = {scenario: len(group) for scenario, group in grouped(changes, lambda c: [c.key["scenario"]]).items()}
    ranked = []
    for (scenario, name, value), group in groups.items():
        if len(group) == sizes[scenario]:
            continue  # the whole scenario tells nothing more
        stable = [c for c in group if is_stable(c)]
        wrong = sum(not agrees(c) for c in stable)
        if len(stable) >= LEAST_COMMON and wrong / len(stable) > 1 - LIMIT:
            counts = (wrong, len(stable), len(group) - len(stable))
            ranked.append((wrong / len(stable), scenario, named(name, value), *counts))
    for _, scenario, what, *numbers in sorted(ranked, reverse=True)[:20]:
        made.add_row(scenario, what, *map(str, numbers))
    return made


def offenders(changes: list[RecordChange], count: int) -> Table:
    wrong = worst_first(changes)
    made = new_table(f"the {min(count, len(wrong))} worst of {len(wrong)} that disagree", "what, where", "A, B, B/A")
    for change in wrong[:count]:
        assert change.a and change.b
        rest = [named(*item) for item in change.key.items() if item[0] not in ("scenario", "metric")]
        ratio = f"{change.ratio.value:.3f}" if change.ratio else "-"
        made.add_row(
            f"{change.key['scenario']} {change.key['metric']}", ", ".join(rest), ns(change.a), ns(change.b), ratio
        )
    return made


def ns(estimate: Estimate) -> str:
    return f"{format_ns(estimate.value)} ({format_ns(estimate.low)} to {format_ns(estimate.high)})"


def named(name: str, value: Any) -> str:
    return f"{name.removesuffix('_bytes')} {format_bytes(value) if name.endswith('_bytes') else value}"


def grouped(
    changes: Iterable[RecordChange], keys: Callable[[RecordChange], list[Any]]
) -> dict[Any, list[RecordChange]]:
    groups: dict[Any, list[RecordChange]] = defaultdict(list)
    for change in changes:
        for key in keys(change):
            groups[key].append(change)
    return groups


def as_dict(change: RecordChange) -> dict[str, Any]:
    assert change.a and change.b
    return {**change.key, "a_ns": change.a.value, "b_ns": change.b.value}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=2, help="how many probes (default %(default)s)")
    made.add_argument("--tier", choices=("quick", "default", "full"), default="quick", help="default %(default)s")
    made.add_argument("--mpi", metavar="NAME", help="which MPI (default: the one nearfield chooses)")
    made.add_argument("--scenario", action="append", metavar="NAME", help="only this one; repeat for more")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the profiles here")
    made.add_argument("--profiles", nargs="+", type=Path, metavar="FOLDER", help="compare these; measure nothing")
    made.add_argument("--worst", type=int, default=15, help="how many offenders to list (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
