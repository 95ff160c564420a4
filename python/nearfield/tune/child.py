"""Runs a command as a child that behaves as if it had been started instead of this process."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence

from nearfield.errors import MpiError

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_PR_SET_PDEATHSIG = 1
_FROM_KERNEL = 0x80  # SI_KERNEL: it is from the terminal, and the child has got it as well


def run_as_child(
    argv: Sequence[str], environment: Mapping[str, str], on_signal: Callable[[int], None] = lambda number: None
) -> int:
    """Runs the command and returns its exit code, or as a shell does 128 + the number of the signal that ended it.
    Passes signals to this process on to the child, which gets SIGTERM if this process is killed. `on_signal` is called
    with the number of each signal that came."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    try:
        child = subprocess.Popen(argv, env=environment, close_fds=False, preexec_fn=as_started_instead(before))
        code = child.returncode = os.waitstatus_to_exitcode(_status_at_end(child.pid, on_signal))
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


def _status_at_end(child: int, on_signal: Callable[[int], None]) -> int:
    while True:
        came = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if came.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            continue
        if came.si_code != _FROM_KERNEL:
            os.kill(child, came.si_signo)
        on_signal(came.si_signo)
