"""If a node dies, is that noticed, is the node named, is nothing left, and does the work go on afterwards? And does a
program go on that does not wait for the node?

A node dies as a real one does: all its processes are stopped and its cable is unplugged, so that nothing answers and
nothing is reset. TCP notices that after minutes only. Variables shorten 12 s of silence and 4 s of patience;
tests/cpp/test_node_watch.cpp has the details of both.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import halo_programs
import mpi_program
import pytest
from cli_runner import CORES, SHORT
from test_collectives import environment
from test_halo_python import mpi4py_on
from tuning import NEARFIELD
from two_nodes import NODES, TwoNodes

import nearfield
from nearfield import mpi
from nearfield.base import all_nodes
from nearfield.mpi import Installation
from nearfield.mpi.launch import launch_command
from nearfield.rules import collectives
from nearfield.tune.launch_log import LAUNCH_LOG_SUFFIX

pytestmark = [pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")]
ALIVE, DEAD = NODES
FIRST, SECOND = CORES[:2] if len(CORES) > 1 else (0, 0)
SHORTER = {"NEARFIELD_NODE_SILENCE_S": "2", "NEARFIELD_NODE_PATIENCE_S": "1"}
LIMIT_S = 60.0  # for what takes 3 to 6 s where nothing else runs; the messages say how long the node was silent
START_S = 90.0
THREAD = "nearfield-nodes\n"  # the name of the thread that watches
SIZES = ",".join(str(8 << power) for power in range(14))


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst)
    halo_programs.built(inst, "halo_faults", programs)


class Started:
    """A command on the first node, with the lines that it has written so far."""

    def __init__(self, nodes: TwoNodes, command: list[str], env: dict[str, str], folder: Path) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            nodes.on(ALIVE, command), env={**os.environ, **SHORTER, **env, **nodes.env}, cwd=folder,
            start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.lines.extend(self.process.stdout)

    def said(self) -> str:
        return "".join(self.lines)

    def finish(self, limit_s: float) -> int:
        code = self.process.wait(limit_s)
        self._reader.join(5)
        return code


def until(what: str, when: object, started: Started) -> None:
    end = time.monotonic() + START_S
    while not when():  # type: ignore[operator]
        assert time.monotonic() < end, f"{what}: not within {START_S:.0f} s: {started.said()}"
        assert started.process.poll() is None, started.said()
        time.sleep(0.05)


@contextmanager
def on_nodes(nodes: TwoNodes, command: list[str], env: dict[str, str], folder: Path) -> Iterator[Started]:
    """Starts a command on the first node. At the end the second node is there again, and no process is on either."""
    started = Started(nodes, command, env, folder)
    try:
        yield started
    finally:
        nodes.plug_in(DEAD)
        for node in NODES:
            for pid in nodes.processes(node):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        started.process.wait(20)


def stop_all(nodes: TwoNodes, number: signal.Signals = signal.SIGSTOP) -> None:
    for pid in nodes.processes(DEAD):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def die(nodes: TwoNodes) -> None:
    """Lets the second node die."""
    nodes.unplug(DEAD)
    stop_all(nodes)


def ranks_on(nodes: TwoNodes, program: str) -> list[int]:
    """Returns the processes on the second node that run the program."""
    found = []
    for pid in nodes.processes(DEAD):
        with suppress(OSError):
            if Path(f"/proc/{pid}/exe").readlink().name == program:
                found.append(pid)
    return found


def left_on(nodes: TwoNodes) -> list[str]:
    """Returns the commands of the processes that are on the first node after at most some seconds."""
    found: list[str] = []
    for _ in range(50):
        found = []
        for pid in nodes.processes(ALIVE):
            with suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        if not found:
            break
        time.sleep(0.1)
    return found


def watching_processes(pids: Iterable[int]) -> list[int]:
    """Returns the processes of these that have a thread which watches nodes."""
    found = []
    for pid in pids:
        with suppress(OSError):
            if any((task / "comm").read_text() == THREAD for task in Path(f"/proc/{pid}/task").iterdir()):
                found.append(pid)
    return found


def start_of_halo(installation: Installation, program: Path, what: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command and the variables that start a rank of halo_faults on each node."""
    hosts = [(node, 1) for node in NODES]
    command, env = launch_command(installation, [str(program), what], 2, hosts=hosts, oversubscribe=True)
    return command, env | all_nodes.open_mpi_forwarding_variable(["mpirun"], SHORTER)


