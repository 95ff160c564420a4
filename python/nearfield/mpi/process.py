"""Runs one launch of an MPI program, or a user's own command, and cleans up all its processes.

The launcher gets its own session, and a mark in its environment, which all its descendants inherit. Ranks may join
other process groups and outlive a killed launcher, but they can still be found by the mark. After the time limit or an
interrupt, all marked processes get SIGTERM, and later SIGKILL. If nearfield itself is killed, its guard process does
the same.
"""

import shlex
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from nearfield.base import own_command
from nearfield.base.errors import MpiError, NodeLostError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.guard import GuardProcess
from nearfield.mpi.installation import Hosts, Installation
from nearfield.mpi.launch import is_in_allocation, launch_command
from nearfield.mpi.marked_processes import MARK_VARIABLE, TERMINATION_GRACE_S, end_launch
from nearfield.mpi.nodes import watch_nodes
from nearfield.mpi.shm import remove_stale_shm, snapshot_shm

DEAD_CHECK_INTERVAL_S = 1.0  # interval between two calls of `is_dead`
_TAIL_LINES = 200
OnOutputLine = Callable[[str, str], None]


@dataclass(frozen=True)
class FinishedLaunch:
    """The result of a launch. `exit_code` is the launcher's; if negative, the number of the signal that killed it."""

    argv: tuple[str, ...]
    exit_code: int
    seconds: float
    timed_out: bool
    stdout: str  # the last _TAIL_LINES lines of standard output
    stderr: str
    first_ended_node: str = ""  # with hosts: where a rank first ended without notice; empty if unknown

    @property
    def has_succeeded(self) -> bool:
        """Returns whether the program succeeded. Also checks for a timeout, because some launchers exit with 0 after
        they were terminated."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def output_lines(self) -> list[str]:
        """Returns the non-empty lines of output, standard error first, without separator lines."""
        return [line.strip() for line in f"{self.stderr}\n{self.stdout}".splitlines() if line.strip("-=* \t")]

    @property
    def describe_silence(self) -> str:
        """Returns a message, for launches without any output, with the command line to run by hand."""
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
    is_dead: Callable[[], bool] | None = None,
    on_line: OnOutputLine | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> FinishedLaunch:
    """Launches `argv` with the MPI's launcher, waits and returns the result. Terminates the launch after `timeout_s`
    seconds, or as soon as `is_dead`, which is called about once a second, returns True. `on_line(stream, line)` is
    called with every line of "stdout" and "stderr" immediately, on one thread per stream. `on_start` is called with the
    launcher's process id. `env` overrides environment variables. On KeyboardInterrupt, terminates the ranks and
    re-raises. With `hosts`, a program that joins the watch (join_launcher_watch in src/base/node_watch.hpp) is
    terminated if a node dies; then raises NodeLostError."""
    command, environment = launch_command(
        inst, argv, ranks, hosts=hosts, launcher=launcher, oversubscribe=oversubscribe
    )
    variables = FAMILIES[inst.family].scratch_variables
    environment |= env or {}
    if hosts and variables:  # on other nodes the folder does not exist; ssh passes no TMPDIR on, a batch system does
        variables = () if is_in_allocation() else ("TMPDIR",)
        environment.pop("TMPDIR", None)
    with (
        watch_nodes(hosts, environment) as nodes,
        launch_session({**environment, **nodes.variables}, variables) as launch,
    ):
        limit = _LaunchLimit(timeout_s, lambda: bool(nodes.describe_lost_node()) or (is_dead is not None and is_dead()))
        finished = _run_launch(
            command, launch, limit if hosts else _LaunchLimit(timeout_s, is_dead), on_line, cwd, on_start
        )
        if lost := nodes.describe_lost_node():
            raise NodeLostError(lost, "start it again when the node is there, or without the node")
        return replace(finished, first_ended_node=nodes.first_ended_node())


def run_command(
    argv: Sequence[str],
    environment: Mapping[str, str],
    on_line: OnOutputLine | None = None,
    folders: Iterable[Path] = (),
) -> FinishedLaunch:
    """Runs a user's command that starts ranks, with the same cleanup as `run`, without standard input. `folders` are
    removed if nearfield is killed during the run. Raises MpiError if the command cannot be started."""
    with launch_session(environment, scratch_folder_variables(argv), folders) as launch:
        return _run_launch(list(argv), launch, _LaunchLimit(None, None), on_line)


# Options of launchers that name hosts. Ranks on other hosts cannot use a folder on this host.
_HOST_OPTIONS = (
    "-H", "-host", "--host", "-hosts", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f", "-configfile",
)  # fmt: skip


def scratch_folder_variables(argv: Sequence[str]) -> list[str]:
    """Returns the environment variables, for all MPI families, that set the folder of the launcher's session files;
    empty if the command may start ranks on other hosts."""
    if may_use_other_hosts(argv):
        return []
    return [name for family in FAMILIES.values() for name in family.scratch_variables]


def may_use_other_hosts(argv: Sequence[str]) -> bool:
    """Returns whether a command may start ranks on other hosts, because its options name hosts or it runs in an
    allocation of a batch system."""
    return is_in_allocation() or any(word in _HOST_OPTIONS for word in argv)


@dataclass(frozen=True)
class LaunchSession:
    """The state of one launch: the mark, the environment, the guard process, and the content of /dev/shm before the
    launch."""

    mark: str
    environment: Mapping[str, str]
    guard: GuardProcess
    shm_files_before: set[str]

    def end(self, process: subprocess.Popen[Any]) -> None:
        """Terminates the launcher and all its descendants, and removes the files that they leave in /dev/shm."""
        end_launch(self.mark, process)
        remove_stale_shm(self.shm_files_before)


@contextmanager
def launch_session(
    environment: Mapping[str, str], variables: Iterable[str], folders: Iterable[Path] = (), mark: str = ""
) -> Iterator[LaunchSession]:
    """Context manager around one launch. The launcher's session files go to a temporary folder, which is removed at the
    end; `variables` are the environment variables that pass this folder to the launcher. `folders` belong to the caller
    and are removed only if nearfield is killed."""
    mark = mark or uuid.uuid4().hex
    with _scratch_folder(environment, list(variables)) as scratch:
        before = snapshot_shm()
        removed = sorted({*scratch.values(), *map(str, folders)})
        with GuardProcess(mark=mark, scratch=removed, shm=sorted(before)) as guard:
            yield LaunchSession(mark, {**environment, **scratch, MARK_VARIABLE: mark}, guard, before)


class _LaunchLimit:
    """Decides when to terminate a launch: at the time limit, or when `is_dead` returns True."""

    def __init__(self, timeout_s: float | None, is_dead: Callable[[], bool] | None) -> None:
        self._ends = None if timeout_s is None else time.monotonic() + timeout_s
        self._is_dead = is_dead

    def wait(self, process: subprocess.Popen[str]) -> bool:
        """Waits for the process. Returns True if it exited by itself, or False if it must be terminated."""
        while True:
            try:
                process.wait(self._seconds_to_next_check())
                return True
            except subprocess.TimeoutExpired:
                if self._is_time_over() or (self._is_dead and self._is_dead()):
                    return False

    def _seconds_to_next_check(self) -> float | None:
        """Returns the seconds until the next check; None if there is neither a time limit nor an `is_dead`."""
        looks = [] if self._is_dead is None else [DEAD_CHECK_INTERVAL_S]
        limits = [] if self._ends is None else [max(0.0, self._ends - time.monotonic())]
        return min([*looks, *limits], default=None)

    def _is_time_over(self) -> bool:
        return self._ends is not None and time.monotonic() >= self._ends


def _run_launch(
    command: list[str],
    launch: LaunchSession,
    limit: _LaunchLimit,
    on_line: OnOutputLine | None,
    cwd: Path | None = None,
    on_start: Callable[[int], None] | None = None,
) -> FinishedLaunch:
    process = _start_process(command, launch.environment, cwd)
    launch.guard.update(launcher=process.pid)
    return _wait_and_clean_up(process, tuple(command), launch, limit, on_line, on_start)


def _wait_and_clean_up(
    process: subprocess.Popen[str],
    argv: tuple[str, ...],
    launch: LaunchSession,
    limit: _LaunchLimit,
    on_line: OnOutputLine | None,
    on_start: Callable[[int], None] | None,
) -> FinishedLaunch:
    start = time.monotonic()
    readers = [_OutputReader(process.stdout, "stdout", on_line), _OutputReader(process.stderr, "stderr", on_line)]
    timed_out = False
    try:
        if on_start:
            on_start(process.pid)
        timed_out = not limit.wait(process)
    finally:
        launch.end(process)
        stdout, stderr = (reader.join_and_get_text() for reader in readers)
    seconds = time.monotonic() - start
    return FinishedLaunch(argv, process.returncode, seconds, timed_out, stdout, stderr)


@contextmanager
def _scratch_folder(environment: Mapping[str, str], variables: list[str]) -> Iterator[dict[str, str]]:
    """Yields environment variables that set a temporary folder for the launcher's session files. The folder is removed
    even if the launcher was killed. Yields {} if `variables` is empty, or if the user has set one of them."""
    if not variables or any(name in environment for name in variables):
        yield {}
        return
    with OwnedFolder("nearfield-") as folder:
        yield dict.fromkeys(variables, folder)


def _start_process(command: list[str], env: Mapping[str, str], cwd: Path | None) -> subprocess.Popen[str]:
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
        raise MpiError(
            f"cannot start {command[0]}: {error.strerror}", f"see {own_command.command_line('mpi')}"
        ) from error


class _OutputReader:
    """Forwards the lines of one output stream on a thread, and stores the last lines."""

    def __init__(self, stream: IO[str] | None, name: str, on_line: OnOutputLine | None) -> None:
        assert stream is not None
        self._stream, self._name, self._on_line = stream, name, on_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(ValueError, OSError):  # the stream was closed by another thread at the end of the launch
            for line in self._stream:
                self._tail.append(line)
                if self._on_line:
                    self._on_line(self._name, line.rstrip("\n"))

    def join_and_get_text(self) -> str:
        self._thread.join(TERMINATION_GRACE_S)
        if not self._thread.is_alive():  # if alive, another process still holds the pipe, and close() would block
            self._stream.close()
        return "".join(self._tail)
