"""The command line: `main` starts a verb, and every error ends there."""

from __future__ import annotations

import errno
import signal
import sys

from nearfield.errors import NearfieldError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The system has run out of something: disk, quota, file size, file descriptors or memory.
EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
NOWHERE = "No usable temporary directory"  # words of Python's tempfile, which raises FileNotFoundError for it
VERBS = (
    "demo",
    "probe",
    "show",
    "diff",
    "report",
    "tune",
    "run",
    "compare",
    "forecast",
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
    "build",
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

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
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
        if error.errno not in EXHAUSTED and NOWHERE not in str(error):
            raise
        what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        tell(NearfieldError(what, "free some, raise the limit (ulimit), or set TMPDIR to a folder with room"))
        sys.exit(NearfieldError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _end(number: int, frame: Any) -> None:
    """Ends the command on a signal as Ctrl-C does, by an exception, so that its ranks and compilers end with it."""
    sys.exit(128 + number)


def tell(error: NearfieldError) -> None:
    """Prints an error and its remedy."""
    from rich.console import Console  # a slow import, and most commands end well
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    if error.remedy:
        console.print(f"  [dim]→[/dim] {escape(error.remedy)}")
