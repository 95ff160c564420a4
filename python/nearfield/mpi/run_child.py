"""Runs a command as a child that behaves as if it had been started instead of this process."""

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
from nearfield.mpi.process import marked, scratch_variables, session

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_PR_SET_PDEATHSIG = 1
_FROM_KERNEL = 0x80  # SI_KERNEL: it is from the terminal, and the child has got it as well


def run_as_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folders: Iterable[Path] = (),
    on_signal: Callable[[int], None] = lambda number: None,
    mark: str = "",
) -> int:
    """Runs the command and returns its exit code, or as a shell does 128 + the number of the signal that ended it.
    Passes signals to this process on to the child. After one that was passed on, and if this process is killed, what
    the child leaves behind is ended and removed; in the latter case `folders`, too. `on_signal` is called with
    the number of each signal that came. `mark` is what the child's processes are known by (default: a new one)."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    try:
        with session(environment, scratch_variables(argv), folders, mark) as its:
            unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            child = subprocess.Popen(argv, env=its.environment, close_fds=False, preexec_fn=unblock)
            its.guard.tell(launcher=child.pid)
            status, was_signalled = _status_at_end(child.pid, its.mark, on_signal)
            code = child.returncode = os.waitstatus_to_exitcode(status)
            if was_signalled or code < 0:
                its.end(child)
        return code if code >= 0 else 128 - code
    except OSError as error:
        raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def as_started_instead(mask: Iterable[int]) -> Callable[[], None]:
    """Returns what is to be done in the child before the command begins."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def act() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)  # the parent was killed just now
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return act


def _status_at_end(child: int, mark: str, on_signal: Callable[[int], None]) -> tuple[int, bool]:
    """Returns the child's status, and whether it got a signal that usually ends a process."""
    was_signalled = False
    while True:
        came = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if came.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status, was_signalled
            continue
        was_signalled |= came.si_signo in _ENDING
        if came.si_code != _FROM_KERNEL:
            _pass_on(came.si_signo, child, mark)
        on_signal(came.si_signo)


def _pass_on(number: int, child: int, mark: str) -> None:
    """Sends the signal to the child. SIGINT goes to its whole process group, as Ctrl-C does: a launcher that is a shell
    script would wait for the real one, which had got nothing."""
    reached = {child}
    if number == signal.SIGINT:
        for pid in marked(mark):
            with suppress(ProcessLookupError):
                reached |= {pid} if os.getpgid(pid) == os.getpgid(child) else set()
    for pid in reached:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
