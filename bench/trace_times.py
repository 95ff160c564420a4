"""How far are simulated times of programs' own accesses from measured ones?

Runs the ten kernels of bench/kernels/kernels.c on this machine, records their accesses by `nearfield observe --region`,
and simulates them on a machine file, which `nearfield machine calibrate` should have written here just before. The
calibration uses none of the kernels. A measured time is the least of all calls but the first, on one core; a simulated
time is the difference between two calls and one, so that both find the caches as the call before has left them. Limits:
a mean |log| of a factor of 1.3, and no kernel beyond 1.8.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.table import Table
from support import console, finish, parser

from nearfield.base.errors import NearfieldError
from nearfield.base.executables import find_executable

SOURCE = Path(__file__).parent / "kernels" / "kernels.c"
NAMES = ("matmul", "stencil", "gather", "list", "jumps", "tree", "merge_sort", "fft", "sparse", "hash_join")
MAX_MEAN, MAX_ERROR = 1.3, 1.8
NEARFIELD = [sys.executable, "-m", "nearfield"]


def run(words: list[Any]) -> str:
    """Returns the standard output of a command. Raises NearfieldError if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NearfieldError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr[-500:]}", "")
    return done.stdout


def measured_ns(program: Path, name: str, launches: int) -> float:
    """Returns the least ns of a call, without the first call of each launch."""
    cpu = max(os.sched_getaffinity(0))
    words = ["taskset", "-c", cpu, program, name, 6]
    times = [re.findall(r"(\d+) ns", run(words))[1:] for _ in range(launches)]
    return min(float(ns) for of_launch in times for ns in of_launch)


def simulated_ns(program: Path, name: str, machine: str, folder: Path) -> float:
    """Returns the ns of the second call."""

    def total(calls: int) -> float:
        trace = folder / f"{name}-{calls}"
        run([*NEARFIELD, "observe", "-o", trace, "--region", name, "--", program, name, calls])
        words = [*NEARFIELD, "simulate", "run", trace, "--on", machine, "--policy", "memory", "--memory-slowdown", "1"]
        return float(json.loads(run([*words, "--region", name, "--json"]))["time_ns"][0][0])

    return total(2) - total(1)


def main(options: argparse.Namespace) -> dict[str, Any]:
    rows: dict[str, dict[str, float]] = {}
    table = Table("kernel", "measured", "simulated", "ratio")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, hooked = folder / "plain", folder / "hooked"
        run([find_executable("cc") or "gcc", "-O2", SOURCE, "-o", plain, "-lm"])
        run([*NEARFIELD, "cc", "-O2", "-g", SOURCE, "-o", hooked, "-lm"])
        for kernel in options.kernels.split(","):
            live = measured_ns(plain, kernel, options.launches)
            simulated = simulated_ns(hooked, kernel, options.machine, folder)
            rows[kernel] = {"measured_ns": live, "simulated_ns": simulated}
            table.add_row(kernel, f"{live / 1e3:.0f} us", f"{simulated / 1e3:.0f} us", f"x{simulated / live:.2f}")
    errors = [abs(math.log(row["simulated_ns"] / row["measured_ns"])) for row in rows.values()]
    mean, worst = math.exp(sum(errors) / len(errors)), math.exp(max(errors))
    console.print(table)
    console.print(f"mean |log| x{mean:.2f} (limit x{MAX_MEAN}), worst x{worst:.2f} (limit x{MAX_ERROR})")
    return {"kernels": rows, "mean": mean, "worst": worst, "met": mean <= MAX_MEAN and worst <= MAX_ERROR}


if __name__ == "__main__":
    made = parser(__doc__)
    made.add_argument("machine", help="a machine file of this machine")
    made.add_argument("--kernels", default=",".join(NAMES), help="the kernels, separated by commas")
    made.add_argument("--launches", type=int, default=5, help="launches of each measured kernel")
    sys.exit(finish(main, made.parse_args()))
