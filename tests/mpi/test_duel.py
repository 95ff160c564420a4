"""Do two jobs take turns on the same cores, and is every way in which one can fail distinguished and cleaned up?"""

import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_runner import list_processes

from nearfield import mpi
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.criterion import COLLECTIVE_PATTERNS, MESSAGE_PATTERNS
from nearfield.rules.gains import BenchmarkCase
from nearfield.rules.knobs import find_knobs
from nearfield.tune import paired_runs
from nearfield.tune.paired_runs import (
    BatchResult,
    ResidentJob,
    UnusableSetting,
    count_messages_per_repetition,
    count_repetitions,
    measure_interleaved_pairs,
)

pytestmark = [pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")]
SIZES = [8, 4096, 1 << 20]
PATTERNS = (*MESSAGE_PATTERNS, *COLLECTIVE_PATTERNS)


def job(inst: Installation, environment: dict[str, str] | None = None, corrupt: bool = False) -> ResidentJob:
    topology = Topology.of_this_machine()
    pair = next(iter(topology.representative_pairs().values()))
    return ResidentJob(inst, mpi.build_target(inst), topology, pair, SIZES, environment or {}, corrupts_data=corrupt)


def ranks() -> list[int]:
    return [
        p.pid for p in list_processes() if p.words[0].endswith("nearfield-probe") and "nearfield-tune-" in p.words[1]
    ]


def test_two_jobs_take_turns(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every case, does each give its times in its turn, who begins alternating, and do both end without a trace?"""
    turns: list[tuple[ResidentJob, int, int]] = []
    run_batch = ResidentJob.run_batch

    def noted(one: ResidentJob, case: BenchmarkCase, repetitions: int) -> BatchResult:
        found = run_batch(one, case, repetitions)
        turns.append((one, repetitions, len(found.times_ns)))
        return found

    monkeypatch.setattr(ResidentJob, "run_batch", noted)
    before = mpi.snapshot_shm()
    with job(installation) as one, job(installation) as other:
        assert set(one.cases) == set(other.cases) == {(pattern, size) for pattern in PATTERNS for size in SIZES}
        for case in one.cases:
            one.check_data(case)
            turns.clear()
            found = measure_interleaved_pairs(one, other, case, 3)
            repetitions = count_repetitions(case)
            taken = [(job, repetitions, repetitions) for job in (one, other, other, one, one, other)]
            assert turns == taken or len(turns) > len(taken)  # again where the cores moved
            assert len(found) == 3 and all(time > 0 for pair in found for time in pair[:3])
        assert len(ranks()) == 4
    assert ranks() == []
    assert mpi.remove_stale_shm(before) == []


@pytest.mark.families
def test_who_waits_sleeps(installation: Installation) -> None:
    """Does a job that is not its turn leave the cores to the other?"""
    with job(installation) as one:
        one.run_batch(("pingpong", 8), 1)
        before = cpu_seconds(ranks())
        time.sleep(0.5)
        assert cpu_seconds(ranks()) - before < 0.1


def cpu_seconds(pids: list[int]) -> float:
    ticks = [sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) for pid in pids]
    assert len(ticks) == 2
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


@pytest.mark.families
def test_damaged_data_is_unfit(installation: Installation) -> None:
    with job(installation, corrupt=True) as one:
        for case in one.cases:
            with pytest.raises(UnusableSetting, match="damages data"):
                one.check_data(case)


def test_what_does_not_start_is_unfit(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is it reported, be it that the MPI ends or (Open MPI 5) that it waits for itself?"""
    monkeypatch.setattr(paired_runs, "JOB_START_LIMIT_S", 5.0)
    wrong = {
        "OMPI_MCA_pml": "none-such", "MPIR_CVAR_CH4_NETMOD": "none-such", "UCX_TLS": "none-such",
        "I_MPI_FABRICS": "ofi", "I_MPI_OFI_PROVIDER": "none-such",
    }  # fmt: skip
    with pytest.raises(UnusableSetting, match="does not start"), job(installation, wrong):
        pass
    assert ranks() == []


@pytest.mark.families
def test_what_hangs_or_dies_is_unfit(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a job without an answer given up after the limit, one that was killed at once, and nothing left of both?"""
    monkeypatch.setattr(paired_runs, "JOB_REPLY_LIMIT_S", 0.3)
    monkeypatch.setattr(paired_runs, "VOLUNTARY_EXIT_LIMIT_S", 0.1)
    with job(installation) as one:
        stopped = ranks()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(UnusableSetting, match="hangs"):
            one.run_batch(("stream", 8), 1)
    assert ranks() == []
    with job(installation) as one:
        with suppress(ProcessLookupError):
            os.kill(ranks()[-1], signal.SIGKILL)
        with pytest.raises(UnusableSetting, match="dies|hangs"):
            one.run_batch(("exchange", 1 << 20), 1)
    assert ranks() == []


@pytest.mark.families
def test_ctrl_c_while_a_job_ends_leaves_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Are the ranks and all folders gone, too, if Ctrl-C comes while the end of a job is awaited?"""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), job(installation):
        monkeypatch.setattr(threading.Thread, "join", interrupted)
    assert ranks() == [] and not list(tmp_path.iterdir())


@pytest.mark.families
def test_a_launcher_that_starts_too_late_is_ended(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the end not wait for a launch that starts too late, and does that launch leave nothing behind?"""
    run, late = mpi.run, threading.Event()

    def later(*arguments: Any, **more: Any) -> mpi.FinishedLaunch:
        assert late.wait(60)
        return run(*arguments, **more)

    monkeypatch.setattr(mpi, "run", later)
    monkeypatch.setattr(paired_runs, "JOB_START_LIMIT_S", 0.1)
    monkeypatch.setattr(paired_runs, "VOLUNTARY_EXIT_LIMIT_S", 0.1)
    monkeypatch.setattr(paired_runs, "JOB_END_LIMIT_S", 0.1)
    one = job(installation)
    with pytest.raises(UnusableSetting, match="does not start"), one:
        pass
    assert not late.is_set()
    late.set()
    one._thread.join(60)
    assert not one._thread.is_alive() and ranks() == []


def test_messages_are_counted_as_the_engine_sends_them() -> None:
    """Are messages counted as sent: 2 a ping-pong, 1 a collective, and 1 to 32 of 256 KiB together in a window?"""
    assert [count_messages_per_repetition((p, 8)) for p in MESSAGE_PATTERNS] == [64, 32, 32, 64]
    assert [count_messages_per_repetition((p, 64 << 10)) for p in MESSAGE_PATTERNS] == [8, 4, 4, 8]
    assert [count_messages_per_repetition((p, 16 << 20)) for p in MESSAGE_PATTERNS] == [2, 1, 1, 2]
    assert {
        count_messages_per_repetition((p, size)) for p in COLLECTIVE_PATTERNS for size in (8, 64 << 10, 16 << 20)
    } == {1}


@pytest.mark.parametrize("more", [{"cell_size": 65536, "pack_buffer": 65536}, {"segment_size": 33554432}], ids=str)
def test_memory_is_what_the_knobs_say(installation: Installation, more: dict[str, int]) -> None:
    """Does a rank map as much more shared memory than with stock as a rule would say?"""
    knobs = find_knobs(installation.family, installation.version, mpi.transport_or_reason(installation)[0])
    if knobs.find_problems(more):
        pytest.skip("this MPI has no such knobs")
    expected = knobs.shared_memory_bytes(more, ranks_per_node=2) - knobs.shared_memory_bytes({}, ranks_per_node=2)
    mapped = []
    for environment in ({}, knobs.environment(more)):
        with job(installation, environment) as one:
            one.run_batch(("stream", 1 << 20), 1)
            mapped.append(sum(shared_bytes(ranks()).values()) / 2)
    assert mapped[1] - mapped[0] == pytest.approx(expected, rel=0.1, abs=1 << 20)


def shared_bytes(pids: list[int]) -> dict[str, int]:
    """Files in /dev/shm and System V segments that these processes map, with their sizes; each once."""
    found: dict[str, int] = {}
    for pid in pids:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, _, _, _, inode, *name = line.split(maxsplit=5)
            if name and name[0].startswith(("/dev/shm/", "/SYSV", "/memfd")):
                first, last = (int(address, 16) for address in span.split("-"))
                found[f"{name[0]} {inode} {pid}"] = found.get(f"{name[0]} {inode} {pid}", 0) + last - first
    largest: dict[str, int] = {}
    for key, size in found.items():
        file = key.rpartition(" ")[0]
        largest[file] = max(largest.get(file, 0), size)
    return largest
