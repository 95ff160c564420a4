"""What does tuning do for benchmarks that everybody knows, unmodified?

Runs the Intel MPI Benchmarks (IMB-MPI1 of the impi-devel wheel; under MPICH and Intel MPI, whose ABI it has) and
NetPIPE (Debian's netpipe-openmpi; under Debian's Open MPI) as they are and under `nearfield run`, in turn, and prints
how many times as fast they are by message size. Rules come from `--rules FOLDER`, a file MPI.toml for each, as
`bench/tuned_gain.py --keep FOLDER` leaves them; without one, `nearfield tune` is run first.

There is no bar but the promise: no benchmark slower at any size by more than the interval.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table, parser, verdict
from support.imb import find

from nearfield import mpi
from nearfield.errors import MeasurementError, NearfieldError
from nearfield.mpi import Installation, launch_command
from nearfield.tune.gains import Gain, Pair, gain
from nearfield.tune.rules import load_rules
from nearfield.units import format_bytes

IMB = ("PingPong", "Sendrecv", "Exchange", "Bcast", "Allreduce", "Alltoall")
SIZES = tuple(1 << power for power in range(2, 23, 2))  # 4 B to 4 MiB
Times = dict[tuple[str, int], float]  # benchmark, size -> time


def main(options: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        for inst in [mpi.choose(name) for name in options.mpi] if options.mpi else mpi.discover():
            program = NetPipe(Path(scratch)) if inst.family == "openmpi" else Imb(Path(scratch))
            if reason := program.why_not(inst):
                console.print(f"{inst.name}: skipped, {reason}")
                continue
            rules = rules_of(inst, options.rules or Path(scratch))
            if not load_rules(rules).rule[0].parameters:
                console.print(f"{inst.name}: stock is best, nothing to show")
                continue
            results[inst.name] = measure(inst, program, rules, options.rounds)
    slower = [f"{name} {case}" for name, gains in results.items() for case, g in gains.items() if g["slower"]]
    verdict(not slower if results else None, f"slower: {', '.join(slower) or 'nothing'}")
    return {"met": not slower if results else None, "mpis": results}


def rules_of(inst: Installation, folder: Path) -> Path:
    path = folder / f"{inst.name}.toml"
    if not path.exists():
        console.print(f"tuning {inst.name}")
        nearfield = str(Path(sys.executable).with_name("nearfield"))
        subprocess.run([nearfield, "tune", "--mpi", inst.name, "-o", str(path)], check=True)
    return path


def measure(inst: Installation, program: NetPipe | Imb, rules: Path, rounds: int) -> dict[str, Any]:
    found: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for number in range(rounds):
        order = ("stock", "tuned") if number % 2 == 0 else ("tuned", "stock")
        times = {name: program.run(inst, rules if name == "tuned" else None) for name in order}
        for case in times["stock"].keys() & times["tuned"].keys():
            found[case].append((times["stock"][case], times["tuned"][case]))
        console.print(f"  {inst.name}: round {number + 1} of {rounds}", style="dim")
    gains = {case: gain([Pair(*times) for times in pairs]) for case, pairs in sorted(found.items())}
    print_table(inst, gains)
    return {
        f"{name} {format_bytes(size)}": {"value": g.value, "low": g.low, "high": g.high, "slower": g.slower}
        for (name, size), g in gains.items()
    }


def print_table(inst: Installation, gains: dict[tuple[str, int], Gain]) -> None:
    sizes = sorted({size for _, size in gains})
    shown = [size for size in sizes if size in SIZES] or sizes[:: max(1, len(sizes) // 12)]
    made = new_table(f"times as fast under {inst.name}, tuned", "benchmark", ", ".join(map(format_bytes, shown)))
    for name in dict.fromkeys(name for name, _ in gains):
        cells = [f"{gains[name, size].value:.2f}" if (name, size) in gains else "-" for size in shown]
        made.add_row(name, *cells)
    console.print(made)


class _Program:
    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def launch(self, inst: Installation, argv: list[str], rules: Path | None, **env: str) -> str:
        command, environment = launch_command(inst, argv, 2)
        if rules:
            nearfield = str(Path(sys.executable).with_name("nearfield"))
            command = [nearfield, "run", "--mpi", inst.name, "--rules", str(rules), "--", *command]
        done = subprocess.run(
            command, env={**environment, **env}, cwd=self.scratch, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise MeasurementError(f"{argv[0]} under {inst.name} failed: {(done.stderr or done.stdout)[-300:]}")
        return done.stdout


class Imb(_Program):
    def why_not(self, inst: Installation) -> str:
        try:
            self.program = find(None)
        except NearfieldError as error:
            return error.message
        return ""

    def run(self, inst: Installation, rules: Path | None) -> Times:
        sizes = self.scratch / "sizes"
        sizes.write_text("".join(f"{size}\n" for size in SIZES))
        argv = [str(self.program), *IMB, "-msglen", str(sizes), "-time", "0.1", "-iter", "300"]
        assert inst.library
        folder = self.scratch / inst.name
        folder.mkdir(exist_ok=True)
        if not (folder / "libmpi.so.12").exists():
            (folder / "libmpi.so.12").symlink_to(inst.library)
        own = [str(inst.library.parent)] if (inst.library.parent / "libmpi.so.12").exists() else [str(folder)]
        path = os.pathsep.join([*own, os.environ.get("LD_LIBRARY_PATH", "")])
        return parsed(self.launch(inst, argv, rules, LD_LIBRARY_PATH=path))


def parsed(text: str) -> Times:
    """IMB's tables: a line that begins with #bytes names the columns."""
    times: Times = {}
    name, column = "", 0
    for line in text.splitlines():
        if found := re.match(r"# Benchmarking (\w+)", line):
            name = found[1]
        words = line.split()
        if words[:1] == ["#bytes"]:
            column = words.index("t_avg[usec]") if "t_avg[usec]" in words else words.index("t[usec]")
        elif name and words and words[0].isdigit() and int(words[0]) > 0:
            times[name, int(words[0])] = float(words[column])
    if not times:
        raise MeasurementError("IMB-MPI1 printed no table", text[-300:])
    return times


class NetPipe(_Program):
    def why_not(self, inst: Installation) -> str:
        found = shutil.which("NPopenmpi")
        if not found:
            return "no NPopenmpi (Debian: apt install netpipe-openmpi)"
        return "" if str(inst.library).startswith("/usr/") else "NetPIPE is linked to the system's Open MPI"

    def run(self, inst: Installation, rules: Path | None) -> Times:
        out = self.scratch / "np.out"
        self.launch(inst, ["NPopenmpi", "-p", "0", "-u", str(SIZES[-1]), "-o", str(out)], rules)
        rows = [line.split() for line in out.read_text().splitlines()]
        return {("NetPIPE", int(size)): float(seconds) for size, _, seconds in rows if int(size) > 1}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", action="append", metavar="NAME", help="repeat for more (default: every MPI found)")
    made.add_argument("--rules", type=Path, metavar="FOLDER", help="rules that are there")
    made.add_argument("--rounds", type=int, default=7, help="runs of each (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