def start_of_collectives(inst: Installation, programs: Path, what: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command and the variables that start two ranks of collectives_life on each node."""
    program = mpi_program.built(inst, "collectives_life.cpp", programs)
    added = {**environment(inst), **SHORTER, collectives.COLLECTIVES_VARIABLE: "node_ranks=2,all_nodes=1"}
    hosts = [(node, 2) for node in NODES]
    command, env = launch_command(inst, [str(program), what], 4, hosts=hosts, oversubscribe=True)
    return command, {**env, **added, **all_nodes.open_mpi_forwarding_variable(["mpirun"], added)}


@pytest.mark.turn(0)
def test_probe_ends_and_goes_on(nodes: TwoNodes, tmp_path: Path) -> None:
    """While a probe measures, the node's processes are stopped for a while: is it not called dead? Then the node dies:
    does the probe say so, and complete the profile when the node is there again?"""
    hosts, out, inst = tmp_path / "hosts", tmp_path / "p", mpi.choose_mpi(None)
    hosts.write_text(f"{ALIVE} cpus={FIRST}\n{DEAD} cpus={SECOND}\n")
    command = [*NEARFIELD, "probe", *SHORT, "--mpi", inst.name, "--hostfile", str(hosts), "--out", str(out)]
    command += ["--scenario", "pingpong", "--sizes", "8,1K,64K"]
    with on_nodes(nodes, command, {"TMPDIR": str(tmp_path)}, tmp_path) as probe:
        work = out.with_name("p.launches")
        until("progress", lambda: any('"progress"' in file.read_text() for file in work.glob("*.jsonl")), probe)
        stop_all(nodes)
        time.sleep(4)  # longer than a dead node may be silent: the kernel answers, not the processes
        stop_all(nodes, signal.SIGCONT)
        assert probe.process.poll() is None, probe.said()
        die(nodes)
        assert probe.finish(LIMIT_S) == 5, probe.said()
        said = " ".join(probe.said().split())
        assert f"node {DEAD} has not answered for 2 s" in said and "probe --resume --out" in said, said
        assert left_on(nodes) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hosts", "p", "p.launches"]
    again = subprocess.run(
        nodes.on(ALIVE, [*NEARFIELD, "probe", "--resume", "--out", str(out)]), env={**os.environ, **nodes.env},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert nearfield.load(out).run.complete


@pytest.mark.families
def test_halo_exchange_does_not_wait_forever(
    installation: Installation, nodes: TwoNodes, programs: Path, tmp_path: Path
) -> None:
    """Ranks exchange halos with those of a node that dies. Do they say so and end, with their launcher?"""
    if installation.family == "intel":
        pytest.skip("its launcher is MPICH's, Hydra; docs/how-to/mpi.md says how it was tried by hand")
    program = halo_programs.built(installation, "halo_faults", programs)
    command, env = start_of_halo(installation, program, "endless")
    with on_nodes(nodes, command, env, tmp_path) as started:
        until("exchanges", lambda: "ready" in started.said(), started)
        assert len(watching_processes(nodes.processes(ALIVE))) == 1
        die(nodes)
        started.finish(LIMIT_S)
        said = started.said()
        assert f"node {DEAD} has not answered for " in said and "rank 0 has waited in a halo exchange for 1 s" in said
        assert left_on(nodes) == []


def test_program_that_computes_goes_on(nodes: TwoNodes, programs: Path, tmp_path: Path) -> None:
    """Ranks compute while the network is out of order for longer than silence and patience. Do they go on?"""
    inst = mpi.choose_mpi(None)
    command, env = start_of_halo(inst, halo_programs.built(inst, "halo_faults", programs), "compute")
    with on_nodes(nodes, command, env, tmp_path) as started:
        until("computes", lambda: "ready" in started.said(), started)
        assert all(len(watching_processes(nodes.processes(node))) == 1 for node in NODES)
        nodes.unplug(DEAD)
        time.sleep(4.5)  # longer than silence and patience
        assert started.process.poll() is None, started.said()
        nodes.plug_in(DEAD)
        assert started.finish(LIMIT_S) == 0, started.said()
        assert "read 1 of 1" in started.said() and "has not answered" not in started.said(), started.said()


def test_collectives_do_not_wait_forever(nodes: TwoNodes, programs: Path, tmp_path: Path) -> None:
    """A node dies while ranks do collectives of the preloaded library. Do they say so and end, with their launcher?"""
    command, env = start_of_collectives(mpi.choose_mpi(None), programs, "endless")
    with on_nodes(nodes, command, env, tmp_path) as started:
        until("sums", lambda: "ready" in started.said(), started)
        die(nodes)
        started.finish(LIMIT_S)
        said = started.said()
        assert f"node {DEAD} has not answered for " in said and " waited in a collective across nodes for 1 s" in said
        assert left_on(nodes) == []


def test_nothing_is_watched_on_one_node(nodes: TwoNodes, programs: Path, tmp_path: Path) -> None:
    """Do programs whose ranks are all on one node have no thread that watches?"""
    inst = mpi.choose_mpi(None)
    halo = launch_command(inst, [str(halo_programs.built(inst, "halo_faults", programs)), "hold"], 2)
    program = mpi_program.built(inst, "collectives_life.cpp", programs)
    sums = launch_command(inst, [str(program), "endless"], 2)
    for (command, env), more in ((halo, {}), (sums, environment(inst))):
        with on_nodes(nodes, command, {**env, **more}, tmp_path) as started:
            until("ready", lambda started=started: "ready" in started.said(), started)
            assert watching_processes(nodes.processes(ALIVE)) == []


@pytest.mark.turn(1)
def test_tune_goes_on_after_finished_launches(nodes: TwoNodes, tmp_path: Path) -> None:
    """All processes of a node are killed while collectives are tuned. Is the node named, and does the same command go
    on after the launches that were finished?"""
    inst, hosts, rules = mpi.choose_mpi(None), tmp_path / "hosts", tmp_path / "rules.toml"
    hosts.write_text("".join(f"{node} cpus={FIRST},{SECOND}\n" for node in NODES))
    command = [*NEARFIELD, "tune", "--collectives", "--mpi", inst.name, "--hostfile", str(hosts)]
    command += ["--sizes", "8,1K", "--budget", "60", "-o", str(rules)]
    log = rules.with_name(rules.name + LAUNCH_LOG_SUFFIX)
    env = {collectives.COLLECTIVES_VARIABLE: "node_ranks=2"}
    with on_nodes(nodes, command, env, tmp_path) as tune:

        def in_second_launch() -> bool:
            return log.exists() and bool(log.read_text()) and len(ranks_on(nodes, "nearfield-collectives")) == 2

        until("a finished launch", in_second_launch, tune)
        time.sleep(1)  # until the ranks have connected; a launch takes longer
        stop_all(nodes, signal.SIGKILL)
        assert tune.finish(LIMIT_S) == 5, tune.said()
        said = " ".join(tune.said().split())
        assert f"processes on node {DEAD} ended first" in said and "the same command" in said, said
        assert left_on(nodes) == []
    finished = len(log.read_text().splitlines())
    with on_nodes(nodes, command, env, tmp_path) as tune:
        until("it goes on", lambda: f"continues after {finished} launch" in tune.said(), tune)


@pytest.mark.turn(1)
def test_simulate_saves_finished_cases(nodes: TwoNodes, tmp_path: Path) -> None:
    """A worker's node dies while it simulates. Is the node named, and are the finished cases in the profile?"""
    inst, out = mpi.choose_mpi(None), tmp_path / "p"
    words = ["simulate", "alltoall", "--nodes", "32,64", "--sizes", SIZES, "--mpi"]
    argv = [sys.executable, "-m", "mpi4py.futures", "-m", "nearfield", *words, "--out", str(out)]
    hosts = [(node, 1) for node in NODES]
    command, env = launch_command(inst, argv, 2, hosts=hosts, oversubscribe=True)
    added = mpi4py_on(inst)
    if inst.family == "openmpi":
        added[all_nodes.FORWARDING_VARIABLE] = ";".join(added)
    with on_nodes(nodes, command, {**env, **added}, tmp_path) as started:
        until("a finished case", lambda: re.search(r"[1-9]\d* of \d+ cases", started.said()), started)
        die(nodes)
        started.finish(LIMIT_S)
        said = " ".join(started.said().split())
        assert f"node {DEAD} has not answered for 2 s" in said and "the same command" in said, said
        assert left_on(nodes) == []
    profile = nearfield.load(out)
    assert profile.records.height > 0 and not profile.run.complete
