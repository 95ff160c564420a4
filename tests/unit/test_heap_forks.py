"""Does a program whose long blocks lie in the shared heap find after fork, clone and exec what it finds without?

The processes are those of test_shared_heap.py. Nothing is timed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from heap_peers import KiB, MiB, Peers, reports, run

from nearfield.base import shared_heap

pytestmark = pytest.mark.slow  # their programs are compiled first

CORES = len(os.sched_getaffinity(0))


def test_a_fork_divides_the_content(heap_ranks: Peers) -> None:
    """After a fork, do parent and child each keep and change their own bytes, do a peer's reads and writes reach
    the one whose number they name, and are the parent's new blocks shared, and the child's not?"""
    parent, peer = heap_ranks.start(), heap_ranks.start()
    size = 3 * MiB
    old = parent.take_filled(size, 1)
    heap_ranks.share(parent, peer, old, size)
    assert peer.request("get", parent.pid, old, size, 1) == f"{size} right"
    assert peer.request("put", parent.pid, old, size, 2) == f"{size}"
    child = parent.fork()
    parent.request("fill", old, size, 3)
    assert child.request("check", old, size, 2) == "right"
    child.request("fill", old, size, 4)
    assert parent.request("check", old, size, 3) == "right"
    assert peer.request("get", parent.pid, old, size, 3) == f"{size} right"
    assert peer.request("get", child.pid, old, size, 4) == f"{size} right"
    assert peer.request("put", parent.pid, old, size, 5) == f"{size}"
    assert peer.request("put", child.pid, old, size, 6) == f"{size}"
    assert parent.request("check", old, size, 5) == "right"
    assert child.request("check", old, size, 6) == "right"
    # They read each other, too.
    assert child.request("get", parent.pid, old, size, 5) == f"{size} right"
    assert child.request("get", peer.pid, peer.take_filled(size, 7), size, 7) == f"{size} right"
    news = {owner: owner.take_filled(size, seed) for seed, owner in ((8, parent), (9, child))}
    for owner, new in news.items():
        heap_ranks.share(owner, peer, new, size)
    assert peer.request("get", parent.pid, news[parent], size, 8) == f"{size} right"
    assert peer.request("get", child.pid, news[child], size, 9) == f"{size} right"
    report = heap_ranks.report(peer)
    assert (report.in_user_space, report.by_kernel) == (3, 8)


def test_a_clone_divides_the_content(heap_ranks: Peers) -> None:
    """Has a child that clone() makes, past the handlers of forks, the content of shared pages, as pages of its own?"""
    parent, peer = heap_ranks.start(), heap_ranks.start()
    address = parent.take_filled(3 * MiB, 1)
    heap_ranks.share(parent, peer, address, 3 * MiB)
    assert parent.request("check_in_clone", address, 3 * MiB, 1) == "right"
    assert peer.request("get", parent.pid, address, 3 * MiB, 1) == f"{3 * MiB} right"


def test_a_child_reads_whom_the_parent_has_read(heap_ranks: Peers) -> None:
    """Does a child forget the peers that its parent had mapped, and find them again?"""
    parent, peer = heap_ranks.start(), heap_ranks.start()
    address = peer.take_filled(MiB, 1)
    assert parent.request("get", peer.pid, address, MiB, 1) == f"{MiB} right"
    child = parent.fork()
    assert child.request("get", peer.pid, address, MiB, 1) == f"{MiB} right"
    assert child.request("put", peer.pid, address, MiB, 2) == f"{MiB}"
    assert parent.request("get", peer.pid, address, MiB, 2) == f"{MiB} right"


def test_forks_while_others_read_write_and_allocate(heap_ranks: Peers) -> None:
    """While a process with busy threads forks again and again, is every read of a peer right, no write lost, and no
    block of the threads' changed?"""
    owner, reader, writer = heap_ranks.start(), heap_ranks.start(), heap_ranks.start()
    still, written = owner.take_filled(300 * KiB, 1), owner.take(300 * KiB)
    heap_ranks.share(owner, reader, still, 300 * KiB)
    heap_ranks.share(owner, writer, written, 300 * KiB)
    owner.request("churn")
    owner.request("count", owner.take(64 * KiB))
    owner.request("follow", reader.pid, reader.take_filled(100 * KiB, 2), 100 * KiB, 2)
    reader.request("follow", owner.pid, still, 300 * KiB, 1)
    writer.request("echo", owner.pid, written, 300 * KiB)
    for _ in range(20):
        child = owner.fork()
        assert child.request("check", still, 300 * KiB, 1) == "right"
        os.kill(child.pid, signal.SIGKILL)
        owner.request("wait")
        child.close()
    assert (reader.request("stop"), writer.request("stop")) == ("right", "right")
    assert owner.request("stop") == ", ".join(["right"] * 4)
    assert heap_ranks.report(reader).in_user_space > 0


