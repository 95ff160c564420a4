"""Does each MPI list its own algorithms of collectives, and obey the files and variables that select them?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpi_program
import pytest

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.topology import Topology
from nearfield.cli.tune_collectives import make_empty_rules, rule_of_distance
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable, NativeRangeTable
from nearfield.rules.native import FAMILIES
from nearfield.rules.schema import load_rules, save_rules
from nearfield.tune.native_launch import LaunchOutput, format_algorithm_argument, launch_measuring_program

CORES = len(os.sched_getaffinity(0))
NEARFIELD = [sys.executable, "-m", "nearfield"]
SIZE = 4096


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET)
    mpi_program.built(inst, "collectives_random.cpp", programs)


def measure(inst: Installation, words: list[str], environment: dict[str, str], ranks: int = 2) -> LaunchOutput:
    program = mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET)
    cpus = [sorted(os.sched_getaffinity(0))[i % CORES] for i in range(ranks)]
    return launch_measuring_program(inst, program, cpus, words, environment, lambda done: None)


def table(operation: str, name: str, number: int | None, ranks: int = 2) -> NativeCollectiveTable:
    """Returns a table that selects an algorithm up to SIZE, and leaves longer vectors to the MPI."""
    ends: list[tuple[int | None, str, int | None]] = [(SIZE, name, number), (None, "mpi", None)]
    if operation == "barrier":
        ends = [(None, name, number)]
    made = [NativeRangeTable(to_bytes=end, algorithm=one, id=at) for end, one, at in ends]
    return NativeCollectiveTable(operation=operation, ranks=ranks, range=made)


def test_programs_that_load_nothing_are_right_under_the_selection(
    installation: Installation, programs: Path, tmp_path: Path
) -> None:
    """Does each MPI list algorithms, start with its own files or variables that select one for each operation, and give
    right results below and above the length where the selection ends, also with random types, roots and
    communicators?"""
    family = FAMILIES[installation.family]
    listed = family.list_algorithms(installation, lambda line: None)
    operations = {name for name, ones in listed.items() if ones}
    assert {"bcast", "allreduce", "allgather", "alltoall"} <= operations
    fitting = {"barrier": ("recursive_doubling", "dissemination"), "bcast": ("binomial",), "allgather": ("ring",),
               "alltoall": ("pairwise",), "allreduce": ("recursive_doubling",)}  # fmt: skip
    right = [name for name in fitting if name in operations]
    ones = [next((one for one in listed[name] if one.name in fitting[name]), listed[name][0]) for name in right]
    tables = [table(name, one.name, one.id) for name, one in zip(right, ones, strict=True)]
    selected = family.make_selection(tables, installation).write_files(tmp_path)
    check = "check" if family.excludes_user_operators else "check-any-call"
    sizes = {name: (0,) if name == "barrier" else (8, SIZE, 8 * SIZE) for name in right}
    words = [f"{name}:{size}:mpi:{check}" for name, all_of_it in sizes.items() for size in all_of_it]
    found = measure(installation, ["native-calls", *words], selected)
    assert not found.failures
    assert len(found.samples) == len(words)
    program = mpi_program.built(installation, "collectives_random.cpp", programs)
    done = mpi.run(installation, [str(program), "3", "300"], 2, env=selected, oversubscribe=CORES < 2, timeout_s=120)
    assert done.has_succeeded and "all right" in done.stdout, done.stdout + done.stderr


@pytest.mark.families
def test_algorithms_are_measured_in_turn(installation: Installation) -> None:
    """Where the MPI lets algorithms change in a program, are those that it lists measured beside its own choice, with
    the errors of those that cannot do a call reported instead of the program ended?"""
    family = FAMILIES[installation.family]
    if family.measurement_mode == "launches":
        pytest.skip("this MPI reads its selection only when a program starts")
    ones = list(family.list_algorithms(installation, lambda line: None)["alltoall"])
    word = f"alltoall:{SIZE}:mpi,{','.join(map(format_algorithm_argument, ones))}:check"
    found = measure(installation, [family.measurement_mode, word], dict(family.measurement_variables))
    (samples,) = {tuple(one) for of_cell in found.samples.values() for one in of_cell}
    refused = {one.algorithm for one in found.failures}
    assert {*samples, *refused} == {"mpi", *(one.name for one in ones)} and "mpi" in samples and len(samples) > 2
    assert all(one.reason.startswith("MPI_ERR") for one in found.failures)


@pytest.mark.families
def test_open_mpis_file_is_read_for_one_number_of_ranks(installation: Installation, tmp_path: Path) -> None:
    """Is the algorithm of the file used, for the number of ranks that it names and no other? The one for two ranks
    fails if three have it."""
    if installation.family != "openmpi":
        pytest.skip("only Open MPI has an algorithm for two ranks")
    family = FAMILIES["openmpi"]
    two = next(
        one for one in family.list_algorithms(installation, lambda line: None)["barrier"] if one.name == "two_proc"
    )
    for ranks, fails in ((2, False), (3, True)):
        selected = family.make_selection([table("barrier", two.name, two.id, ranks)], installation).write_files(
            tmp_path
        )
        try:
            failed = bool(measure(installation, ["native-calls", "barrier:0:mpi:check"], selected, ranks=3).failures)
        except MeasurementError:  # in a barrier before the first check
            failed = True
        assert failed == fails


@pytest.mark.families
def test_algorithms_that_do_not_keep_the_order_are_noticed(installation: Installation) -> None:
    """Does the check notice that a ring of Open MPI is wrong for an operator that does not commute, though it is right
    for sums?"""
    if installation.family != "openmpi":
        pytest.skip("other MPIs guard their algorithms, or do not say what they are")
    ones = FAMILIES["openmpi"].list_algorithms(installation, lambda line: None)["allreduce"]
    ring = format_algorithm_argument(next(one for one in ones if one.name == "ring"))
    environment = dict(FAMILIES["openmpi"].measurement_variables)
    for check, reasons in (("check", []), ("check-any-call", ["wrong results with an operator that does not commute"])):
        found = measure(installation, ["native-communicators", f"allreduce:{SIZE}:mpi,{ring}:{check}"], environment)
        assert [one.reason for one in found.failures] == reasons


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
@pytest.mark.turn(0)
def test_tune_writes_rules_or_says_that_nothing_is_decided(tmp_path: Path) -> None:
    """Does `tune --collectives --native` write a table for each operation that is decided in the little time that it is
    given, or say why there are none?"""
    rules, inst = tmp_path / "rules.toml", mpi.choose_mpi(None)
    words = [*NEARFIELD, "tune", "--collectives", "--native", "--mpi", inst.name, "--sizes", "8,64KiB", "--budget", "5"]
    done = subprocess.run([*words, "-o", str(rules)], cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert done.returncode in (0, 6), done.stderr
    if done.returncode == 6:
        assert "not decided" in done.stderr
        return
    found = load_rules(rules)
    assert (found.mpi.family, found.mpi.version) == (inst.family, inst.version)
    assert found.native_collective_tables() and all(one.point for one in found.native_collective_tables())


def test_run_sets_what_the_rules_select(tmp_path: Path) -> None:
    """Does `run` write the file of the MPI's own selection and give it to the ranks, and keep it away from ranks that
    may be on other nodes?"""
    inst, topology = mpi.choose_mpi(None), Topology.of_this_machine()
    rules = make_empty_rules(inst, topology)
    rule = rule_of_distance(rules, "shared-l3", (0, 1), 0.0, 2)
    rule.native_collective = [table("allreduce", "recursive_doubling", 3)]
    save_rules(rules, tmp_path / "rules.toml")
    command, env = mpi.launch_command(inst, ["env"], 1)
    words = [*NEARFIELD, "run", "-v", "--rules", str(tmp_path / "rules.toml"), "--", *command]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    file = Path(variables["OMPI_MCA_coll_tuned_dynamic_rules_filename"])
    assert variables["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1" and "1 # collectives" in file.read_text()
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    words[-1:] = ["--hostfile", "hosts", "env"]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "OMPI_MCA_coll_tuned_dynamic_rules_filename" not in done.stdout and "NEARFIELD_ALL_NODES" in done.stderr
