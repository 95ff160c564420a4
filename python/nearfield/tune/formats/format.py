"""What a format is.

What a rules file says of itself is another person's text: formats write it as comments (`commented`), never as code.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

# What users may set themselves: a file of ours adds to it.
PRELOAD = "LD_PRELOAD"


def preloaded(environment: Mapping[str, str]) -> str:
    """What to preload, with colons, which the loader takes as well as spaces, and modulefiles know how to add to."""
    return ":".join(environment[PRELOAD].split())


def commented(comments: Iterable[str]) -> list[str]:
    """As comments of one line each, whatever lines they had: "#" holds to the end of a line. A backslash at that end
    would add the next line to a comment of Tcl's."""
    return [f"# {' '.join(text.split())}".rstrip(" \\") for text in comments]


@dataclass(frozen=True)
class Format:
    """`write` gets family and version of the MPI, the comment lines and what to set, and gives the file's text; None:
    this MPI has no such file. `executable`: the file is a program."""

    name: str
    summary: str
    write: Callable[[str, str, list[str], Mapping[str, str]], str | None]
    executable: bool = False
