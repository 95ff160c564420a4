"""How fast is a message copied through shared memory that was used for another one just before, or long ago?

What a transport uses again at once is in the cache of the receiver, who has just read it; the sender must take every
line from there before it may write. After a ring of one or two second-level caches the lines are back in the last
level, or in nobody's. No MPI takes part (come_round.cpp). There is no bar: this is why `tune` tries rings (src/tune,
python/nearfield/tune/model.py).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table, parser, two_cpus

from nearfield import _native
from nearfield.errors import MeasurementError
from nearfield.units import format_bytes


def main(options: argparse.Namespace) -> dict[str, Any]:
    cpus = two_cpus(options.cpus)
    with TemporaryDirectory(prefix="nearfield-bench-") as folder:
        program = Path(folder) / "come_round"
        source = Path(__file__).with_name("come_round.cpp")
        subprocess.run([options.compiler, "-std=c++20", "-O2", "-pthread", source, "-o", program], check=True)
        flags = [_native.flag_ns(*cpus)]
        done = subprocess.run([program, *map(str, cpus)], capture_output=True, text=True)
        flags.append(_native.flag_ns(*cpus))
    if done.returncode:
        raise MeasurementError(f"CPUs {cpus[0]} and {cpus[1]} cannot be used", "name others with --cpus")
    rows = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    console.print(f"a flag takes {flags[0]:.0f} ns before, {flags[1]:.0f} ns after")
    made = new_table("bytes per ns", "message", "used again after, copy in, copy out, half a round trip")
    for size, ring, *rates in rows:
        made.add_row(format_bytes(int(size)), format_bytes(int(ring)), *(f"{rate:.1f}" for rate in rates))
    console.print(made)
    return {"met": None, "flag_ns": flags, "rows": rows}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--cpus", metavar="A,B", help="the two CPUs (default: the nearest pair)")
    made.add_argument("--compiler", default="c++", help="default: %(default)s")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