@pytest.mark.parametrize(("seed", "forks", "reason"), [(1, 40, "-"), (2, 70, "-")])
def test_blocks_outlive_many_forks(heap_programs: Path, tmp_path: Path, seed: int, forks: int, reason: str) -> None:
    """Between forks, also more of them than there are regions: do old and new blocks keep their content whatever is
    done with them, in the parent and in every child?"""
    assert run([heap_programs / "forks", "forks", seed, forks], tmp_path) == "right\n"
    (report,) = reports(tmp_path)
    assert report.values["reason"] == reason


@pytest.mark.parametrize("what", ["raw_fork", "fork_memory", "fork_copies", "fork_pinned"])
def test_other_things_that_a_fork_must_not_change(heap_programs: Path, what: str) -> None:
    """Has a child of _Fork() its parent's memory, does memory freed after a fork return to the system, do children
    share memory with their parent until one of them writes to it, and does what the kernel or a network card writes
    into a buffer still arrive there?"""
    said = run([heap_programs / "forks", what])
    if said != "right\n":
        pytest.skip(said)


def test_new_blocks_are_shared_after_forks(heap_ranks: Peers) -> None:
    """When blocks come and go between forks, are new ones always shared?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    owner.take(MiB)  # stays
    for seed in range(10):
        block = owner.take_filled(MiB, seed)
        heap_ranks.share(owner, reader, block, MiB)
        assert reader.request("get", owner.pid, block, MiB, seed) == f"{MiB} right"
        if seed % 3:
            owner.request("give", block)
        child = owner.fork()
        os.kill(child.pid, signal.SIGKILL)
        owner.request("wait")
        if seed % 3 == 0:
            owner.request("give", block)
    report = heap_ranks.report(reader)
    assert (report.in_user_space, report.by_kernel) == (10, 10)


def test_a_program_that_closes_all_descriptors_forks(heap_ranks: Peers) -> None:
    """Where the heap's file is closed, is the content still divided by a fork, and a peer's read right before and
    after?"""
    parent, peer = heap_ranks.start(), heap_ranks.start()
    old = parent.take_filled(3 * MiB, 1)
    assert parent.request("close") == "done"
    assert peer.request("get", parent.pid, old, 3 * MiB, 1) == f"{3 * MiB} right"
    more = parent.take_filled(30 * MiB, 2)  # it grows without a descriptor
    child = parent.fork()
    parent.request("fill", old, 3 * MiB, 3)
    assert child.request("check", old, 3 * MiB, 1) == "right"
    assert child.request("check", more, 30 * MiB, 2) == "right"
    child.request("fill", more, 30 * MiB, 4)
    assert parent.request("check", more, 30 * MiB, 2) == "right"
    assert peer.request("get", parent.pid, old, 3 * MiB, 3) == f"{3 * MiB} right"
    new = parent.take_filled(MiB, 5)
    assert peer.request("get", parent.pid, new, MiB, 5) == f"{MiB} right"
    assert heap_ranks.report(peer).messages("kernel_not_shared") == 3  # nobody can open the file


def test_writes_of_threads_while_a_program_without_descriptors_forks(heap_ranks: Peers) -> None:
    """Where the heap's file is closed, do other threads' writes during a fork last?"""
    owner = heap_ranks.start()
    counter = owner.take(64 * KiB)
    owner.take_filled(200 * MiB, 1)
    owner.request("close")
    owner.request("count", counter)
    for _ in range(3):
        os.kill(owner.fork().pid, signal.SIGKILL)
        owner.request("wait")
    assert owner.request("stop") == "right"


PYTHON_STARTS = """
import multiprocessing, os, subprocess, sys
block = bytearray(range(256)) * 8192
true = "/bin/true"
how = sys.argv[1]
if how == "spawn":
    assert subprocess.run([true]).returncode == 0
    assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\\n"
    assert os.system(true) == 0
    with os.popen("env -u LD_PRELOAD cat /proc/self/maps") as maps:
        assert "nearfield-heap" not in maps.read()
    child = os.posix_spawn(true, [true], os.environ)
    assert os.waitpid(child, 0)[1] == 0
