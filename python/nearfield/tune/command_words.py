"""Which words of a command line are programs. Imports next to nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Options of launchers whose value is a file, which may be executable and is no program all the same.
TAKES_A_FILE = (
    "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f", "-configfile", "--app", "-rankfile",
)  # fmt: skip


def which(word: str) -> str | None:
    """The file that a shell would start."""
    folders = [""] if "/" in word else os.get_exec_path()
    for folder in folders:
        path = os.path.join(folder, word)  # noqa: PTH118
        if os.access(path, os.X_OK) and os.path.isfile(path):  # noqa: PTH113
            return path
    return None


def executables(argv: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Words that are executable files: the word, the file, and whether it may be a program: the option before it does
    not take a file."""
    for before, word in zip(["", *argv], argv, strict=False):
        if path := which(word):
            yield word, path, before not in TAKES_A_FILE
