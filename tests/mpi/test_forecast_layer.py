"""Does the thin profiling layer count what programs do with MPI, and leave them as they are?

The programs are those of the layer of `nearfield observe`, which writes down each call by means of its own: the two
must agree.
"""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from test_observe_mpi import calls, compiled, lines, messages, observed, run, streams, wrapper

from nearfield import mpi
from nearfield.forecast.ranks import CallCategory, PartnerPlace, RecordedRank, RecordingState, read_ranks
from nearfield.mpi import FinishedLaunch, Installation

pytestmark = pytest.mark.turn(0)

ANY_NUMBER = {  # of calls, which depends on what arrives when
    "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe", "MPI_Waitany",
    "MPI_Waitsome",
}  # fmt: skip


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.FORECAST_TARGET)


def forecast(inst: Installation, program: Path, ranks: int, folder: Path, *words: str, **env: str) -> FinishedLaunch:
    layer = str(mpi.build_target(inst, mpi.FORECAST_TARGET))
    return run(inst, program, ranks, *words, LD_PRELOAD=layer, NEARFIELD_FORECAST=str(folder), **env)


def counts(rank: RecordedRank) -> Counter[str]:
    """Returns how often the rank called each function."""
    found: Counter[str] = Counter()
    for one in rank.call_groups:
        found[one.name] += one.num_calls
    return found


