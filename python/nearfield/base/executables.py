"""Finds the executable files among the words of a command line. Imports next to nothing, since `nearfield run` does so
before every mpirun."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Options of launchers whose value is a file; it may be executable, but is no program.
TAKES_A_FILE = (
    "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f", "-configfile", "--app", "-rankfile",
)  # fmt: skip


def which(word: str) -> str | None:
    """Returns the file that a shell would start; None if there is none."""
    folders = [""] if "/" in word else os.get_exec_path()
    for folder in folders:
        path = os.path.join(folder, word)  # noqa: PTH118
        if os.access(path, os.X_OK) and os.path.isfile(path):  # noqa: PTH113
            return path
    return None


def executables(argv: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Yields for each word that is an executable file: the word, the file, and whether it may be a program, as it may
    unless it is the value of an option."""
    for before, word in zip(["", *argv], argv, strict=False):
        if path := which(word):
            yield word, path, before not in TAKES_A_FILE
