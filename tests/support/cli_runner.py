"""Runs `nearfield probe` as a user does, in a process of its own; what several test files need."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CORES = sorted(os.sched_getaffinity(0))
COMMAND = [sys.executable, "-c", "from nearfield.cli import main; main()", "probe"]
# No longer than 1 s would take where nothing else runs: the time to start twice counts. More than enough where it does.
SHORT = ["--quick", "--budget", "15"]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Returns the standard error without line breaks and colours."""
        return " ".join(self.err.split())


def probe(*arguments: object, timeout_s: float = 120) -> Ended:
    """Runs `nearfield probe` with these arguments to its end."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def restrict_to_cpus(cpus: list[int]) -> Iterator[None]:
    """Lets programs that start meanwhile use only these, as under taskset."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    words: list[str]  # of its command line


def list_processes() -> Iterator[Process]:
    """Returns all processes but zombies."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield Process(int(process.name), int(parent), words)


class Running:
    """A probe that runs, with a separate folder for temporary files. Its ranks are found by their plan."""

    def __init__(self, process: subprocess.Popen[str], out: Path, scratch: Path) -> None:
        self.process, self.out, self.scratch = process, out, scratch
        self.work = out.with_name(out.name + ".launches")

    def until(self, what: str, when: Callable[[], bool], timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while not when():
            assert time.monotonic() < deadline, f"{what}: not within {timeout_s:.0f} s"
            time.sleep(0.05)

    def until_written(self, text: str) -> None:
        """Waits until the engine has written this."""

        def is_written() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return any(text in path.read_text(errors="replace") for path in self.work.glob("*.jsonl"))

        self.until(f"'{text}' in the engine's output", is_written)

    def ranks(self) -> list[int]:
        return [p.pid for p in list_processes() if p.words[0].endswith("nearfield-probe") and self._names_ours(p.words)]

    def _names_ours(self, words: list[str]) -> bool:
        return any(word.startswith(str(self.work)) for word in words)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self, timeout_s: float = 60) -> Ended:
        out, err = self.process.communicate(timeout=timeout_s)
        assert "Traceback" not in err, err
        return Ended(self.process.returncode, out, err)


@contextmanager
def start_probe(out: Path, *arguments: object) -> Iterator[Running]:
    """Yields a probe, which is killed at the end if it still goes on."""
    scratch = Path(tempfile.mkdtemp(dir="/tmp", prefix="probe-"))  # short: there will be sockets in it
    process = subprocess.Popen(
        [*COMMAND, "--out", str(out), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    running = Running(process, out, scratch)
    try:
        yield running
    finally:
        process.kill()
        process.communicate()
        running.until("ranks end", lambda: not running.ranks(), 20)
        shutil.rmtree(scratch, ignore_errors=True)
