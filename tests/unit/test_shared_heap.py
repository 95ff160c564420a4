"""Does a program whose long blocks lie in the shared heap do what it does without, whatever happens to it?

tests/programs/heap_blocks.cpp checks the malloc family in one process; tests/programs/heap_peer.cpp is a process that
reads and writes others, directed by these tests line by line. Forks are tested in test_heap_forks.py, limits and tools
in test_heap_surroundings.py, programs of MPI in test_heap_mpi.py. Nothing is timed.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from heap_peers import KiB, MiB, Peers, reports, run

from nearfield.base.files import read_bracketed_choice
from nearfield.doctor import kernel, memory

pytestmark = pytest.mark.slow  # their programs are compiled first

FIRST, BEHIND_LAST = 0x20 << 40, 0x21 << 40  # of the heap's addresses (src/preload/heap/region.hpp)


def is_shared(address: int) -> bool:
    return FIRST <= address < BEHIND_LAST


# ---- the malloc family


def test_the_malloc_family_does_what_it_should(heap_programs: Path, tmp_path: Path) -> None:
    """Do all its functions give blocks that are long, aligned, zero and apart as they promise, fail as they should, and
    put those from 8 KiB on into the heap? Do calls through syscall() that the heap does not replace work?"""
    assert run([heap_programs / "blocks", "family"], tmp_path) == "right\n"
    (report,) = reports(tmp_path)
    assert report.number("mapped_bytes") > 0
    assert report.values["reason"] == "-"


def test_blocks_of_many_threads_stay_separate(heap_programs: Path) -> None:
    """Do blocks keep their content while four threads take, change and give back each other's?"""
    assert run([heap_programs / "blocks", "stress", 1]) == "right\n"


def test_freed_memory_returns_to_the_system(heap_programs: Path) -> None:
    """Does the resident memory fall by free() and malloc_trim(), and do threads that end leave nothing behind?"""
    assert run([heap_programs / "blocks", "memory"]) == "right\n"


def test_untouched_memory_costs_nothing(heap_programs: Path) -> None:
    """Does memory that is only read take none, and does MADV_DONTNEED give it back and leave zeros?"""
    assert run([heap_programs / "blocks", "untouched"]) == "right\n"


def test_arrays_that_grow_are_never_there_twice(heap_programs: Path) -> None:
    """Does realloc() take no more memory than the longer array has, as the C library's does by mremap()?"""
    assert run([heap_programs / "blocks", "growing"]) == "right\n"


def test_many_short_blocks_are_the_c_librarys(heap_ranks: Peers) -> None:
    """Where short blocks would lose much memory by ending inside a page, do they come from the C library's heap, and do
    they come from the shared heap again when most of them are freed?"""
    peer = heap_ranks.start()
    blocks = [peer.take(9 * KiB) for _ in range(3000)]
    assert is_shared(blocks[0]) and not is_shared(blocks[-1])
    assert is_shared(peer.take(MiB))
    for block in blocks[:1500]:
        peer.request("give", block)
    assert is_shared(peer.take(9 * KiB))


def test_where_sharing_begins_can_be_set(heap_ranks: Peers) -> None:
    """Do blocks below the length that is set stay in the C library's heap?"""
    peer = heap_ranks.start(**{"from": 100000})
    assert not is_shared(peer.take(99999))
    assert is_shared(peer.take(100000))


def test_arrays_of_fortran_and_numpy_lie_in_the_heap(tmp_path: Path) -> None:
    """Does it get the long arrays of other languages?"""
    numpy = "import numpy; print(*(f(9000).ctypes.data for f in (numpy.empty, numpy.zeros, numpy.arange)))"
    addresses = run([sys.executable, "-c", numpy]).split()
    if compiler := shutil.which("gfortran"):
        source, program = tmp_path / "arrays.f90", tmp_path / "arrays"
        source.write_text("real(8), allocatable, target :: a(:)\nallocate(a(9000))\na = 1\nprint *, loc(a)\nend\n")
        subprocess.run([compiler, source, "-o", program], check=True, timeout=60)
        addresses += run([program]).split()
    assert len(addresses) in (3, 4)
    assert all(is_shared(int(address)) for address in addresses)


# ---- reading and writing a peer's blocks


