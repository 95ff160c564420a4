"""Does a program with the shared heap run as without it under limits, filters, other allocators and tools that watch
memory, and does it take no notice where it has no use for the heap?

The programs are those of test_shared_heap.py. Nothing is timed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heap_peers import MiB, Peer, Peers, environment, reports, run

from nearfield.base import shared_heap

pytestmark = pytest.mark.slow  # their programs are compiled first

MPI_FUNCTIONS = ["Init", "Init_thread", "Win_create", "Win_create_c", "Win_allocate", "Win_allocate_c", "Win_attach"]


def limited(limits: str, *command: object) -> list[object]:
    """The command under limits of the shell's."""
    return ["sh", "-c", f'{limits}; exec "$@"', "sh", *command]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("ulimit -v 400000", "-"),
        ("ulimit -v 14000", "-"),  # too little for the first 8 MiB
        ("ulimit -f 1000", "ulimit -f"),
        ("ulimit -n 16", "-"),
    ],
)
def test_limits_are_no_harm(heap_programs: Path, tmp_path: Path, limits: str, reason: str) -> None:
    """Under a limit of address space, file sizes or descriptors, does a program run as without it, from the C library's
    heap where it must, and is the reason reported?"""
    assert run(limited(limits, heap_programs / "blocks", "plain"), tmp_path) == "right\n"
    (report,) = [one for one in reports(tmp_path) if one.values["program"] == "blocks"]
    assert reason in report.values["reason"]


@pytest.mark.parametrize("limits", ["true", "ulimit -l 4096"])
def test_locked_and_excessive_memory(heap_programs: Path, limits: str) -> None:
    """Does a program that locks its memory run, also where little may be locked, and does a block fail that is longer
    than all memory?"""
    assert run(limited(limits, heap_programs / "blocks", "limits")).endswith("right\n")


def test_reading_takes_no_memory_of_a_program_that_locks_it(heap_ranks: Peers) -> None:
    """Where a reader has locked its memory of the future, do only those pages of its peer's file come into being there
    through which a message passes?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    if reader.request("lock") != "done":
        pytest.skip("the limit of locked memory is too low (ulimit -l)")
    before = resident_kib(reader)
    address = owner.take_filled(MiB, 1)
    heap_ranks.share(owner, reader, address, MiB)
    assert reader.request("get", owner.pid, address, MiB, 1) == f"{MiB} right"
    assert resident_kib(reader) - before < 8 * 1024
    assert heap_ranks.report(reader).in_user_space > 0


def test_locking_memory_makes_no_tables_and_windows_resident(heap_ranks: Peers) -> None:
    """Where a process that has received a message locks all of its memory, do the bits of the heap's pages and the rest
    of its peer's file stay as they are, and do messages still pass?"""
    owner, reader = heap_ranks.start(), heap_ranks.start()
    address = owner.take_filled(MiB, 1)
    heap_ranks.share(owner, reader, address, MiB)
    file_before = blocks_of_file(owner)
    if reader.request("lock") != "done":
        pytest.skip("the limit of locked memory is too low (ulimit -l)")
    assert resident_kib(reader) < 32 * 1024  # code, libraries and a stack
    assert blocks_of_file(owner) - file_before < 2 * 512, "only the lines of peers, 256 KiB"
    assert reader.request("get", owner.pid, address, MiB, 1) == f"{MiB} right"


def blocks_of_file(peer: Peer) -> int:
    """Returns how much of a process's heap file exists, in blocks of 512 bytes."""
    files = Path(f"/proc/{peer.pid}/fd").iterdir()
    return next(file.stat().st_blocks for file in files if "nearfield-heap" in str(file.readlink()))


