"""Runs one launch, and leaves nothing behind however it ends.

The launcher gets a session of its own, and a mark in its environment, which every process that it starts
inherits. Ranks may join other process groups and outlive a killed launcher, but the mark still finds them.
After the time limit or an interrupt all of them get SIGTERM, and later SIGKILL. If this process itself is
killed, its guard does the same.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nearfield import itself
from nearfield.errors import MpiError
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.guard import Guard
from nearfield.mpi.installation import Hosts, Installation
from nearfield.mpi.launch import launch_command
from nearfield.mpi.shm import remove_stale_shm, snapshot_shm

MARK = "NEARFIELD_LAUNCH"
GRACE_S = 3.0
_TAIL_LINES = 200
OnLine = Callable[[str, str], None]


@dataclass(frozen=True)
class Finished:
    """How a launch ended. `exit_code` is the launcher's; negative: the signal that ended it."""

    argv: tuple[str, ...]
    exit_code: int
    seconds: float
    timed_out: bool
    stdout: str  # the last lines
    stderr: str

    @property
    def ok(self) -> bool:
        """Returns whether the program ended well; some launchers exit with 0 even if a time limit ended them."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def words(self) -> list[str]:
        """The lines that say something, those of standard error first."""
        return [line.strip() for line in f"{self.stderr}\n{self.stdout}".splitlines() if line.strip("-=* \t")]

    @property
    def silence(self) -> str:
        """Returns the command that shows by hand why a launch ended without a message."""
        return f"it wrote nothing, and was started as: {shlex.join(self.argv)}"


def run(
    inst: Installation,
    argv: list[str],
    ranks: int,
    *,
    hosts: Hosts | None = None,
    launcher: str | None = None,
    oversubscribe: bool = False,
    timeout_s: float | None = None,
    on_line: OnLine | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Finished:
    """Launches argv, waits, and returns how it ended. `on_line(stream, line)` gets every line of "stdout" and "stderr"
    at once, on one thread per stream; `on_start` gets the launcher's process id; `env` overrides the environment. A
    KeyboardInterrupt ends the ranks and is raised again."""
    command, environment = launch_command(
        inst, argv, ranks, hosts=hosts, launcher=launcher, oversubscribe=oversubscribe
    )
    mark = uuid.uuid4().hex
    with _scratch(inst, environment, hosts) as scratch:
        environment = {**environment, **scratch, **(env or {}), MARK: mark}
        before = snapshot_shm()
        with Guard(mark=mark, scratch=sorted(set(scratch.values())), shm=sorted(before)) as guard:
            process = _start(command, environment, cwd)
            guard.tell(launcher=process.pid)
            return _watch(process, tuple(command), mark, before, timeout_s, on_line, on_start)


def _watch(
    process: subprocess.Popen[str],
    argv: tuple[str, ...],
    mark: str,
    before: set[str],
    timeout_s: float | None,
    on_line: OnLine | None,
    on_start: Callable[[int], None] | None,
) -> Finished:
    start = time.monotonic()
    readers = [_Reader(process.stdout, "stdout", on_line), _Reader(process.stderr, "stderr", on_line)]
    timed_out = False
    try:
        if on_start:
            on_start(process.pid)
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        end_all(mark, process)
        stdout, stderr = (reader.finish() for reader in readers)
        remove_stale_shm(before)
    seconds = time.monotonic() - start
    return Finished(argv, process.returncode, seconds, timed_out, stdout, stderr)


@contextmanager
def _scratch(inst: Installation, environment: dict[str, str], hosts: Hosts | None) -> Iterator[dict[str, str]]:
    """Yields variables that name a folder for this launch's session files, which is removed even if the launcher was
    killed. Yields none with hosts, or if the user has set such a variable."""
    variables = FAMILIES[inst.family].scratch_variables
    if hosts or not variables or any(name in environment for name in variables):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="nearfield-", ignore_cleanup_errors=True) as folder:
        yield dict.fromkeys(variables, folder)


def _start(command: list[str], env: dict[str, str], cwd: Path | None) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise MpiError(f"cannot start {command[0]}: {error.strerror}", f"see {itself.command('mpi')}") from error


class _Reader:
    """Passes on the lines of one stream and keeps the last of them."""

    def __init__(self, stream: IO[str] | None, name: str, on_line: OnLine | None) -> None:
        assert stream is not None
        self._stream, self._name, self._on_line = stream, name, on_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(ValueError, OSError):  # another thread closed it when the launch was ended
            for line in self._stream:
                self._tail.append(line)
                if self._on_line:
                    self._on_line(self._name, line.rstrip("\n"))

    def finish(self) -> str:
        self._thread.join(GRACE_S)
        if not self._thread.is_alive():  # otherwise another process holds the pipe, and closing would wait for it
            self._stream.close()
        return "".join(self._tail)


def end_all(mark: str, process: subprocess.Popen[str]) -> None:
    """Ends the launcher and every process that carries the mark, by SIGTERM and later by SIGKILL."""
    if process.poll() is None:
        _signal([process.pid], signal.SIGTERM)  # the launcher first: it also ends ranks on other hosts
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S / 2)
    _end_marked(mark)
    process.wait()


def clean_up_after_death(mark: str, launcher: int | None, scratch: list[str], before: set[str]) -> None:
    """Cleans up as `run` does at its end; the guard calls it if nearfield was killed."""
    deadline = time.monotonic() + GRACE_S / 2
    _signal([pid for pid in marked(mark) if pid == launcher], signal.SIGTERM)
    while any(pid == launcher for pid in marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    _end_marked(mark)
    remove_stale_shm(before)
    for folder in scratch:
        shutil.rmtree(folder, ignore_errors=True)


def _end_marked(mark: str) -> None:
    deadline = time.monotonic() + GRACE_S / 2
    _signal(marked(mark), signal.SIGTERM)
    while (left := list(marked(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    while left:
        _signal(left, signal.SIGKILL)
        time.sleep(0.05)
        left = list(marked(mark))


def marked(mark: str) -> Iterator[int]:
    """Yields the living processes of this user with the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if wanted in (process / "environ").read_bytes().split(b"\0") and not _is_dead(process):
                    yield int(process.name)


def _is_dead(process: Path) -> bool:
    """Returns whether the process is a zombie, which only its parent can remove."""
    return (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"


def _signal(pids: Iterator[int] | list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
