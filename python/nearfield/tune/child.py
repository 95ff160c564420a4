"""Runs a command as a child that behaves as if it had been started instead of this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from nearfield.errors import MpiError

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_FROM_KERNEL = 0x80  # SI_KERNEL: it is from the terminal, and the child has got it as well


def run_as_child(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the command and returns its exit code, or as a shell does 128 + the number of the signal that ended it.
    Passes signals to this process on to the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    try:
        ignored_by_python = [signal.SIGPIPE, signal.SIGXFSZ]
        child = os.posix_spawnp(argv[0], list(argv), environment, setsigmask=before, setsigdef=ignored_by_python)
        code = os.waitstatus_to_exitcode(_status_at_end(child))
        return code if code >= 0 else 128 - code
    except OSError as error:
        raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _status_at_end(child: int) -> int:
    while True:
        came = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if came.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif came.si_code != _FROM_KERNEL:
            os.kill(child, came.si_signo)
