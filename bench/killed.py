"""What is left when ranks that use the shared heap are killed at any moment?

Starts an ordinary MPI program (pingpong.c) as `nearfield run` does, again and again, and kills one of its two ranks
(SIGKILL) at a random moment between its start and its end. After each kill the launcher must end by itself within a
minute, with an exit code other than 0; then no process of the program may be left, and at the end of all no more
shared memory may be in use than at the start. Files that the MPI itself leaves in /dev/shm, as it does when stock, are
counted, told, and removed.

The bar: all of that, every time (1,000 kills under each MPI; --kills).
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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, verdict
from support.launches import Place, Tuned, chosen, options_for, pingpong_for, place, tuned

from nearfield.mpi import Installation, remove_stale_shm, snapshot_shm
from nearfield.mpi.process import MARK, end_all

LIMIT_S = 60.0
ARGUMENTS = ["4096", "4194304", "2", "same", "use"]
ALLOWED_BYTES = 32 << 20  # of shared memory, for whatever else happens on the machine


def main(options: argparse.Namespace) -> dict[str, Any]:
    results = []
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        for inst in chosen(options):
            if setting := tuned(inst, options, Path(name)):
                results.append({"mpi": inst.name, **kill_often(inst, setting, options, Path(name))})
    return {"met": not any(result["wrong"] for result in results) if results else None, "results": results}


def kill_often(inst: Installation, setting: Tuned, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    program = pingpong_for(inst, scratch)
    here = place(inst, options, setting.knobs)
    start = time.monotonic()
    here.launch([str(program), *ARGUMENTS], setting.way)
    takes = time.monotonic() - start
    before, chance = shared_bytes(), random.Random(1)
    wrong: Counter[str] = Counter()
    left_by_mpi = too_late = 0
    for number in range(options.kills):
        shm = snapshot_shm()
        problem = kill_once(here, setting, [str(program), *ARGUMENTS], chance.uniform(0, takes), chance.randrange(2))
        left_by_mpi += len(remove_stale_shm(shm))
        too_late += problem == "too late"
        wrong.update({problem} - {"", "too late"})
        if number % 100 == 99:
            console.print(f"  {inst.name}: {number + 1} of {options.kills}, {dict(wrong) or 'nothing wrong'}")
    if (more := shared_bytes() - before) > ALLOWED_BYTES:
        wrong[f"{more >> 20} MiB of shared memory left"] += 1
    words = ", ".join(f"{count} times {what}" for what, count in wrong.items()) or "nothing wrong"
    verdict(
        not wrong,
        f"{inst.name}: {options.kills} kills ({too_late} after the end), {words}; {left_by_mpi} files of the MPI's own "
        "in /dev/shm",
    )
    return {"kills": options.kills, "too_late": too_late, "left_by_mpi": left_by_mpi, "wrong": dict(wrong)}


def kill_once(here: Place, setting: Tuned, argv: list[str], delay_s: float, victim: int) -> str:
    """What was wrong; empty if nothing was; "too late" if the program had ended before."""
    words, env = here.command(argv)
    mark = uuid.uuid4().hex
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**env, **here.common, **setting.way.environment, MARK: mark}
    process = subprocess.Popen([*setting.way.before, *words], env=environment, start_new_session=True, **quiet)
    time.sleep(delay_s)
    try:
        while not (ranks := running(argv[0], mark)) and process.poll() is None:
            time.sleep(0.005)
        if not ranks:
            return "too late"
        os.kill(ranks[victim % len(ranks)], signal.SIGKILL)
        code = process.wait(LIMIT_S)
        if code == 0:
            return "too late" if not running(argv[0], mark) else "the launcher ended with 0"
        return "" if gone(argv[0], mark) else "a process was left"
    except ProcessLookupError:
        return "too late"
    except subprocess.TimeoutExpired:
        return "the launcher did not end"
    finally:
        end_all(mark, process)


def gone(program: str, mark: str) -> bool:
    """Whether all ranks end within a second after the launcher."""
    until = time.monotonic() + 1
    while running(program, mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def running(program: str, mark: str) -> list[int]:
    """The processes of this program that were started with this mark."""
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
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