def test_ragged_pieces_arrive(heap_ranks: Peers) -> None:
    """For several pieces of any length at any address on both sides, across borders of windows too, is every byte where
    it belongs and no other changed, and did no call need the kernel?"""
    owner, reader = heap_ranks.start(), heap_ranks.start(stream="65536-2097152")
    size = 6 * MiB
    long = owner.take(200 * MiB)
    border = (long // (64 * MiB) + 2) * 64 * MiB  # 64 MiB is a window; the second one begins inside the block
    for address in (owner.take(size), border - size // 2):
        owner.request("fill", address, size, 5)
        heap_ranks.share(owner, reader, address, size)
        assert reader.request("ragged", owner.pid, address, size, 5, 300) == "right"
    report = heap_ranks.report(reader)
    assert report.by_kernel == 2
    assert report.in_user_space > 300  # messages of less than 64 B are not counted
    assert report.messages("user_plain") and report.messages("user_streaming")
    assert report.number("windows") >= 2


@pytest.mark.parametrize("is_advised", [False, True])
def test_advised_memory_gets_huge_pages(heap_ranks: Peers, is_advised: bool) -> None:
    """Where huge pages are by advice only: does memory that was advised get them, and other memory none?"""
    if (
        read_bracketed_choice(memory.THP_FOLDER / "enabled") != "madvise"
        or memory.shared_huge_page_result(kernel.MADV_COLLAPSE) != "yes"
    ):
        pytest.skip("shared memory gets no huge pages by advice here")
    size = 8 * MiB
    owner, reader = heap_ranks.start(), heap_ranks.start()
    source, own = owner.take_filled(MiB, 1), reader.take(size, 2 * MiB)
    if is_advised:
        assert reader.request("advise", own, size) == "done"
    reader.request("fill", own, size, 2)
    heap_ranks.share(reader, owner, own, size)
    heap_ranks.share(owner, reader, source, MiB)
    for _ in range(20):
        assert reader.request("get", owner.pid, source, MiB, 1).endswith("right")
    assert bool(heap_ranks.report(reader).number("huge_pages")) is is_advised


def test_a_message_to_oneself_arrives(heap_ranks: Peers) -> None:
    """Does a process read and write itself?"""
    peer = heap_ranks.start()
    address = peer.take_filled(1 * MiB, 1)
    assert peer.request("get", peer.pid, address, 1 * MiB, 1) == f"{MiB} right"
    assert peer.request("put", peer.pid, address, 1 * MiB, 2) == f"{MiB}"
    assert peer.request("check", address, 1 * MiB, 2) == "right"


def test_what_is_not_in_the_heap_is_the_kernels(heap_ranks: Peers) -> None:
    """Does a call have the kernel's own result where a range begins in the heap and ends outside, lies outside, where
    nothing is mapped, and for a process that does not exist or is no rank?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    address, short = owner.take_filled(64 * KiB, 1), owner.take_filled(1000, 2)
    assert not is_shared(short)
    assert reader.request("get", owner.pid, short, 1000, 2) == "1000 right"
    maps = Path(f"/proc/{owner.pid}/maps").read_text().splitlines()
    beyond = max(end for line in maps if is_shared((end := int(line.split("-")[1].split()[0], 16)) - 1))
    assert owner.request("fill", beyond - 5000, 5000, 3) == "done"
    for _ in range(2):
        assert reader.request("get", owner.pid, beyond - 5000, 5000, 3) == "5000 right"
        assert reader.request("get", owner.pid, beyond - 5000, 15000, 3) == "5000 right"  # what there is of it
        assert reader.request("put", owner.pid, beyond - 5000, 15000, 3) == "5000"
        heap_ranks.share(owner, reader, beyond - 5000, 5000)
    for nothing in (beyond, BEHIND_LAST - 4096, BEHIND_LAST + (1 << 40), 4096):
        assert reader.request("get", owner.pid, nothing, 4096, 1) == "EFAULT"
        assert reader.request("put", owner.pid, nothing, 4096, 1) == "EFAULT"
    assert reader.request("get", 2**22 + 5, address, 4096, 1) == "ESRCH"
    without = subprocess.Popen(["sleep", "60"])
    try:
        assert reader.request("get", without.pid, address, 4096, 1) == "EFAULT"
    finally:
        without.kill()
        without.wait()
    report = heap_ranks.report(reader)
    assert (report.in_user_space, report.bytes("user_plain")) == (3, 15000)
    assert report.by_kernel == 16


def test_a_block_that_is_used_again_is_read_anew(heap_ranks: Peers) -> None:
    """After a peer gave a block back to the system and took it again, does a reader get what is there now?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    seen = set()
    for seed in range(6):
        address = owner.take_filled(20 * MiB, seed)
        seen.add(address)
        heap_ranks.share(owner, reader, address + 5 * MiB, 10 * MiB)
        assert reader.request("get", owner.pid, address + 5 * MiB, 10 * MiB, seed) == f"{10 * MiB} right"
        owner.request("give", address)
    assert len(seen) < 6
    assert heap_ranks.report(reader).in_user_space >= 6


def test_more_windows_than_may_be_mapped(heap_ranks: Peers) -> None:
    """Where messages come from more memory than may be mapped at once, are all of them right, from the heap, and is no
    more mapped?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    blocks = [owner.take(64 * MiB) for _ in range(530)]
    for block in blocks:
        owner.request("fill", block, 4096, 1)
        heap_ranks.share(owner, reader, block, 4096)
    for _ in range(2):
        for block in blocks:
            assert reader.request("get", owner.pid, block, 4096, 1) == "4096 right"
    report = heap_ranks.report(reader)
    assert report.in_user_space == 2 * len(blocks)
    assert report.number("windows") == 512


def test_blocks_of_a_thread_that_ended_are_shared(heap_ranks: Peers) -> None:
    """After the end of the thread that took the first block, are messages from it right, and does it become shared?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    address = int(owner.request("from_thread"))
    owner.request("fill", address, 300000, 1)
    heap_ranks.share(owner, reader, address, 300000)
    for _ in range(20):
        assert reader.request("get", owner.pid, address, 300000, 1) == "300000 right"
    assert heap_ranks.report(reader).in_user_space == 20


def test_a_message_makes_pages_shared_the_second_time(heap_ranks: Peers) -> None:
    """Are pages of a block private until messages have passed through them twice, and no others shared then?"""
    owner, reader = heap_ranks.start(share_first=0), heap_ranks.start()
    address = owner.take_filled(MiB, 1)
    for _ in range(2):
        heap_ranks.share(owner, reader, address + 128 * KiB, 256 * KiB)
        assert reader.request("get", owner.pid, address + 128 * KiB, 256 * KiB, 1) == f"{256 * KiB} right"
    report = heap_ranks.report(reader)
    assert (report.in_user_space, report.by_kernel) == (2, 2)
    assert heap_ranks.report(owner).number("shared_bytes") == 256 * KiB


def test_memory_of_messages_stays_shared(heap_ranks: Peers) -> None:
    """Where a program takes new blocks for each message and frees them, as Python does, do the same pages serve again,
    without moving into shared memory each time?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    chance = random.Random(1)
    held: list[int] = []
    for number in range(120):
        size = chance.randrange(64 * KiB, 6 * MiB)
        block = owner.take_filled(size, number)
        heap_ranks.share(owner, reader, block, size)
        held.append(block)
        if len(held) > 3:
            owner.request("give", held.pop(chance.randrange(3)))
    assert heap_ranks.report(owner).number("moves") < 30


def test_pages_that_nobody_uses_move_no_more(heap_ranks: Peers) -> None:
    """Does a program whose blocks go through two messages each, and never again, stop moving pages after a while?"""
    owner, reader = heap_ranks.start(share_first=0), heap_ranks.start(share_first=0)
    for number in range(40):
        block = owner.take_filled(8 * MiB, number)
        for _ in range(2):
            heap_ranks.share(owner, reader, block, 8 * MiB)
    report = heap_ranks.report(owner)
    assert 64 * MiB <= report.number("shared_bytes") < 160 * MiB


# ---- peers that die


def test_a_peer_that_dies_is_gone(heap_ranks: Peers) -> None:
    """Where a peer is killed while it is read and written, do readers end with the kernel's error instead of reading on
    in what they have mapped?"""
    for _ in range(4):
        owner, reader, writer = heap_ranks.start(), heap_ranks.start(), heap_ranks.start()
        blocks = [owner.take_filled(MiB, 1) for _ in range(2)]
        reader.request("follow", owner.pid, blocks[0], MiB, 1)
        writer.request("echo", owner.pid, blocks[1], MiB)
        assert reader.request("get", owner.pid, blocks[0], MiB, 1) == f"{MiB} right"
        heap_ranks.kill(owner)
        for _ in range(20):
            assert reader.request("get", owner.pid, blocks[0], MiB, 1) == "ESRCH"
        assert writer.request("put", owner.pid, blocks[1], MiB, 1) == "ESRCH"
        assert reader.request("join") == "ESRCH"
        assert writer.request("join") in ("ESRCH", "a write was lost")  # it reads what it wrote
        assert heap_ranks.report(reader).number("peers") < 5


def test_killed_processes_leave_nothing(heap_ranks: Peers) -> None:
    """Do processes that are killed at random moments leave no file and no process?"""
    before = set(Path("/dev/shm").glob("*nearfield-heap*"))
    choice = random.Random(1)
    all_peers = [heap_ranks.start() for _ in range(8)]
    for peer in all_peers:
        peer.request("churn")
        peer.request("follow", peer.pid, peer.take_filled(MiB, 1), MiB, 1)
    children = [peer.fork().pid for peer in all_peers[:4]]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for peer in choice.sample(all_peers, len(all_peers)):
        other = choice.choice(all_peers)
        peer.send("get", other.pid, FIRST + 4096, MiB, 1)
        heap_ranks.kill(peer)
    assert set(Path("/dev/shm").glob("*nearfield-heap*")) == before
    assert not [peer for peer in all_peers if Path(f"/proc/{peer.pid}").exists()]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_may_not_read(heap_ranks: Peers) -> None:
    """Is a process of another user refused, as the kernel refuses it?"""
    owner, stranger = heap_ranks.start(), heap_ranks.start()
    address = owner.take_filled(MiB, 1)
    assert stranger.request("become", 65534) == "done"
    assert stranger.request("get", owner.pid, address, MiB, 1) == "EPERM"
    assert stranger.request("put", owner.pid, address, MiB, 1) == "EPERM"
    assert owner.request("check", address, MiB, 1) == "right"
