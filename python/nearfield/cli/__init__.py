"""The command line. `main` runs a verb and handles all errors. `verbs` has one module per verb, `options` has options
that several verbs share, and the other modules format the output of verbs or are shared by them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from nearfield.base.errors import NearfieldError, ProfileError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# errno values for exhausted system resources: disk, quota, file size, descriptors or memory.
EXHAUSTED_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
NO_TEMPORARY_FOLDER = "No usable temporary directory"  # message of the FileNotFoundError that Python's tempfile raises
VERBS_BY_TASK = {
    "First look, builds": ("demo", "build"),
    "Measure a machine and its MPI": ("doctor", "mpi", "topology", "probe", "show", "diff", "verify", "report"),
    "Make unmodified programs faster": ("forecast", "tune", "rules", "compare", "run", "export", "site"),
    "Split a grid, exchange halos": ("plan", "halo"),
    "Find and repair lost time in a code": ("cc", "cxx", "fc", "observe", "advise", "rewrite"),
    "Simulate another machine": ("machine", "simulate"),
    "Check the claims of papers": ("reproduce",),
}
VERBS = tuple(verb for verbs in VERBS_BY_TASK.values() for verb in verbs)


def __getattr__(name: str) -> Any:
    """Imports `app` on first access, because the import is slow and `nearfield run` does not need it."""
    if name == "app":
        from nearfield.cli.verbs import app

        return app
    raise AttributeError(f"module 'nearfield.cli' has no attribute '{name}'")


def main() -> None:
    """Runs the command line. Prints every error that a user can fix as one line, and exits with its exit code."""
    from nearfield.cli import signals

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot encode become question marks
    try:
        signals.install_handlers()
        os.environ["NEARFIELD_SITE"] = "0"  # for what this command starts: it measures, or sets rules itself
        if "LD_PRELOAD" in os.environ:
            from nearfield.base import shared_heap

            shared_heap.drop_site_library(os.environ)
        from nearfield.cli import fast_dispatch

        if not fast_dispatch.dispatch(sys.argv[1:]):
            from nearfield.cli.verbs import app

            app()
    except NearfieldError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except OSError as error:
        system_error = _to_user_error(error)
        if system_error is None:
            raise
        print_error(system_error)
        sys.exit(system_error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        signals.restore_default_handlers()


# ---- operating system errors


def _to_user_error(error: OSError) -> NearfieldError | None:
    """Converts an OSError to an error for the user if a system resource is exhausted, or if a file or the current
    folder cannot be used. Returns None if no cause is evident, which is a bug in nearfield."""
    if error.errno in EXHAUSTED_ERRNOS or NO_TEMPORARY_FOLDER in str(error):
        what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        return NearfieldError(what, "free some, raise the limit (ulimit), or set TMPDIR to a folder with room")
    if isinstance(error.filename, (str, bytes, os.PathLike)):
        return ProfileError(
            f"{os.fsdecode(error.filename)}: {error.strerror}", "name another file or folder, or mend this one"
        )
    if isinstance(error, FileNotFoundError) and _is_current_folder_removed():
        return UsageError("the current folder does not exist any more", "change to another folder: cd")
    return None


def _is_current_folder_removed() -> bool:
    """Returns whether the current folder was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def print_error(error: NearfieldError) -> None:
    """Prints an error and its remedy."""
    from rich.markup import escape  # imported late: the import is slow, and most commands succeed

    from nearfield.ui.terminal import err

    err.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    if error.remedy:
        err.print(f"  [dim]→[/dim] {escape(error.remedy)}")
