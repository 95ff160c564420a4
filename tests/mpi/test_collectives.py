"""Are the collectives of a node, which are preloaded into unmodified programs, those of MPI?

What each does is checked against values that the program computes by itself, so it must hold with and without the
library. tests/cpp/test_collective_protocol.cpp explores the protocol.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import mpi_program
import pytest
from two_nodes import NODES, TwoNodes

from nearfield import mpi
from nearfield.base import all_nodes
from nearfield.base.topology import Topology
from nearfield.cli import tune_collectives
from nearfield.mpi import FinishedLaunch, Installation
from nearfield.rules import collectives
from nearfield.rules.collective_tables import CollectiveRangeTable, CollectiveTable
from nearfield.rules.schema import load_rules, save_rules

CORES = len(os.sched_getaffinity(0))
NEARFIELD = [sys.executable, "-m", "nearfield"]


# Every operation and every algorithm, changing from length to length.
SELECTED = ",".join(
    f"{name}@2=mpi-16+{'+'.join(f'{algorithm}-{64 << 4 * i}' for i, algorithm in enumerate(algorithms))}+flat"
    for name in collectives.OPERATIONS
    for algorithms in [collectives.algorithms_of(name, 2)]
)


# The same for several nodes.
ACROSS_NODES = "".join(
    f",{name}@2x2={'+'.join(f'{algorithm}-{64 << 4 * i}' for i, algorithm in enumerate(algorithms))}+{algorithms[0]}"
    for name, algorithms in collectives.ALGORITHMS_ACROSS_NODES.items()
)


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.COLLECTIVES_TARGET)
    mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET)
    mpi_program.built(inst, "collectives_random.cpp", programs)
    mpi_program.built(inst, "collectives_life.cpp", programs)


def environment(inst: Installation) -> dict[str, str]:
    return {
        **collectives.collectives_variables(inst, os.environ),
        collectives.COLLECTIVES_VARIABLE: collectives.SUMMARY_SETTING,
    }


def launch(
    inst: Installation, command: list[object], ranks: int, env: dict[str, str], limit_s: int = 120
) -> FinishedLaunch:
    words = [str(word) for word in command]
    return mpi.run(inst, words, ranks, oversubscribe=ranks > CORES, timeout_s=limit_s, env=env)


def direct(done: FinishedLaunch) -> tuple[int, int]:
    """Returns how many collectives the first rank did directly, and how many it did in all."""
    found = re.search(r"rank 0 did (\d+) of (\d+) collectives", done.stderr)
    assert found, done.stderr
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(("ranks", "seed"), [(1, 1), (2, 2), (3, 3), (4, 4)])
def test_random_calls_have_the_right_results(installation: Installation, programs: Path, ranks: int, seed: int) -> None:
    """With random operations, counts, types, roots, communicators and delays: are all results right, the same as those
    of the MPI library, and most calls direct?"""
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), seed, 200]
    done = launch(installation, command, ranks, environment(installation))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout
    alone = launch(installation, command, ranks, {})
    # Intel MPI's MPI_Gather of derived datatypes is wrong by itself
    assert done.stdout == alone.stdout or not alone.has_succeeded
    number, of = direct(done)
    assert number == 0 if ranks == 1 else number > of / 3


@pytest.mark.families
def test_selected_algorithms_have_the_right_results(installation: Installation, programs: Path) -> None:
    """If rules select the MPI's own algorithm for some lengths and nearfield's for others, are all results right?"""
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), 5, 400]
    env = environment(installation)
    env[collectives.COLLECTIVES_VARIABLE] += f",{SELECTED}"
    done = launch(installation, command, 2, env)
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout
    number, of = direct(done)
    assert 0.1 < number / of < 0.6


@pytest.mark.families
@pytest.mark.parametrize(("ranks", "seed", "calls"), [(3, 3, 300), (5, 5, 300), (7, 7, 200), (18, 20, 150)])
def test_recursive_doubling_has_the_right_results(
    installation: Installation, programs: Path, ranks: int, seed: int, calls: int
) -> None:
    """If recursive doubling is selected for all operations that have it, or by default on many ranks, are all results
    right for numbers of ranks that are no powers of two?"""
    # With seeds 18 and 19, Intel MPI's own MPI_Allgather of a datatype with gaps, in place, is wrong on 18 ranks.
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), seed, calls]
    env = environment(installation)
    if ranks < 16:
        operations = [name for name in collectives.OPERATIONS if collectives.is_algorithm_of(name, "doubling")]
        assert {"allgather", "alltoall", "allreduce", "reduce", "barrier"} == set(operations)
        env[collectives.COLLECTIVES_VARIABLE] += "".join(f",{name}@{ranks}=doubling" for name in operations)
    done = launch(installation, command, ranks, env)
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout
    assert {"MPI_Allgather", "MPI_Alltoall"} <= set(re.findall(r"(MPI_\w+) \d+", done.stderr)), done.stderr


@pytest.mark.families
@pytest.mark.parametrize(("ranks", "node_ranks", "seed"), [(3, 2, 11), (4, 2, 12), (5, 2, 22), (6, 3, 14)])
def test_results_are_right_on_several_nodes(
    installation: Installation, programs: Path, ranks: int, node_ranks: int, seed: int
) -> None:
    """If each few ranks are taken for a node, of which the last one may have fewer, are all results right for the usual
    selection and for the algorithms of several nodes at all lengths, and are they used?"""
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), seed, 400]
    for selected in ("", ACROSS_NODES):
        env = environment(installation)
        env[collectives.COLLECTIVES_VARIABLE] += f",node_ranks={node_ranks}{selected}"
        done = launch(installation, command, ranks, env)
        assert done.has_succeeded, done.stdout + done.stderr
        assert "all right" in done.stdout
        names = re.findall(r"(MPI_\w+) \d+", done.stderr)
        assert {"MPI_Barrier", "MPI_Bcast", "MPI_Reduce", "MPI_Allreduce"} <= set(names), done.stderr


@pytest.mark.families
def test_ranks_with_different_selections_leave_all_to_the_mpi(installation: Installation, programs: Path) -> None:
    """If ranks have different rules, does the MPI do all collectives, so that no rank waits for ever?"""
    program = mpi_program.built(installation, "collectives_random.cpp", programs)
    # $$: the process
    script = f'export {collectives.COLLECTIVES_VARIABLE}="summary=1,bcast@2=flat-$$+mpi"; exec "$0" "$@"'
    done = launch(installation, ["sh", "-c", script, program, 5, 100], 2, environment(installation))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout
    assert direct(done)[0] == 0


@pytest.mark.families
def test_what_is_left_to_the_mpi_is(installation: Installation, programs: Path) -> None:
    """If rules leave every operation to the MPI, are only those direct of which ranks do not know all lengths?"""
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), 5, 200]
    env = environment(installation)
    env[collectives.COLLECTIVES_VARIABLE] += "".join(f",{name}@2=mpi" for name in collectives.OPERATIONS)
    done = launch(installation, command, 2, env)
    assert done.has_succeeded and "all right" in done.stdout, done.stdout + done.stderr
    names = set(re.findall(r"(MPI_\w+) \d+", done.stderr))
    assert {name.removesuffix("_c") for name in names} == {
        "MPI_Gatherv", "MPI_Scatterv", "MPI_Allgatherv", "MPI_Alltoallv", "MPI_Alltoallw"
    }  # fmt: skip


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
def test_tune_writes_rules_or_says_that_nothing_is_decided(tmp_path: Path) -> None:
    """Does `tune --collectives` write rules in the little time that it is given, or say why there are none?"""
    rules, inst = tmp_path / "rules.toml", mpi.choose_mpi(None)
    words = [*NEARFIELD, "tune", "--collectives", "--mpi", inst.name, "--sizes", "8,64KiB", "--budget", "5"]
    done = subprocess.run([*words, "-o", str(rules)], cwd=tmp_path, capture_output=True, text=True, timeout=170)
    if done.returncode == 6:
        assert "too little time" in done.stderr or "not decided" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    found = load_rules(rules)
    assert (found.mpi.family, found.mpi.version) == (inst.family, inst.version)
    assert found.collective_tables() and all(one.point for one in found.collective_tables())


def test_run_follows_rules(programs: Path, tmp_path: Path) -> None:
    """Does `run` load the collectives of a node by rules alone, select what these say, and say what it took?"""
    inst, topology = mpi.choose_mpi(None), Topology.of_this_machine()
    rules = tune_collectives.make_empty_rules(inst, topology)
    tables = [
        CollectiveTable(operation=name, ranks=2, range=[CollectiveRangeTable(algorithm=algorithm)])
        for name, algorithm in (("allreduce", "flat"), ("reduce", "mpi"))
    ]
    tune_collectives.replace_tables(rules, "shared-l3", (0, 1), tables, 0.0)
    save_rules(rules, tmp_path / "rules.toml")
    program = mpi_program.built(inst, "collectives_random.cpp", programs)
    command, env = mpi.launch_command(inst, [str(program), "1", "100"], 2, oversubscribe=CORES < 2)
    words = [*NEARFIELD, "run", "--explain", "--rules", str(tmp_path / "rules.toml"), "--", *command]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "all right" in done.stdout, done.stderr
    assert re.search(r"MPI_Allreduce: [1-9]\d* direct in 0\.\d+ s", done.stderr)
    assert re.search(r"MPI_Reduce: 0 direct in 0\.0+ s, [1-9]\d* by the MPI library in 0\.\d+ s", done.stderr)


@pytest.mark.families
def test_threads_use_communicators_of_their_own(installation: Installation, programs: Path) -> None:
    """Do three threads of each rank, each with its own communicator, get their results?"""
    command: list[object] = [mpi_program.built(installation, "collectives_random.cpp", programs), 7, 100, "threads"]
    done = launch(installation, command, 2, environment(installation))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout or "no threads" in done.stdout


@pytest.mark.families
def test_communicators_that_are_freed_leave_nothing(installation: Installation, programs: Path) -> None:
    """Does memory stay flat while thousands of communicators are made, used and freed?"""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    done = launch(installation, [program, "churn"], 2, environment(installation))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "flat" in done.stdout
    assert direct(done)[0] > 3000


@pytest.mark.families
def test_communicators_that_span_nodes_leave_nothing(installation: Installation, programs: Path) -> None:
    """Does memory also stay flat where each communicator has lanes between nodes, and may MPI_COMM_WORLD have one when
    MPI is finalised?"""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    env = environment(installation)
    env[collectives.COLLECTIVES_VARIABLE] += ",node_ranks=2"
    done = launch(installation, [program, "churn", 100], 3, env)
    assert done.has_succeeded, done.stdout + done.stderr
    assert "flat" in done.stdout
    assert direct(done)[0] > 250


_SUMS = """
import json, sys
from nearfield import mpi
name, program, count, hosts, env = *sys.argv[1:4], json.loads(sys.argv[4]), json.loads(sys.argv[5])
inst = mpi.choose_mpi(name)
done = mpi.run(inst, [program, "sums", count], 4, hosts=hosts, env=env, oversubscribe=True, timeout_s=100)
print(done.stdout + done.stderr)
sys.exit(done.exit_code)
"""


def run_on_two_nodes(
    inst: Installation, nodes: TwoNodes, program: Path, env: dict[str, str], sums: int = 1000
) -> tuple[str, int]:
    """Runs sums on two ranks of each node. Returns the output and how many packets went through the cable."""
    before = sum(map(nodes.packets_sent, NODES))
    hosts = json.dumps([[node, 2] for node in NODES])
    words = [sys.executable, "-c", _SUMS, inst.name, str(program), str(sums), hosts, json.dumps(env)]
    command = nodes.on("nodea", words)
    done = subprocess.run(command, env={**os.environ, **nodes.env}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, sum(map(nodes.packets_sent, NODES)) - before


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
@pytest.mark.turn(1)
def test_tune_measures_across_nodes(nodes: TwoNodes, tmp_path: Path) -> None:
    """Does `tune --collectives --hostfile` measure the algorithms of several nodes, and write rules that name the
    nodes, or say that nothing is decided? All ranks share two cores, so the times mean nothing."""
    rules, inst, hosts = tmp_path / "rules.toml", mpi.choose_mpi(None), tmp_path / "hosts"
    hosts.write_text("".join(f"{node} cpus=0,1\n" for node in NODES))
    words = [*NEARFIELD, "tune", "--collectives", "--mpi", inst.name, "--hostfile", str(hosts), "--sizes", "8"]
    env = {**os.environ, **nodes.env, collectives.COLLECTIVES_VARIABLE: "node_ranks=2"}
    command = nodes.on("nodea", [*words, "--budget", "20", "-o", str(rules)])
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode in (0, 6), done.stdout + done.stderr
    assert "2 ranks on each of 2 nodes" in done.stderr
    if rules.exists():
        found = load_rules(rules).collective_tables()
        assert {(one.ranks, one.nodes) for one in found} == {(2, 2)}
        assert {one.operation for one in found} <= set(collectives.ALGORITHMS_ACROSS_NODES)


@pytest.mark.families
def test_one_rank_of_a_node_sends_for_all(installation: Installation, programs: Path, nodes: TwoNodes) -> None:
    """If two ranks run on each of two nodes that a cable joins, do their sums go through it once for each node? The
    nodes are namespaces of one machine, where all ranks could share memory, so a setting of the library says which of
    them are on a node."""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    env = environment(installation)
    env[collectives.COLLECTIVES_VARIABLE] += ",node_ranks=2,all_nodes=1"
    env |= all_nodes.open_mpi_forwarding_variable(["mpirun"], env)
    said, packets = run_on_two_nodes(installation, nodes, program, env)
    assert "rank 0 did 998 of 1000 collectives" in said
    assert 2000 < packets < 3500, packets  # some acknowledge others; if each rank sent, 4000 would have data


@pytest.mark.families
def test_nodes_that_may_lack_the_library(installation: Installation, programs: Path, nodes: TwoNodes) -> None:
    """If the library is on the launcher's node, and nobody says that it is on the others, too, does it leave all
    collectives to the MPI, and say so? Open MPI's mpirun does not pass LD_PRELOAD on, so that half of the ranks lack
    the library. Few sums: ranks of most MPIs wait busily, here four on two cores."""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    said, _ = run_on_two_nodes(installation, nodes, program, environment(installation), sums=50)
    assert "rank 0 did 0 of 50 collectives" in said
    assert "NEARFIELD_ALL_NODES=1" in said


@pytest.mark.families
@pytest.mark.parametrize("how", ["killed", "exits"])
def test_a_dead_rank_ends_the_program(installation: Installation, programs: Path, how: str) -> None:
    """If a rank dies while the others wait for it in a collective, do they end within 15 s, and is nothing left?"""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    before, begin = mpi.snapshot_shm(), time.monotonic()
    done = launch(installation, [program, how], 2, environment(installation), limit_s=60)
    assert not done.has_succeeded and "not reached" not in done.stdout
    assert time.monotonic() - begin < 15
    assert not [file for file in set(mpi.snapshot_shm()) - set(before) if "nearfield" in str(file)]


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
@pytest.mark.families
def test_busy_processes_do_not_take_a_time_slice_in_each_collective(installation: Installation, programs: Path) -> None:
    """If a process that never waits runs on each rank's core, do ranks get the core back as soon as their peers are
    there? A rank that only yields would get it after the other process's time slice, which is about 3 ms: at most 1,000
    collectives in 3 s. The best of some tries counts, since other tests may use the cores, too."""
    program = mpi_program.built(installation, "collectives_life.cpp", programs)
    counts: list[int] = []
    while max(counts, default=0) <= 2000 and len(counts) < 5:
        done = launch(installation, [program, "busy"], 2, environment(installation))
        assert done.has_succeeded, done.stdout + done.stderr
        found = re.search(r"(\d+) collectives", done.stdout)
        assert found, done.stdout
        counts.append(int(found[1]))
    assert max(counts) > 2000, counts
    slept = re.search(r"rank 0 slept (\d+) times .* needed its core; peers woke it (\d+) times", done.stderr)
    assert slept and int(slept[2]) > int(slept[1]) / 4, done.stderr


@pytest.mark.families
def test_any_program_starts_with_it(installation: Installation) -> None:
    """Does a program that is none of MPI's, such as a shell, start with the library?"""
    env = {**os.environ, **environment(installation)}
    done = subprocess.run(["sh", "-c", "echo all right"], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("all right\n", "")


@pytest.mark.families
def test_run_loads_them(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Does `nearfield run --collectives` work where there are no rules, and say how many calls were direct?"""
    program = mpi_program.built(installation, "collectives_random.cpp", programs)
    command, env = mpi.launch_command(installation, [str(program), "1", "100"], 2, oversubscribe=CORES < 2)
    words = [sys.executable, "-m", "nearfield", "run", "-v", "--collectives", "--", *command]
    env = {name: value for name, value in env.items() if name != "NEARFIELD_RULES"}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "all right" in done.stdout
    assert "there are no rules; only the shared heap and the collectives of a node are loaded" in done.stderr
    assert re.search(r"rank 0 did [1-9]\d* of \d+ collectives itself: MPI_", done.stderr)
