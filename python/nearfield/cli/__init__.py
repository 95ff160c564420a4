"""The command line: `main` starts a verb, and every error ends there."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

from nearfield.errors import NearfieldError, ProfileError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

# The system has run out of something: disk, quota, file size, file descriptors or memory.
EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
NOWHERE = "No usable temporary directory"  # words of Python's tempfile, which raises FileNotFoundError for it
LONGEST_NAME = 200  # of a file, in an error
VERBS = (
    "probe",
    "show",
    "diff",
    "report",
    "tune",
    "run",
    "compare",
    "export",
    "plan",
    "simulate",
    "observe",
    "advise",
    "cc",
    "cxx",
    "fc",
    "rewrite",
    "reproduce",
    "halo",
    "machine",
    "mpi",
    "topology",
    "doctor",
)


def __getattr__(name: str) -> Any:
    """Imports `app` when it is asked for: the import takes a while, and `nearfield run` does not need it."""
    if name == "app":
        from nearfield.cli.verbs import app

        return app
    raise AttributeError(f"module 'nearfield.cli' has no attribute '{name}'")


def main() -> None:
    """Runs the command line; every error a user can act on ends here, as one line and an exit code."""
    from nearfield.cli import at_once

    _take_signals()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without arrows shows question marks
    try:
        if not at_once.run(sys.argv[1:]):
            from nearfield.cli.verbs import app

            app()
    except NearfieldError as error:
        tell(error)
        sys.exit(error.exit_code)
    except OSError as error:
        told = _of_system(error)
        if told is None:
            raise
        tell(told)
        sys.exit(told.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for number in _ENDING:  # from here on Python itself ends, and has no use for an exception
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


# ---- errors of the system


def _of_system(error: OSError) -> NearfieldError | None:
    """Returns the error for the user if the system has run out of something, or if a file or the current folder could
    not be used; None if the error names no cause, which is a mistake of nearfield."""
    if error.errno in EXHAUSTED or NOWHERE in str(error):
        what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        return NearfieldError(what, "free some, raise the limit (ulimit), or set TMPDIR to a folder with room")
    if isinstance(error.filename, (str, bytes, os.PathLike)):
        name = os.fsdecode(error.filename)
        shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
        return ProfileError(f"{shown}: {error.strerror}", "name another file or folder, or mend this one")
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return UsageError("the current folder does not exist any more", "change to another folder: cd")
    return None


def _is_nowhere() -> bool:
    """Returns whether the current folder has been removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


# ---- signals

_ENDING = (signal.SIGINT, signal.SIGTERM)
_RETRY_S = 0.02
_deferred = 0  # the signal that came while a module was imported


def _take_signals() -> None:
    """Lets Ctrl-C and SIGTERM end the command by an exception, so that its ranks and compilers end with it. A shell
    ignores Ctrl-C for what it starts in the background, and that stays so."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    signal.signal(signal.SIGALRM, _end_now)


def _end(number: int, frame: FrameType | None) -> None:
    """Ends the command by an exception, but not while a module is imported: an extension module that is interrupted
    while it is being set up aborts the process. Then the signal is heeded as soon as the import is over."""
    global _deferred
    if _is_importing(frame):
        _deferred = number
        signal.setitimer(signal.ITIMER_REAL, _RETRY_S)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        sys.exit(128 + number)


def _end_now(_: int, frame: FrameType | None) -> None:
    """Takes the timer's signal, and tries again to end the command by the signal that was deferred."""
    if _deferred:
        _end(_deferred, frame)


def _is_importing(frame: FrameType | None) -> bool:
    """Returns whether a module is being imported in this frame or in one that called it."""
    while frame and "<frozen importlib" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def tell(error: NearfieldError) -> None:
    """Prints an error and its remedy."""
    from rich.console import Console  # a slow import, and most commands end well
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    if error.remedy:
        console.print(f"  [dim]→[/dim] {escape(error.remedy)}")
