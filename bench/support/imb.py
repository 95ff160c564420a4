"""Intel MPI Benchmarks' PingPong under any MPI with the ABI its program was built for (Intel MPI and MPICH).

What its PingPong does (src_c/IMB_pingpong.c, IMB_mem_manager.c, IMB_warm_up.c): separate send and receive buffers from
MPI_Alloc_mem, filled before each size; all iterations once and a tenth of them again as warm-up; MPI_Barrier twice;
then the mean of all iterations between two MPI_Wtime. Receives are from MPI_ANY_SOURCE. Its t[usec] is half of the
round trip already. It prints no minimum and no median. So sizes are measured many times, in turn, with so few
iterations each that most means are over less time than passes between two disturbances: the median of such means is
comparable with a median of single times, which a mean over many iterations is not.
"""

from __future__ import annotations

import filecmp
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from nearfield import mpi
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.mpi import Installation

SONAME = "libmpi.so.12"
MARK = "NEARFIELD_BENCH"
# Iterations of sizes up to: enough that leaving the barriers apart (some 100 ns) does not count, and no more.
ITERATIONS = {8 << 10: 1000, 256 << 10: 300, 1 << 40: 30}

# Binds this rank and becomes the benchmark. argv: CPUs, library folder, command. Launchers bind in ways of their own.
_BIND_AND_RUN = """
import os, sys
cpus, folder, *command = sys.argv[1:]
os.sched_setaffinity(0, {int(cpus.split(",")[int(os.environ["PMI_RANK"])])})
os.environ["LD_LIBRARY_PATH"] = folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")
os.execv(command[0], command)
"""


def find(given: Path | None) -> Path:
    """Returns the program IMB-MPI1: the given one, otherwise that of an Intel MPI on this machine."""
    places = [given] if given else [i.root / "bin/IMB-MPI1" for i in mpi.find_usable_mpis() if i.family == "intel"]
    for place in places:
        if place.is_file():
            return place.absolute()
    raise UsageError(
        f"no IMB-MPI1{f' at {given}' if given else ''}",
        "pip install --no-deps impi-rt impi-devel into an environment of its own and name it in NEARFIELD_MPIS",
    )


@dataclass(frozen=True)
class Place:
    """Where a rank of the benchmark really was, as the kernel reports it."""

    allowed: str  # CPUs that all its threads may use
    library: str  # libmpi in its memory, links resolved


@dataclass(frozen=True)
class Benchmark:
    program: Path
    inst: Installation
    cpus: tuple[int, int]

    def half_round_trips_ns(self, sizes: tuple[int, ...], samples: int) -> dict[int, list[float]]:
        """`samples` means for every size, in the order in which they were taken; a launch per number of iterations."""
        found: dict[int, list[float]] = defaultdict(list)
        for iterations in ITERATIONS.values():
            if mine := tuple(size for size in sizes if iterations_of(size) == iterations):
                text = self._run(mine * samples, iterations, "")
                for size, time_ns in filter(None, map(_row, text)):
                    found[size].append(time_ns)
        if any(len(found[size]) != samples for size in sizes):
            raise MeasurementError("IMB-MPI1 printed other sizes than it was asked for", f"its last words: {text[-3:]}")
        return found

    def places(self) -> list[Place]:
        """Starts it once only to look where its ranks are. Raises MeasurementError if not on the CPUs or library."""
        mark = uuid4().hex
        places: list[Place] = []
        looking = threading.Thread(target=_look, args=(mark, places))
        looking.start()
        self._run((8,), 2_000_000, mark)
        looking.join()
        right = sorted(p.allowed for p in places) == sorted(map(str, self.cpus))
        if not (right and all(self._is_library(p.library) for p in places)):
            raise MeasurementError(f"IMB-MPI1 should be on CPUs {self.cpus} with {self.inst.library}, but: {places}")
        return places

    def _run(self, sizes: tuple[int, ...], iterations: int, mark: str) -> list[str]:
        lines: list[str] = []
        with TemporaryDirectory(prefix="nearfield-bench-") as folder:
            bind = [sys.executable, "-c", _BIND_AND_RUN, ",".join(map(str, self.cpus)), self._library_folder(folder)]
            command = [str(self.program), "PingPong", "-msgsize", ",".join(map(str, sizes))]
            command += ["-iter_policy", "off", "-iter", str(iterations)]
            finished = mpi.run(
                self.inst,
                [*bind, *command],
                2,
                on_line=lambda stream, line: lines.append(line),
                timeout_s=300,
                env={MARK: mark},
            )
        if not finished.has_succeeded:
            words = (finished.stderr + finished.stdout).strip().splitlines() or ["no output"]
            raise MeasurementError(f"IMB-MPI1 under {self.inst.name} ended with {finished.exit_code}: {words[-1]}")
        return lines

    def _is_library(self, path: str) -> bool:
        """Wheels hold no links: there one library is several files."""
        assert self.inst.library
        return Path(path).is_file() and filecmp.cmp(path, self.inst.library, shallow=False)

    def _library_folder(self, scratch: str) -> str:
        """Returns the folder where the program finds this MPI by the name that it was linked to. The library's own
        folder if it has that name, since a library may look for others beside itself; Debian's MPICH has another
        name."""
        assert self.inst.library
        if (self.inst.library.parent / SONAME).exists():
            return str(self.inst.library.parent)
        (Path(scratch) / SONAME).symlink_to(self.inst.library)
        return scratch


def iterations_of(size: int) -> int:
    return next(count for largest, count in ITERATIONS.items() if size <= largest)


def _row(line: str) -> tuple[int, float] | None:
    """Size and half round trip in ns of a line of the table: bytes, iterations, t[usec], 1e6 bytes/s. Both results
    have two decimals; of a short time the rate keeps more digits."""
    words = line.split()
    if len(words) != 4 or not words[0].isdigit() or words[0] == "0":
        return None
    size, _, t_usec, rate = map(float, words)
    return int(size), (size * 1e3 / rate if t_usec < 100 else t_usec * 1e3)


def _look(mark: str, places: list[Place]) -> None:
    """Waits for two processes with the mark that have loaded an MPI, and notes where they are."""
    deadline = time.monotonic() + 20
    while len(places) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        found = [p for p in (_place(process, mark) for process in Path("/proc").iterdir()) if p]
        if len(found) == 2:
            places[:] = found


def _place(process: Path, mark: str) -> Place | None:
    try:
        if (process / "comm").read_text().strip() != "IMB-MPI1":
            return None
        if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes().split(b"\0"):
            return None
        mapped = (line.split()[-1] for line in (process / "maps").read_text().splitlines())
        libraries = {name for name in mapped if Path(name).name.startswith(("libmpi.so", "libmpich.so"))}
        allowed = {_allowed(thread) for thread in (process / "task").iterdir()}
    except (OSError, IndexError):
        return None
    return Place(" and ".join(sorted(allowed)), ", ".join(sorted(libraries))) if libraries else None


def _allowed(thread: Path) -> str:
    status = (thread / "status").read_text()
    return status.partition("Cpus_allowed_list:")[2].split()[0]
