"""Processes with a shared heap that tests talk to (tests/programs/heap_peer.cpp), and what such processes report."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import mpi_program

from nearfield.base import job_key, shared_heap

LIMIT_S = 30
KiB, MiB = 1 << 10, 1 << 20
COMPILER = os.environ.get("CXX", "c++")
# -fno-builtin: the compiler must not leave out a malloc whose block it sees freed.
FLAGS = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-fno-builtin", "-pthread"]


def build_programs(folder: Path) -> None:
    """Compiles the programs into the folder: as they are, and heap_blocks.cpp static and with AddressSanitizer."""
    variants = {
        "peer": ("heap_peer.cpp", "-ldl"),
        "blocks": ("heap_blocks.cpp", "-ldl"),
        "forks": ("heap_forks.cpp", "-ldl"),
        "static": ("heap_blocks.cpp", "-static"),
        "asan": ("heap_blocks.cpp", "-fsanitize=address", "-O0"),
    }
    in_c = {"filtered": ("filtered.c",), "shifting.so": ("shifting_malloc.c", "-shared", "-fPIC", "-fno-builtin")}
    commands = [
        ["cc", "-O2", str(mpi_program.PROGRAMS / source), *flags, "-ldl", "-o", str(folder / name)]
        for name, (source, *flags) in in_c.items()
    ]
    commands += [
        [COMPILER, *FLAGS, str(mpi_program.PROGRAMS / source), *flags, "-o", str(folder / name)]
        for name, (source, *flags) in variants.items()
    ]
    compilers = [subprocess.Popen(command) for command in commands]
    assert [compiler.wait(120) for compiler in compilers] == [0] * len(commands)


def run(command: list[object], folder: Path | None = None, **settings: object) -> str:
    """Runs a program under the heap to its end, and returns what it printed. Reports go into the folder."""
    words, env = [str(word) for word in command], environment(folder, **settings)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert done.stderr == ""
    return done.stdout


def environment(reports: Path | None = None, **settings: object) -> dict[str, str]:
    """Loads the heap beside whatever this process preloads, with settings of heap/settings.hpp. It opens at once, since
    most of these programs are none of MPI's."""
    values = {"at_start": 1, **settings, **({"report": reports} if reports else {})}
    text = ",".join(f"{key}={value}" for key, value in values.items())
    return {**os.environ, **shared_heap.heap_preload_variables(os.environ), shared_heap.HEAP_VARIABLE: text}


@dataclass(frozen=True)
class Report:
    """The report that one process wrote at its end."""

    values: dict[str, str]

    def messages(self, way: str) -> int:
        return int(self.values[way].split()[0])

    def bytes(self, way: str) -> int:
        return int(self.values[way].split()[1])

    def number(self, key: str) -> int:
        return int(self.values[key])

    @property
    def in_user_space(self) -> int:
        return self.messages("user_plain") + self.messages("user_streaming") + self.messages("user_both")

    @property
    def by_kernel(self) -> int:
        return self.messages("kernel_not_in_heap") + self.messages("kernel_not_shared")


def report_in(file: Path) -> Report:
    return Report(dict(line.split(" = ", 1) for line in file.read_text().splitlines()))


def reports(folder: Path) -> list[Report]:
    """Returns the reports of all processes that have ended by themselves."""
    return [report_in(file) for file in sorted(folder.glob("*.heap"))]


class Peer:
    """A process that answers each line by a line; the end of a test ends it."""

    def __init__(self, pid: int, to: int, back: int, folder: Path) -> None:
        self.pid = pid
        self._to, self._back, self._folder = to, back, folder
        self._rest = b""
        assert self._line() == "begun"

    def request(self, *words: object) -> str:
        self.send(*words)
        return self._line()

    def send(self, *words: object) -> None:
        os.write(self._to, (" ".join(map(str, words)) + "\n").encode())

    def take(self, size: int, alignment: int = 0) -> int:
        address = int(self.request("take", size, alignment))
        assert address
        return address

    def take_filled(self, size: int, seed: int, alignment: int = 0) -> int:
        """Returns a block that is filled by SEED."""
        address = self.take(size, alignment)
        assert self.request("fill", address, size, seed) == "done"
        return address

    def begin_anew(self) -> None:
        assert self.request("exec") == "begun"

    def fork(self) -> Peer:
        """Forks the process and returns the child."""
        number = len(list(self._folder.glob("fifo*")))
        names = [self._folder / f"fifo{number}in", self._folder / f"fifo{number}out"]
        for name in names:
            os.mkfifo(name)
        pid = int(self.request("fork", *names))
        ends = [os.open(names[0], os.O_RDWR), os.open(names[1], os.O_RDWR)]
        return Peer(pid, *ends, self._folder)

    def files(self) -> list[str]:
        """Returns the files of its descriptors."""
        folder = Path(f"/proc/{self.pid}/fd")
        return [str(link.readlink()) for link in folder.iterdir()]

    def close(self) -> None:
        for descriptor in (self._to, self._back):
            os.close(descriptor)

    def _line(self) -> str:
        until = time.monotonic() + LIMIT_S
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._back], [], [], max(0, until - time.monotonic()))
            assert ready, f"process {self.pid} does not answer"
            came = os.read(self._back, 4096)
            assert came, f"process {self.pid} has ended"
            self._rest += came
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()


class Peers:
    """Starts them, and ends them by closing their input, so that they report."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._peers: list[Peer] = []

    def start(self, *, prefix: Sequence[object] = (), key: str = "", **settings: object) -> Peer:
        """Starts one, by a command that ends in the program if there is a prefix."""
        process = subprocess.Popen(
            [*map(str, prefix), self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(self.folder, **{"share_first": 1, **settings})
            | ({job_key.JOB_KEY_VARIABLE: key} if key else {}),
        )
        self._processes.append(process)
        assert process.stdin
        assert process.stdout
        peer = Peer(process.pid, process.stdin.fileno(), process.stdout.fileno(), self.folder)
        self._peers.append(peer)
        return peer

    @staticmethod
    def share(owner: Peer, reader: Peer, address: int, size: int) -> None:
        """Makes pages of the owner shared, by a message that the kernel copies, whose reader asks for it. The owner
        notices during a message to itself; by one before it grants what was requested earlier."""
        owner.request("get", owner.pid, address, 1, 0)
        reader.request("get", owner.pid, address, size, 0)
        owner.request("get", owner.pid, address, 1, 0)

    def kill(self, peer: Peer) -> None:
        (process,) = [one for one in self._processes if one.pid == peer.pid]
        process.kill()
        process.wait(LIMIT_S)

    def report(self, peer: Peer) -> Report:
        """Ends it; returns what it wrote."""
        (process,) = [one for one in self._processes if one.pid == peer.pid]
        assert process.stdin
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0
        return report_in(self.folder / f"{peer.pid}.heap")

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(LIMIT_S)
            for stream in (process.stdin, process.stdout):
                if stream and not stream.closed:
                    stream.close()


@contextmanager
def peers(program: Path, folder: Path) -> Iterator[Peers]:
    """Yields peers, and ends all of them afterwards, whatever happens."""
    started = Peers(program, folder)
    try:
        yield started
    finally:
        started.end()
