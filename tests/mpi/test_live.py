"""Is a program simulated while it runs as its trace is afterwards, and does everything end when something is killed?

tests/programs/observed_farm.c is a master that deals out tasks to whoever asks for one.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from build_lock import build_lock
from observed import compile_with_mpi
from test_observe_mpi import calls, check_laws, lines, run, streams

from nearfield import mpi
from nearfield.mpi import Installation

pytestmark = pytest.mark.turn(0)

SIMULATE = [sys.executable, "-m", "nearfield", "simulate", "run"]
LIMIT_S = 60


def farm(inst: Installation, programs: Path) -> Path:
    program = programs / f"farm-{inst.name.replace('/', '-')}"
    with build_lock(program) as is_missing:
        if is_missing:
            compile_with_mpi(inst, "observed_farm.c", program, "-O2")
    return program


def live(inst: Installation, program: Path, ranks: int, *options: str, way: str = "recv") -> subprocess.Popen[str]:
    """Starts the simulation of the farm."""
    command, environment = mpi.launch_command(inst, [str(program), way], ranks, oversubscribe=True)
    words = [*SIMULATE, *options, "--policy", "payload-l3", "--", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def answer(running: subprocess.Popen[str]) -> tuple[str, dict[str, Any]]:
    """Returns what the program printed, which --json sends to standard error, and what was found. Ends it if it takes
    too long."""
    try:
        found, printed = running.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        running.terminate()
        running.communicate()
        raise
    assert running.returncode == 0, printed
    own = re.compile(r"nearfield: .*\n|assumed: .*\n|.* accesses, .* a second.*\n|.* is a machine of 2004; .*\n")
    return own.sub("", printed), json.loads(found)


def afterwards(folder: Path) -> dict[str, Any]:
    """Returns what is found in the trace that was kept."""
    words = [*SIMULATE, str(folder), "--policy", "payload-l3", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return json.loads(done.stdout)


@pytest.mark.families
def test_a_program_is_simulated_while_it_runs(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Are all digits those of the trace that was kept meanwhile, whoever decides what MPI leaves to time?"""
    for course in ([], ["--replay-outcomes"]):
        trace = tmp_path / f"trace{len(course)}"
        _, found = answer(live(installation, farm(installation, programs), 3, "--json", "--keep", str(trace), *course))
        assert found == afterwards(trace) and found["accesses"] > 0 and found["flops"] > 0


def processes_with(word: str) -> list[int]:
    """Returns the processes whose command begins with this word."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            if words and words[0] == word.encode():
                found.append(int(folder.name))
    return found


@pytest.mark.families
@pytest.mark.parametrize(
    ("whom", "number", "message"),
    [
        ("rank", signal.SIGKILL, "the command ended with code"),
        ("launcher", signal.SIGKILL, "the command ended with code 137"),
        ("simulation", signal.SIGKILL, ""),
        ("simulation", signal.SIGINT, ""),
    ],
)
def test_nothing_is_left_when_one_is_killed(
    installation: Installation, programs: Path, tmp_path: Path, whom: str, number: int, message: str
) -> None:
    """Whoever is killed, do the others end soon, say why, and leave no process behind?"""
    program = tmp_path / "endless-farm"
    program.symlink_to(farm(installation, programs))
    running = live(installation, program, 2, way="endless")
    assert running.stdout and running.stdout.readline() == "begun\n"
    ranks = processes_with(str(program))
    assert len(ranks) == 2
    launcher = int(subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True).stdout.split()[0])
    os.kill({"rank": ranks[0], "launcher": launcher, "simulation": running.pid}[whom], number)
    _, problem = running.communicate(timeout=LIMIT_S)
    assert running.returncode and message in problem
    until = time.monotonic() + 10
    while processes_with(str(program)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not processes_with(str(program))


# ---- what time decides


@pytest.mark.families
@pytest.mark.parametrize("way", ["recv", "iprobe", "test"])
def test_the_simulation_decides_the_course(installation: Installation, programs: Path, way: str) -> None:
    """Does the worker whose walks are long, though it is the fastest one here, get few tasks, and the same in each run?
    (Two runs of one way are enough for that.) And does a loop that only looks ask no more often than there is anything
    new?"""
    program = farm(installation, programs)
    printed, found = answer(live(installation, program, 4, "--json", way=way))
    if way == "recv":
        again = answer(live(installation, program, 4, "--json", way=way))
        assert (printed, found["accesses"]) == (again[0], again[1]["accesses"])
    did = [int(line.split()[-1]) for line in printed.splitlines() if line.startswith("worker")]
    assert sum(did) == 40 and did[2] < min(did[:2]) / 2
    dependent = found["time_dependent"]
    assert dependent["outcomes"] >= 40 and dependent["otherwise"][0][0] == 0
    assert dependent["failed_looks"] <= 3 * 40 and (dependent["looks"] > 0) == (way != "recv")


@pytest.mark.families
def test_messages_are_complete_in_all_ways(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """With all kinds of receives, tests and waits: does each message arrive whole, and is the trace simulated alike?"""
    keep = ("--json", "--keep", str(tmp_path / "trace"))
    printed, found = answer(live(installation, farm(installation, programs), 3, *keep, way="complete"))
    assert printed == "complete\n" and found == afterwards(tmp_path / "trace")


@pytest.mark.families
def test_every_call_is_simulated_while_it_runs(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """With every kind of call: is the program's output its own, and do its streams obey the laws of all others?"""
    program = calls(installation, programs)
    running = live(installation, program, 4, "--json", "--keep", str(tmp_path / "trace"), way="asking")
    printed, _ = answer(running)
    assert sorted(printed.splitlines()) == lines(run(installation, program, 4, "asking"))
    for file in ("trace.toml", "places.parquet"):
        (tmp_path / "trace" / file).unlink()
    check_laws(streams(tmp_path / "trace"), printed)


@pytest.mark.families
def test_a_deadlock_is_reported(installation: Installation, programs: Path) -> None:
    """Does everything end, with a line for each rank, where one waits and the other one polls for ever?"""
    running = live(installation, farm(installation, programs), 2, way="deadlock")
    _, problem = running.communicate(timeout=LIMIT_S)
    assert running.returncode
    assert "rank 0 waits in MPI_Recv for 4 bytes from any rank with tag 9" in problem
    assert "rank 1 waits in MPI_Iprobe for any event" in problem
