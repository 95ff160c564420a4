"""Finds the executable files among the words of a command line. Imports only `os`, since `nearfield run` uses it before
every mpirun."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Options of launchers whose value is a file name. The file may be executable, but is not a program to launch.
OPTIONS_WITH_FILE = (
    "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f", "-configfile", "--app", "-rankfile",
)  # fmt: skip


def find_executable(word: str) -> str | None:
    """Returns the path of the executable that a shell would start for this word; None if none is found."""
    folders = [""] if "/" in word else os.get_exec_path()
    for folder in folders:
        path = os.path.join(folder, word)  # noqa: PTH118
        if os.access(path, os.X_OK) and os.path.isfile(path):  # noqa: PTH113
            return path
    return None


def find_executables(argv: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Yields (word, path, may be a program) for each word that is an executable file. The value of an option in
    OPTIONS_WITH_FILE is not a program."""
    for before, word in zip(["", *argv], argv, strict=False):
        if path := find_executable(word):
            yield word, path, before not in OPTIONS_WITH_FILE