def resident_kib(peer: Peer) -> int:
    status = Path(f"/proc/{peer.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


def test_address_space_that_is_too_small_for_a_block(heap_programs: Path) -> None:
    """Where the region cannot grow, does the C library give the block?"""
    code = "import sys; a = [bytearray(60 << 20) for _ in range(3)]; print(len(a))"
    assert run(limited("ulimit -v 900000", sys.executable, "-c", code)) == "3\n"


def test_steps_aside_for_filters_that_kill(heap_programs: Path, tmp_path: Path) -> None:
    """Where a filter kills whoever makes the heap's system calls: does a program run without the heap, and is the
    reason reported?"""
    assert run([heap_programs / "filtered", "kill", heap_programs / "blocks", "plain"], tmp_path) == "right\n"
    reasons = {report.values["program"]: report.values["reason"] for report in reports(tmp_path)}
    assert "seccomp" in reasons["blocks"]


def test_allocators_that_do_not_report_lengths(heap_programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the heap and before it: are blocks right that an allocator without malloc_usable_size makes longer?"""
    code = "import array; a = array.array('b')\nfor _ in range(3000): a.frombytes(bytes(1000))\nprint(len(a), sum(a))"
    heap, theirs = str(shared_heap.heap_library_path()), str(heap_programs / "shifting.so")
    for order in (f"{heap} {theirs}", f"{theirs} {heap}"):
        monkeypatch.setenv("PYTHONMALLOC", "malloc")
        env = {**environment(), "LD_PRELOAD": order}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "3000000 0\n"), (order, done.stderr)


def test_steps_aside_for_tools_that_watch_memory(heap_programs: Path, tmp_path: Path) -> None:
    """Under AddressSanitizer and Valgrind, and in a static program, does everything run as without it, and is the
    reason reported?"""
    assert run([heap_programs / "asan", "plain"], tmp_path) == "right\n"
    (report,) = reports(tmp_path)
    assert report.values["reason"] == "AddressSanitizer watches this program"
    assert run([heap_programs / "static", "plain"]) == "right\n"
    if valgrind := shutil.which("valgrind"):
        assert run([valgrind, "-q", "--error-exitcode=9", heap_programs / "blocks", "plain"], tmp_path) == "right\n"
        assert "Valgrind watches this program" in {one.values["reason"] for one in reports(tmp_path)}


def test_programs_take_no_notice() -> None:
    """Does a program that is none of MPI's load it without a word, and does it offer nothing but what it
    replaces, and two functions to other libraries of ours?"""
    assert run(["echo", "word"]) == "word\n"
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", shared_heap.heap_library_path()],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert {line.split()[-1] for line in shown.stdout.splitlines()} == {
        "malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
        "malloc_usable_size", "malloc_trim", "process_vm_readv", "process_vm_writev", "syscall", "_Fork", "clone",
        "mmap", "mmap64", "munmap", "mremap", "madvise", "mprotect", "pkey_mprotect", "mlockall", "ioctl",
        "pthread_create", "nearfield_heap_read", "nearfield_heap_poll",
        *(f"{prefix}_{name}" for prefix in ("MPI", "PMPI") for name in MPI_FUNCTIONS),
    }  # fmt: skip


def test_a_setting_that_is_not_understood_is_said() -> None:
    """Is each such setting named in one line, and is everything else as it was?"""
    env = environment(stream="many", nothing=3)
    done = subprocess.run(["true"], env=env, capture_output=True, text=True, timeout=30)
    lines = done.stderr.splitlines()
    assert done.returncode == 0
    assert ["'stream=many'" in lines[0], "'nothing=3'" in lines[1], len(lines)] == [True, True, 2]


def test_programs_without_mpi_take_no_notice() -> None:
    """Unless at_start is set, has a program that never initializes MPI no heap?"""
    script = "print(any(line.startswith('20') and line[12] == '-' for line in open('/proc/self/maps')))"
    for at_start in (0, 1):
        shown = run([sys.executable, "-c", f"block = bytes(1 << 20); {script}"], at_start=at_start)
        assert shown == f"{bool(at_start)}\n"
