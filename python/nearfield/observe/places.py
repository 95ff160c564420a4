"""Places in programs, as lines of their source: what addr2line says of an offset in an executable or a library."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "?"


@dataclass(frozen=True)
class Line:
    """A line of source; the number is 0 if the program was compiled without -g."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.number}" if self.number else UNKNOWN
        return f"{where} ({self.function})" if self.function != UNKNOWN else where


NOWHERE = Line(UNKNOWN, 0, UNKNOWN)
Place = tuple[str, int]


def line_of_call(lines: Mapping[Place, Line], called: str, frames: Iterable[Place]) -> Line:
    """Returns the line that calls an MPI function. If that is in a wrapper, a function with the called one's name in
    its own (hypre_MPI_Wait), it is the line that calls the wrapper. `frames`: the place of the call, and those where
    the functions around it were called."""
    found = [lines.get(place, NOWHERE) for place in frames]
    return next((line for line in found if called.lower() not in line.function.lower()), found[0])


def lines_of(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Line]:
    """Returns the line of each place, a path and an offset. Offsets are return addresses: the call is before them."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(places):
        by_object[path].append(offset)
    return {(path, offset): line for path, all_of in by_object.items() for offset, line in _ask(path, all_of).items()}


def _ask(path: str, offsets: list[int]) -> Mapping[int, Line]:
    words = ["addr2line", "--functions", "--demangle", "--exe", path]
    asked = "\n".join(hex(offset - 1) for offset in offsets)
    try:
        done = subprocess.run(words, input=asked, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return dict.fromkeys(offsets, NOWHERE)
    said = done.stdout.splitlines()
    return {offset: _line(said[2 * i], said[2 * i + 1]) for i, offset in enumerate(offsets) if 2 * i + 1 < len(said)}


def _line(function: str, where: str) -> Line:
    file, _, number = where.partition(" ")[0].rpartition(":")
    known = function if function != "??" else UNKNOWN
    return Line(file if "?" not in file else UNKNOWN, int(number) if number.isdigit() else 0, known)
