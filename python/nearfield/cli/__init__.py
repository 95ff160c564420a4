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
    from typing import Any, NoReturn

# errno values for exhausted system resources: disk, quota, file size, descriptors or memory.
EXHAUSTED_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
NO_TEMPORARY_FOLDER = "No usable temporary directory"  # message of the FileNotFoundError that Python's tempfile raises


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
        from nearfield.base import shared_heap
        from nearfield.cli import fast_dispatch

        shared_heap.switch_site_rules_off(os.environ)  # all processes that this command starts inherit it
        if not fast_dispatch.dispatch(sys.argv[1:]):
            from nearfield.cli.verbs import app

            app()
    except NearfieldError as error:
        _exit_with_error(error)
    except OSError as error:
        system_error = _to_user_error(error)
        if system_error is None:
            raise
        _exit_with_error(system_error)
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
            f"{os.fsdecode(error.filename)}: {error.strerror}", "name another file or folder, or correct this one"
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


def _exit_with_error(error: NearfieldError) -> NoReturn:
    """Prints the error and exits with its exit code."""
    from nearfield.ui.terminal import print_error  # imported late: the import is slow, and most commands succeed

    print_error(error)
    sys.exit(error.exit_code)
