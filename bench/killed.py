"""What is left when ranks that use the shared heap, or the collectives of a node, are killed at any moment?

Starts an ordinary MPI program (pingpong.c; with --collectives collectives.c) again and again, stock and as `nearfield
run` does in turn, and kills one of its two ranks (SIGKILL) at a random moment between its start and its end. After each
kill the launcher must end by itself within half a minute, with an exit code other than 0; then no process of the
program may be left, and at the end of all no more shared memory may be in use than at the start. Files that the MPI
itself leaves in /dev/shm are counted, reported, and removed.

Criterion: all of that, every time (1,000 kills under each MPI; --kills), as far as stock does it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, verdict
from support.launches import (
    STOCK,
    Place,
    Tuned,
    Way,
    choose_mpis,
    load_or_tune,
    options_for,
    place,
    program_for,
)

from nearfield import mpi
from nearfield.mpi import Installation, remove_stale_shm, snapshot_shm
from nearfield.mpi.marked_processes import MARK_VARIABLE, end_launch
from nearfield.rules import collectives
from nearfield.rules.knobs import find_knobs

LIMIT_S = 30.0
TOO_LATE = "too late"
ARGUMENTS = {
    "pingpong": ["4096", "4194304", "2", "same", "use"],
    "collectives": ["barrier,bcast,reduce,allreduce,allgather,alltoall", "8,4096,65536,1048576", "0.05"],
}
ALLOWED_BYTES = 32 << 20  # of shared memory, for whatever else happens on the machine


def main(options: argparse.Namespace) -> dict[str, Any]:
    results = []
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        for inst in choose_mpis(options):
            setting = by_collectives(inst) if options.collectives else load_or_tune(inst, options, Path(name))
            if setting:
                results.append({"mpi": inst.name, **kill_often(inst, setting, options, Path(name))})
    return {"met": all(result["met"] for result in results) if results else None, "results": results}


def by_collectives(inst: Installation) -> Tuned:
    """Returns launches in which every communicator has the collectives of a node from its first one on."""
    knobs = find_knobs(inst.family, inst.version, mpi.transport_or_reason(inst)[0])
    environment = {**collectives.collectives_variables(inst, os.environ), collectives.COLLECTIVES_VARIABLE: "after=0"}
    return Tuned("the collectives of a node", knobs, Way(environment=environment))


def kill_often(inst: Installation, setting: Tuned, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    name = "collectives" if options.collectives else "pingpong"
    argv = [str(program_for(inst, name, scratch)), *ARGUMENTS[name]]
    here = place(inst, options, setting.knobs)
    start = time.monotonic()
    here.launch(argv, setting.way)
    takes = time.monotonic() - start
    before, chance = shared_bytes(), random.Random(1)
    found = {"stock": Outcomes(), "tuned": Outcomes()}
    for number in range(options.kills):
        delay_s, victim = chance.uniform(0, takes), chance.randrange(2)
        for way, outcomes in zip((STOCK, setting.way), found.values(), strict=True):
            shm = snapshot_shm()
            outcomes.note(kill_once(here, way, argv, delay_s, victim))
            outcomes.files += len(remove_stale_shm(shm))
        if number % 50 == 49:
            summary = "; ".join(f"{name}: {outcomes}" for name, outcomes in found.items())
            console.print(f"  {inst.name}: {number + 1} of {options.kills}: {summary}")
    left = shared_bytes() - before
    met = left <= ALLOWED_BYTES and found["tuned"].wrong.total() <= found["stock"].wrong.total()
    summary = "; ".join(f"{name}: {outcomes}" for name, outcomes in found.items())
    verdict(met, f"{inst.name}: {options.kills} kills each; {summary}; {max(0, left) >> 20} MiB of shared memory left")
    return {"kills": options.kills, "met": met, "left_bytes": left, **{n: vars(o) for n, o in found.items()}}


@dataclass
class Outcomes:
    """Counts what came of the kills, for one way to start the program."""

    wrong: Counter[str] = field(default_factory=Counter)
    too_late: int = 0  # the program had ended before
    files: int = 0  # that the MPI left in /dev/shm

    def note(self, problem: str) -> None:
        if problem == TOO_LATE:
            self.too_late += 1
        elif problem:
            self.wrong[problem] += 1

    def __str__(self) -> str:
        wrong = ", ".join(f"{count} times {what}" for what, count in self.wrong.items()) or "nothing wrong"
        return f"{wrong} ({self.too_late} after the end, {self.files} files of the MPI's own)"


def kill_once(here: Place, way: Way, argv: list[str], delay_s: float, victim: int) -> str:
    """Returns what was wrong after one kill: empty if nothing was, TOO_LATE if the program had ended before."""
    words, env = here.command(argv)
    mark = uuid.uuid4().hex
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**env, **here.common, **way.environment, MARK_VARIABLE: mark}
    process = subprocess.Popen([*way.before, *words], env=environment, start_new_session=True, **quiet)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        while not (ranks := running(argv[0], mark)) and process.poll() is None:
            time.sleep(0.005)
        if not ranks:
            return TOO_LATE
        os.kill(ranks[victim % len(ranks)], signal.SIGKILL)
        code = process.wait(LIMIT_S)
        if code == 0:
            return "the launcher ended with 0" if running(argv[0], mark) else TOO_LATE
        return "" if gone(argv[0], mark) else "a process was left"
    except ProcessLookupError:
        return TOO_LATE
    except subprocess.TimeoutExpired:
        return f"the launcher did not end ({len(running(argv[0], mark))} ranks left)"
    finally:
        end_launch(mark, process)


def gone(program: str, mark: str) -> bool:
    """Returns whether all ranks end within a second after the launcher."""
    until = time.monotonic() + 1
    while running(program, mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def running(program: str, mark: str) -> list[int]:
    """Returns the processes of this program that were started with this mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if str((entry / "exe").readlink()) == program and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def shared_bytes() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Shmem:"))
    return int(line.split()[1]) << 10


def parse() -> argparse.Namespace:
    made = options_for(__doc__)
    made.add_argument("--kills", type=int, default=1000, help="under each MPI (default %(default)s)")
    made.add_argument("--collectives", action="store_true", help="the collectives of a node, in place of rules")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
