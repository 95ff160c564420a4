"""How long does an observed program take, and how many bytes does each access?

Takes pairs of programs, PLAIN and HOOKED, which must do the same and be compiled with the same options, HOOKED by
`nearfield cc`, `cxx` or `fc`; both are started without a launcher, as one rank. Runs them in turn and compares the CPU
time of their processes. The profiling layer is not loaded: it costs by the call, not by the access.

The limits are those of NPB's CG and FT, class W: at most 15 times as long, at most half a byte an access.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from support import console, finish, new_table, parser, verdict

from nearfield._native import stream
from nearfield.observe import hooks

MAX_TIMES, MAX_BYTES = 15.0, 0.5


def cpu_seconds(program: str, folder: str = "") -> float:
    """Runs a program, observed if there is a folder for its stream."""
    more = {"LD_PRELOAD": str(hooks.hook_library()), "NEARFIELD_OBSERVE": folder} if folder else {}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **more})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(plain: str, hooked: str, rounds: int) -> dict[str, Any]:
    """Returns the ratios of all rounds, and the stream's size."""
    ratios = []
    for _ in range(rounds):
        alone = cpu_seconds(plain)
        with tempfile.TemporaryDirectory(prefix="nearfield-") as folder:
            ratios.append(cpu_seconds(hooked, folder) / alone)
            file = Path(folder) / "rank-0.nfs"
            reader = stream.Reader(str(file))
            reader.skip_to_last_chunk()
            accesses = sum(chunk.accesses for chunk in reader.chunks)
            size_bytes = file.stat().st_size
    return {"program": Path(hooked).name, "ratios": ratios, "accesses": accesses, "stream_bytes": size_bytes}


def main(options: argparse.Namespace) -> dict[str, Any]:
    pairs = list(zip(options.programs[::2], options.programs[1::2], strict=True))
    found = [measure(plain, hooked, options.rounds) for plain, hooked in pairs]
    table = new_table("Observed programs", "program", "times as long, lowest, highest, accesses, byte an access")
    met = True
    for one in found:
        times, per_access = statistics.median(one["ratios"]), one["stream_bytes"] / one["accesses"]
        met &= times <= MAX_TIMES and per_access <= MAX_BYTES
        lowest, highest = min(one["ratios"]), max(one["ratios"])
        table.add_row(
            one["program"],
            f"{times:.1f}",
            f"{lowest:.1f}",
            f"{highest:.1f}",
            f"{one['accesses']:,}",
            f"{per_access:.4f}",
        )
    console.print(table)
    verdict(met, f"at most {MAX_TIMES:g} times as long, at most {MAX_BYTES:g} byte an access")
    return {"met": met, "programs": found}


if __name__ == "__main__":
    made = parser(__doc__)
    made.add_argument("programs", nargs="+", metavar="PLAIN HOOKED", help="pairs of programs")
    made.add_argument("--rounds", type=int, default=7)
    sys.exit(finish(main, made.parse_args()))
