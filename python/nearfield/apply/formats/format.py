"""Defines a format.

A rules file's description is another person's text: formats write it as comments (`format_comment_lines`), never as
code.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

# Variables that users may set themselves; our files add to them.
PRELOAD_VARIABLE = "LD_PRELOAD"
# Shell test that is true unless the user has switched nearfield off with NEARFIELD_OFF.
IS_ON_SHELL_TEST = '[ "${NEARFIELD_OFF:-0}" = 0 ]'


def format_preloaded_libraries(environment: Mapping[str, str]) -> str:
    """Returns the libraries to preload, separated by colons, which the loader accepts and modulefiles can extend."""
    return ":".join(environment[PRELOAD_VARIABLE].split())


def list_preloaded_libraries(environment: Mapping[str, str]) -> list[str]:
    """Returns the libraries to preload. Files that can test set nothing where one of them is not readable, since then
    the loader would complain in every process, and the other variables were found together with them."""
    return environment.get(PRELOAD_VARIABLE, "").split()


def format_comment_lines(comments: Iterable[str]) -> list[str]:
    """Returns each comment on one line, since "#" ends with the line, and without a backslash at the end, which would
    continue a comment of Tcl."""
    return [f"# {' '.join(text.split())}".rstrip(" \\") for text in comments]


@dataclass(frozen=True)
class ExportFormat:
    """A format. `write` takes the MPI's family and version, comment lines and variables, and returns the file's text,
    or None if this MPI has no such file. `is_executable` says that the file is a program."""

    name: str
    summary: str
    write: Callable[[str, str, list[str], Mapping[str, str]], str | None]
    is_executable: bool = False
