"""Runs a command as a child process that appears to replace this process: forwards signals, returns its exit code."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi.marked_processes import find_marked_pids
from nearfield.mpi.process import launch_session, scratch_folder_variables

_FORWARDED_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_FATAL_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_PR_SET_PDEATHSIG = 1
_SI_KERNEL = 0x80  # si_code SI_KERNEL: the terminal sent the signal, to the child as well


def run_as_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folders: Iterable[Path] = (),
    on_signal: Callable[[int], None] = lambda number: None,
    mark: str = "",
) -> int:
    """Runs the command. Returns its exit code, or 128 + the signal number if a signal killed it, as a shell does.
    Signals to this process are forwarded to the child. After a signal that usually terminates a process, or if this
    process is killed, the child's remaining processes are terminated and their files removed; `folders` are removed
    only if this process is killed. `on_signal` is called with the number of each signal. `mark` identifies the child's
    processes (default: a new mark)."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED_SIGNALS, signal.SIGCHLD})
    try:
        with launch_session(environment, scratch_folder_variables(argv), folders, mark) as launch:
            unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            child = subprocess.Popen(argv, env=launch.environment, close_fds=False, preexec_fn=unblock)
            launch.guard.update(launcher=child.pid)
            status, was_signalled = _wait_for_child(child.pid, launch.mark, on_signal)
            code = child.returncode = os.waitstatus_to_exitcode(status)
            if was_signalled or code < 0:
                launch.end(child)
        return code if code >= 0 else 128 - code
    except OSError as error:
        raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make_child_setup(mask: Iterable[int]) -> Callable[[], None]:
    """Returns a function to call in the child before exec. It restores the signal mask, and makes the kernel send
    SIGTERM to the child when the parent dies."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def act() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)  # the parent was killed before prctl took effect
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return act


def _wait_for_child(child: int, mark: str, on_signal: Callable[[int], None]) -> tuple[int, bool]:
    """Waits for the child and forwards signals. Returns the child's wait status, and whether a signal arrived that
    usually terminates a process."""
    was_signalled = False
    while True:
        came = signal.sigwaitinfo({*_FORWARDED_SIGNALS, signal.SIGCHLD})
        if came.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status, was_signalled
            continue
        was_signalled |= came.si_signo in _FATAL_SIGNALS
        if came.si_code != _SI_KERNEL:
            _forward_signal(came.si_signo, child, mark)
        on_signal(came.si_signo)


def _forward_signal(signal_number: int, child: int, mark: str) -> None:
    """Sends the signal to the child. SIGINT goes to all processes in the child's process group, like Ctrl-C. Otherwise
    a launcher that is a shell script would keep waiting for the real launcher, which did not receive the signal."""
    reached = {child}
    if signal_number == signal.SIGINT:
        for pid in find_marked_pids(mark):
            with suppress(ProcessLookupError):
                reached |= {pid} if os.getpgid(pid) == os.getpgid(child) else set()
    for pid in reached:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
