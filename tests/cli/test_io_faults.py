"""If a disk or a file server fails, is an output written whole or not at all, and is the error reported in words?

Calls on the output's path fail in the verb's own process, by a preloaded library (tests/programs/io_faults.c): as on a
full disk, a broken disk, a read-only file system, and a file server that has lost a file.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from reader import DATA, ROOT

from nearfield.base.errors import ProfileError
from nearfield.base.files import atomic_write

FAULTS = {
    "open": errno.EROFS,
    "stat": errno.ESTALE,
    "write": errno.ENOSPC,
    "rename": errno.EIO,
    "mkdir": errno.EDQUOT,
}
WRITERS = {
    "report": "report p -o OUT.html",
    "export": "export --rules rules.toml -o OUT.sh",
    "machine new": "machine new --from here -o OUT.toml",
    "simulate": "simulate allreduce --nodes 4 --sizes 1K -o OUT",
}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "libio_faults.so"
    source = ROOT / "tests/programs/io_faults.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
    return library


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "d"
    made.mkdir()
    shutil.copytree(DATA / "epyc-vm-quiet", made / "p")
    shutil.copy(DATA / "rules" / "openmpi-5.0.11.toml", made / "rules.toml")
    return made


def run(words: str, folder: Path, shim: Path, **fault: object) -> subprocess.CompletedProcess[str]:
    """Runs a verb with a fault, such as call="write", path="OUT", errno=28, spared=0."""
    variables = {f"IO_FAULT_{name.upper()}": str(value) for name, value in fault.items()}
    environment = {**os.environ, "LD_PRELOAD": str(shim), "NEARFIELD_CACHE": str(folder.parent / "cache"), **variables}
    command = [sys.executable, "-m", "nearfield", *words.split()]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, timeout=150)


@pytest.mark.parametrize("call", FAULTS)
@pytest.mark.parametrize("verb", WRITERS)
def test_an_output_is_whole_or_not_there(verb: str, call: str, folder: Path, shim: Path) -> None:
    """Does a verb whose output cannot be written say so, leave nothing of it, and no hidden file?"""
    before = set(folder.rglob("*"))
    done = run(WRITERS[verb], folder, shim, call=call, path="OUT", errno=FAULTS[call])
    assert "Traceback" not in done.stderr
    left = set(folder.rglob("*")) - before
    if done.returncode == 0:  # this verb does without the call
        assert left and not [path for path in left if path.name.startswith(".")]
    else:
        assert done.returncode in (1, 2, 4), done.stderr
        assert "OUT" in done.stderr and not left, left


@pytest.mark.parametrize("call", ["open", "write", "rename"])
def test_an_older_output_stays_as_it_was(call: str, folder: Path, shim: Path) -> None:
    """If a page cannot be replaced, is the older one still whole?"""
    page = folder / "OUT.html"
    page.write_text("older")
    done = run(WRITERS["report"], folder, shim, call=call, path="OUT", errno=FAULTS[call])
    assert (done.returncode, page.read_text()) == (4, "older"), done.stderr
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_written_file_keeps_the_mode(tmp_path: Path) -> None:
    """Is a file that its owner has made private still private after it was written anew?"""
    (tmp_path / "private").touch(0o600)
    atomic_write(tmp_path / "private", b"new", "")
    assert (tmp_path / "private").read_bytes() == b"new"
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    """Does what reads from a pipe that was named as the output get it, and is the pipe still one?"""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(pipe, b"all", "")
    assert os.read(reader, 99) == b"all" and pipe.is_fifo()
    os.close(reader)
    with pytest.raises(ProfileError, match="No such device or address"):  # nobody reads any more
        atomic_write(pipe, b"all", "")


def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    """Is a device that was named as the output still one? It is a device of this test, not one that others use."""
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        atomic_write(device, b"all", "")
    except (PermissionError, ProfileError):
        pytest.skip("only root makes devices, and not everywhere can they be used")
    assert device.is_char_device()


def test_what_is_written_to_standard_output_is_printed(folder: Path) -> None:
    """Does -o /dev/stdout print, as it does with other tools, also into a file?"""
    command = [sys.executable, "-m", "nearfield", *["export", "--rules", "rules.toml", "-o", "/dev/stdout"]]
    with (folder / "printed").open("w") as out:
        subprocess.run(command, stdout=out, cwd=folder, check=True, timeout=100)
    assert "export " in (folder / "printed").read_text()
