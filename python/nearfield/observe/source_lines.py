"""Finds the source lines of code locations by the debugging information, or by symbols without it."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nearfield.observe.symbols import FunctionNames

UNKNOWN = "?"


@dataclass(frozen=True)
class Line:
    """A line of source. Without debugging information (-g) the number is 0, and `object` and `offset` locate it: the
    file of the program or library, and the return address in it, 0 for any."""

    file: str
    number: int
    function: str
    object: str = ""
    offset: int = 0

    def __str__(self) -> str:
        named = self.function != UNKNOWN
        return f"{self._where()} ({self.function})" if named else self._where()

    def _where(self) -> str:
        if self.number:
            return f"{Path(self.file).name}:{self.number}"
        if not self.object:
            return UNKNOWN
        return Path(self.object).name + (f"+{self.offset:#x}" if self.offset else "")

    @property
    def is_named(self) -> bool:
        """Returns whether a line or a function is known."""
        return bool(self.number) or self.function != UNKNOWN

    def merge_by_function(self) -> Line:
        """Returns the common key of all locations in a function if the line is unknown; a known source line is
        unchanged."""
        return self if self.number else replace(self, offset=0)


UNKNOWN_LINE = Line(UNKNOWN, 0, UNKNOWN)
CodeLocation = tuple[str, int]


def line_of(lines: Mapping[CodeLocation, Line], place: CodeLocation) -> Line:
    """Returns the line of a code location; object and offset are always known."""
    return lines.get(place) or Line(UNKNOWN, 0, UNKNOWN, *place)


def line_of_call(lines: Mapping[CodeLocation, Line], called: str, frames: Iterable[CodeLocation]) -> Line:
    """Returns the line that calls an MPI function. If that is in a wrapper, a function whose name contains the called
    one's (hypre_MPI_Wait), it is the line that calls the wrapper. `frames`: the location of the call, and those of the
    calls around it."""
    found = [line_of(lines, place) for place in frames]
    return next((line for line in found if called.lower() not in line.function.lower()), found[0])


def lines_of(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Line]:
    """Returns the line of each location, a path and an offset. Offsets are return addresses: the call is before
    them."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(places):
        by_object[path].append(offset)
    return {
        (path, offset): line
        for path, all_of in by_object.items()
        for offset, line in _run_addr2line(path, all_of).items()
    }


def to_utf8(text: str) -> str:
    """Returns the text with bytes that are not UTF-8 as \\xff."""
    return os.fsencode(text).decode(errors="backslashreplace")


def _run_addr2line(path: str, offsets: list[int]) -> Mapping[int, Line]:
    """Returns lines from addr2line. Where it has none, its function is the nearest preceding symbol, which is not
    reliable."""
    words = ["addr2line", "--functions", "--demangle", "--exe", path]
    addresses = "\n".join(hex(offset - 1) for offset in offsets)
    try:
        done = subprocess.run(words, input=addresses, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return {offset: Line(UNKNOWN, 0, UNKNOWN, path, offset) for offset in offsets}
    said = done.stdout.splitlines()
    found = {
        at: _parse_addr2line(said[2 * i], said[2 * i + 1]) for i, at in enumerate(offsets) if 2 * i + 1 < len(said)
    }
    names = FunctionNames(path) if any(not line.number for line in found.values()) else None
    return {
        at: line if line.number or not names else Line(UNKNOWN, 0, names.function_at(at - 1) or UNKNOWN, path, at)
        for at, line in found.items()
    }


def _parse_addr2line(function: str, where: str) -> Line:
    file, _, number = where.partition(" ")[0].rpartition(":")
    known = function if function != "??" else UNKNOWN
    return Line(file if "?" not in file else UNKNOWN, int(number) if number.isdigit() else 0, known)
