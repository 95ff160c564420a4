"""Does a lease of the kernel show whether a file is in use: by whichever process, however it uses it?"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearfield.mpi import file_use
from nearfield.mpi.file_use import FileUse, claim_file

IS_ROOT = os.geteuid() == 0
# Maps a file and closes it, by the system call: Python's mmap would keep the file open.
MAPS_ONLY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDWR)
assert libc.mmap(None, 4096, 3, 1, file, 0) != 2**64 - 1
os.close(file)
print(os.getpid(), flush=True)
sys.stdin.read()
"""  # noqa: E501


@pytest.fixture
def file() -> Iterator[Path]:
    """A file on a tmpfs, which every Linux has."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "file"
        path.write_bytes(bytes(4096))
        yield path


def use_of(path: Path) -> FileUse:
    with claim_file(path) as found:
        return found.use


@contextmanager
def another_process(file: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the file mapped, and not open."""
    command = [*before, sys.executable, "-c", MAPS_ONLY, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdin and process.stdout.readline()
        try:
            yield process
        finally:
            process.stdin.close()


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_an_open_file_and_a_mapping_count(file: Path, mode: str) -> None:
    """Is a file in use as long as it is open or mapped, for reading or writing, and no longer?"""
    assert use_of(file) is FileUse.UNUSED
    with file.open(mode) as opened:
        assert use_of(file) is FileUse.IN_USE
        mapped = mmap.mmap(opened.fileno(), 4096, prot=mmap.PROT_READ)
    assert use_of(file) is FileUse.IN_USE
    mapped.close()
    assert use_of(file) is FileUse.UNUSED


def test_a_mapping_of_a_closed_file_counts(file: Path) -> None:
    with another_process(file):
        assert use_of(file) is FileUse.IN_USE
        assert str(file) in file_use.find_process_by_open_file()
    assert use_of(file) is FileUse.UNUSED


@pytest.mark.skipif(not IS_ROOT, reason="PID namespaces need root")
def test_other_pid_namespaces_do_not_matter(file: Path) -> None:
    """Is a process seen that is in a namespace below this one, and one outside that /proc does not show?"""
    inside = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    with another_process(file, *inside):
        assert use_of(file) is FileUse.IN_USE
    script = (
        "import sys; from pathlib import Path\n"
        "from nearfield.mpi.file_use import claim_file, find_process_by_open_file\n"
        "is_visible = sys.argv[1] in find_process_by_open_file()\n"
        "with claim_file(Path(sys.argv[1])) as found: print(found.use.name, is_visible)"
    )
    with another_process(file):
        command = [*inside, sys.executable, "-c", script, str(file)]
        assert subprocess.run(command, capture_output=True, text=True).stdout == "IN_USE False\n"


@pytest.mark.skipif(not IS_ROOT, reason="mounting needs root")
def test_a_layered_file_system_is_not_believed(file: Path) -> None:
    """On an overlay, whose files may be mapped without a sign of it: is the answer that nothing is known?"""
    layers = {name: file.parent / name for name in ("lower", "upper", "work", "merged")}
    for folder in layers.values():
        folder.mkdir()
    options = f"lowerdir={layers['lower']},upperdir={layers['upper']},workdir={layers['work']}"
    if subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", layers["merged"]]).returncode:
        pytest.skip("this kernel has no overlay")
    try:
        file_use._file_system_by_device.cache_clear()
        path = layers["merged"] / "file"
        path.write_bytes(bytes(4096))
        with another_process(path), claim_file(path) as found:
            assert found.use is FileUse.UNKNOWN and "overlay" in found.reason and not found.remove()
        assert path.exists()
    finally:
        subprocess.run(["umount", layers["merged"]], check=True)
        file_use._file_system_by_device.cache_clear()


def test_what_the_kernel_does_not_answer_is_unknown(file: Path) -> None:
    """Are a pipe, which has no leases, and a file that is not there neither in use nor unused?"""
    pipe = file.with_name("pipe")
    os.mkfifo(pipe)
    for path in (pipe, file.with_name("none")):
        with claim_file(path) as found:
            assert found.use is FileUse.UNKNOWN and found.reason and not found.remove()


def test_nobody_can_open_a_claimed_file(file: Path) -> None:
    """Does open() wait until the claim ends, is the claim then given up without a signal that ends this process, and is
    the file not removed?"""
    begin = "import sys; print(flush=True); open(sys.argv[1]).close(); print('opened', flush=True)"
    with claim_file(file) as found:
        assert found.use is FileUse.UNUSED and found.is_unchanged()
        with pytest.raises(BlockingIOError):
            os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with claim_file(file) as other:
            assert other.use is FileUse.IN_USE
        assert not found.is_unchanged(), "somebody wants to open it"
        assert not found.remove()
    with subprocess.Popen([sys.executable, "-c", begin, file], stdout=subprocess.PIPE, text=True) as process:
        with claim_file(file) as found:
            assert process.stdout and process.stdout.readline()
            deadline = time.monotonic() + 20
            while found.is_unchanged() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert process.poll() is None and not found.remove()
        assert process.stdout.readline() == "opened\n"
    assert file.exists()


def test_another_file_of_that_name_is_not_removed(file: Path) -> None:
    """If the name leads to a new file before the removal, does that stay?"""
    with claim_file(file) as found:
        file.rename(file.with_name("old"))
        file.write_text("new")
        assert not found.remove()
    assert file.read_text() == "new"