def offered(inst: Installation) -> set[str]:
    """Returns the names of the functions that the layer counts."""
    layer = mpi.build_target(inst, mpi.FORECAST_TARGET)
    shown = subprocess.run(["nm", "-D", "--defined-only", layer], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    assert {name.partition("_")[0] for name in names} == {"MPI", "PMPI", "mpi"}, "others could stand before a program's"
    return {name for name in names if name.startswith("MPI_")} - {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}


def test_both_layers_count_the_same(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """With every kind of call, on four ranks: is the output as without, is each function called as often as the other
    layer says, and are as many bytes sent?"""
    program = calls(installation, programs)
    folders = [tmp_path / name for name in ("observed", "counted")]
    for folder in folders:
        folder.mkdir()
    assert observed(installation, program, 4, folders[0]).has_succeeded
    assert lines(forecast(installation, program, 4, folders[1])) == lines(run(installation, program, 4))
    written, counted = streams(folders[0]), read_ranks(folders[1])
    assert [(rank.rank, rank.num_ranks, rank.num_node_ranks, rank.state) for rank in counted] == [
        (number, 4, 4, RecordingState.FINALIZED) for number in range(4)
    ]
    known = offered(installation) - ANY_NUMBER
    for of_observe, rank in zip(written, counted, strict=True):
        names = Counter(of_observe.texts[event["name"]] for _, event in of_observe.all("enter"))
        expected = {name: number for name, number in names.items() if name in known}
        found = counts(rank)
        assert {name: found[name] for name in expected} == expected
        assert rank.in_mpi_s <= rank.duration_s and rank.sent_to_others_bytes == 0
    sent = sum(sum(sizes) for sizes in messages(written, "send").values())
    assert sum(rank.sent_to_node_bytes for rank in counted) == pytest.approx(
        sent, rel=0.02
    )  # persistent ones are rounded


@pytest.mark.families
def test_the_layer_takes_no_memory_of_the_programs_heap(installation: Installation) -> None:
    """Does it use no function that allocates, and not the C++ library, which allocates when it is loaded?"""
    layer = mpi.build_target(installation, mpi.FORECAST_TARGET)
    read = [["readelf", "-d", layer], ["nm", "-DC", "--undefined-only", layer]]
    needed, used = (subprocess.run(one, check=True, capture_output=True, text=True).stdout for one in read)
    assert "libc.so" in needed and "libstdc++" not in needed
    assert not [name for name in ("malloc", "calloc", "operator new") if f" {name}" in used]


@pytest.mark.families
@pytest.mark.parametrize("words", ["errors", "refused"])
def test_errors_are_the_programs_own(installation: Installation, programs: Path, tmp_path: Path, words: str) -> None:
    """Do calls that fail, that are cancelled, and windows get the same results as without?"""
    done = forecast(installation, calls(installation, programs), 2, tmp_path, words)
    assert done.has_succeeded, done.stdout + done.stderr
    assert [rank.state for rank in read_ranks(tmp_path)] == [RecordingState.FINALIZED] * 2


@pytest.mark.parametrize("binding", ["-DF77", "-DF90", "-DF08"])
def test_fortran_is_counted_once_and_where_it_calls(
    installation: Installation, programs: Path, tmp_path: Path, binding: str
) -> None:
    """By mpif.h, `use mpi` and `use mpi_f08`: is each call counted once, with its place in the program itself?"""
    compiler = wrapper(installation, "fortran")
    if not compiler or (installation.family == "intel" and binding != "-DF77"):
        pytest.skip("no modules for this Fortran compiler")
    flags = ["-fallow-argument-mismatch"] if binding == "-DF77" else []
    program = compiled(installation, compiler, "observed_fortran.F90", programs, binding, *flags)
    done = forecast(installation, program, 2, tmp_path)
    assert lines(done) == lines(run(installation, program, 2))
    for rank in read_ranks(tmp_path):
        found = counts(rank)
        assert {name: number for name, number in found.items() if name != "MPI_Test"} == {
            "MPI_Irecv": 1, "MPI_Isend": 2, "MPI_Waitall": 1, "MPI_Sendrecv": 1, "MPI_Probe": 1, "MPI_Recv": 1,
            "MPI_Allreduce": 1, "MPI_Comm_split": 1, "MPI_Gather": 1, "MPI_Bcast": 1, "MPI_Comm_free": 1,
            "MPI_Barrier": 1,
        }  # fmt: skip
        assert {Path(one.site[0]).name for one in rank.call_groups if one.site} == {program.name}


def test_sizes_and_kinds_are_distinguished(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Is the time of a wait counted with the sizes of its messages, nonblocking and persistent ones alike, and are
    collectives, receives of less than they have room for, and one-sided transfers what they are?"""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "forecast_sizes.c", programs)
    done = forecast(installation, program, 2, tmp_path)
    assert done.has_succeeded, done.stdout + done.stderr
    for rank in read_ranks(tmp_path):
        kinds: dict[tuple[str, str, int], tuple[int, int]] = {}
        for one in rank.call_groups:
            kind = (one.name, one.category.name.lower(), round(one.mean_bytes))
            number, messages_of_it = kinds.get(kind, (0, 0))
            kinds[kind] = (number + one.num_calls, messages_of_it + one.num_messages)
        assert kinds == {
            ("MPI_Irecv", "point_to_point", 8192): (3, 3),
            ("MPI_Isend", "point_to_point", 8192): (3, 3),
            ("MPI_Waitall", "point_to_point", 8192): (3, 6),
            ("MPI_Send_init", "point_to_point", 0): (1, 0),
            ("MPI_Recv_init", "point_to_point", 0): (1, 0),
            ("MPI_Startall", "point_to_point", 1024): (2, 4),
            ("MPI_Wait", "point_to_point", 1024): (4, 4),
            ("MPI_Sendrecv", "point_to_point", 64): (1, 1),
            ("MPI_Send" if rank.rank == 0 else "MPI_Recv", "point_to_point", 40): (1, 1),
            ("MPI_Allreduce", "collective", 8): (5, 5),
            ("MPI_Iallreduce", "collective", 80): (1, 1),
            ("MPI_Wait", "collective", 80): (1, 1),
            ("MPI_Alltoall", "collective", 400): (1, 1),
            ("MPI_Win_create", "one_sided", 0): (1, 0),
            ("MPI_Win_fence", "one_sided", 0): (2, 0),
            ("MPI_Put", "one_sided", 256): (1, 1),
            ("MPI_Win_free", "one_sided", 0): (1, 0),
        }
        assert {one.partner_place for one in rank.call_groups} == {PartnerPlace.NODE}
        assert {one.category for one in rank.call_groups} >= {CallCategory.COLLECTIVE, CallCategory.ONE_SIDED}


def times_agree(times: list[tuple[float, float]]) -> bool:
    """Returns whether the counted and the real seconds of each function differ by at most a fifth."""
    return all(counted == pytest.approx(real, rel=0.2) for counted, real in times)


def test_polls_are_counted_without_a_clock(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Where most polls are not timed: is none of them lost, is the message that the last one found counted, and is
    their time, with that between them, the time for which the program polled? One timed poll stands for 64, so the
    times may be wrong in a run that other programs disturb; not in three."""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "forecast_polls.c", programs)
    runs: list[list[tuple[float, float]]] = []
    while len(runs) < 3 and not any(map(times_agree, runs)):
        folder = tmp_path / str(len(runs))
        folder.mkdir()
        done = forecast(installation, program, 2, folder)
        assert done.has_succeeded, done.stdout + done.stderr
        rank = read_ranks(folder)[0]
        printed = [line.split() for line in done.stdout.splitlines()]
        assert len(printed) == 4
        runs.append([])
        for name, polls, seconds in printed:
            rows = [one for one in rank.call_groups if one.name == name]
            assert sum(one.num_calls for one in rows) == int(polls)
            found = [(one.num_messages, one.total_bytes) for one in rows if one.num_messages]
            assert found == ([] if name == "MPI_Iprobe" else [(1, 1024)])
            runs[-1].append((sum(one.duration_s + one.between_polls_s for one in rows), float(seconds)))
    assert any(map(times_agree, runs)), runs


@pytest.mark.families
def test_threads_are_counted_each(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Where several threads call MPI at once, is no call lost, though there is no lock?"""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "forecast_threads.c", programs, "-pthread")
    done = forecast(installation, program, 2, tmp_path)
    assert done.has_succeeded, done.stdout + done.stderr
    if "no threads" in done.stdout:
        pytest.skip("this MPI has no MPI_THREAD_MULTIPLE here")
    for rank in read_ranks(tmp_path):
        assert counts(rank)["MPI_Sendrecv"] == 4 * 500 and rank.num_lost_threads == 0
        assert 2 <= rank.num_threads <= 5, "a thread may go on with the table of one that has ended"


@pytest.mark.families
@pytest.mark.parametrize(("way", "state"), [("exit", RecordingState.EXITED), ("kill", RecordingState.RUNNING)])
def test_what_ends_early_leaves_what_it_has(
    installation: Installation, programs: Path, tmp_path: Path, way: str, state: RecordingState
) -> None:
    """Does a program that never calls MPI_Finalize, or that is killed, leave the calls that it made?"""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "forecast_sizes.c", programs)
    forecast(installation, program, 2, tmp_path, way)
    ranks = read_ranks(tmp_path)
    assert state in {rank.state for rank in ranks} and RecordingState.FINALIZED not in {rank.state for rank in ranks}
    for rank in ranks:
        assert 0 < rank.in_mpi_s <= rank.duration_s
    assert max(counts(rank)["MPI_Allreduce"] for rank in ranks) == 5, "a launcher may end the others in the last one"


@pytest.mark.families
def test_without_a_folder_nothing_is_counted(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Does the program run as without the layer where it is loaded but not enabled, or has no place to write to?"""
    program = calls(installation, programs)
    for folder in ("", str(tmp_path / "none")):
        layer = str(mpi.build_target(installation, mpi.FORECAST_TARGET))
        assert lines(run(installation, program, 2, LD_PRELOAD=layer, NEARFIELD_FORECAST=folder))
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_no_rank(tmp_path: Path) -> None:
    """Are files that hold no whole recording left out?"""
    for number, content in enumerate((b"", b"nfcast\n\0", os.urandom(70000))):
        (tmp_path / f"{number}.rank").write_bytes(content)
    assert read_ranks(tmp_path) == []
