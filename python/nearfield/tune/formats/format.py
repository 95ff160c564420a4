"""What a format is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# What users may set themselves: a file of ours adds to it.
PRELOAD = "LD_PRELOAD"


def preloaded(environment: Mapping[str, str]) -> str:
    """What to preload, with colons, which the loader takes as well as spaces, and modulefiles know how to add to."""
    return ":".join(environment[PRELOAD].split())


@dataclass(frozen=True)
class Format:
    """`write` gets family and version of the MPI, the comment lines and what to set, and gives the file's text; None:
    this MPI has no such file."""

    name: str
    summary: str
    write: Callable[[str, str, list[str], Mapping[str, str]], str | None]
