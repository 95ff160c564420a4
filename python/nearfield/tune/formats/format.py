"""What a format is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """`write` gets the comment lines and what to set, and gives the file's text; None: this MPI has no such file."""

    name: str
    summary: str
    write: Callable[[str, list[str], Mapping[str, str]], str | None]  # family, comments, environment