else:
    def work(number):
        block[number] = 99
        return sum(block) + len(bytearray(300000))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        expected = [sum(block) + 300000 + 99 - n for n in range(20)]
        results = pool.map(work, range(20), 1)
    for result in results:
        assert result >= sum(block) + 300000
    assert subprocess.run([true], preexec_fn=lambda: block.reverse()).returncode == 0
assert block == bytearray(range(256)) * 8192
"""


@pytest.mark.parametrize(("how", "forks"), [("spawn", 0), ("fork", 2)])
def test_python_starts_processes(tmp_path: Path, how: str, forks: int) -> None:
    """Do system, popen, posix_spawn and subprocess leave the heap shared, and do multiprocessing and a function before
    exec find their parent's content, and leave it as it was?"""
    assert run([sys.executable, "-c", PYTHON_STARTS, how], tmp_path) == ""
    (report,) = [one for one in reports(tmp_path) if one.values["program"].startswith("python")]
    assert (report.values["reason"] == "-") and (report.number("forks") > 0) == (forks > 0)


def test_exec_leaves_nothing_behind(heap_ranks: Peers) -> None:
    """After exec in a process that was read, has it one heap of its own, and does a reader get the new one's bytes, not
    those of the old that it had mapped? (To the reader this is a process number that got another owner.)"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    old = owner.take_filled(MiB, 1)
    heap_ranks.share(owner, reader, old, MiB)
    assert reader.request("get", owner.pid, old, MiB, 1) == f"{MiB} right"
    owner.begin_anew()
    new = owner.take_filled(MiB, 2)
    assert sum("nearfield-heap" in file for file in owner.files()) == 1
    heap_ranks.share(owner, reader, new, MiB)
    assert reader.request("get", owner.pid, new, MiB, 2) == f"{MiB} right"
    assert reader.request("put", owner.pid, new, MiB, 3) == f"{MiB}"
    assert owner.request("check", new, MiB, 3) == "right"
    report = heap_ranks.report(reader)
    assert (report.in_user_space, report.by_kernel) == (3, 2)


def test_what_a_user_preloads_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Is it loaded beside what a user preloads, once, and does that still take effect?"""
    source, theirs = tmp_path / "theirs.c", tmp_path / "theirs.so"
    source.write_text('#include <stdio.h>\n__attribute__((constructor)) void say(void) { puts("theirs"); }\n')
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", theirs], check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", str(theirs))
    env = shared_heap.heap_preload_variables(os.environ)
    assert env["LD_PRELOAD"].split() == [str(shared_heap.heap_library_path()), str(theirs)]
    assert shared_heap.heap_preload_variables({"LD_PRELOAD": env["LD_PRELOAD"]})["LD_PRELOAD"] == env["LD_PRELOAD"]
    assert sorted(run([sys.executable, "-c", "print('mine')"]).split()) == ["mine", "theirs"]
