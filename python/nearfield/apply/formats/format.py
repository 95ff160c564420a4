"""Defines a format.

A rules file's description is another person's text: formats write it as comments (`comment_lines`), never as code.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

# Variables that users may set themselves; our files add to them.
PRELOAD = "LD_PRELOAD"
# By this variable a user switches everything off; a test of the shell.
IS_ON = '[ "${NEARFIELD_OFF:-0}" = 0 ]'


def preloaded(environment: Mapping[str, str]) -> str:
    """Returns the libraries to preload, with colons, which the loader accepts and modulefiles can extend."""
    return ":".join(environment[PRELOAD].split())


def libraries(environment: Mapping[str, str]) -> list[str]:
    """Returns the libraries to preload. Files that can test set nothing where one of them is not readable, since then
    the loader would complain in every process, and the other variables were found together with them."""
    return environment.get(PRELOAD, "").split()


def comment_lines(comments: Iterable[str]) -> list[str]:
    """Returns each comment on one line, since "#" ends with the line, and without a backslash at the end, which would
    continue a comment of Tcl."""
    return [f"# {' '.join(text.split())}".rstrip(" \\") for text in comments]


@dataclass(frozen=True)
class Format:
    """A format. `write` takes the MPI's family and version, comment lines and variables, and returns the file's text,
    or None if this MPI has no such file. `executable` says that the file is a program."""

    name: str
    summary: str
    write: Callable[[str, str, list[str], Mapping[str, str]], str | None]
    executable: bool = False
