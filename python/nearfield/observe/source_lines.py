"""Finds the source lines of code locations, by debugging information or otherwise by symbols."""

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
    """A source line. Without debugging information (-g), `number` is 0, and `object` (the path of the program or
    library) and `offset` (a return address in it, or 0) locate the code."""

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
        """Returns whether the line number or the function is known."""
        return bool(self.number) or self.function != UNKNOWN

    def merge_by_function(self) -> Line:
        """Returns the line unchanged if its number is known. Otherwise returns a line with offset 0, which all
        locations of the function share."""
        return self if self.number else replace(self, offset=0)


UNKNOWN_LINE = Line(UNKNOWN, 0, UNKNOWN)
CodeLocation = tuple[str, int]


def line_of(lines: Mapping[CodeLocation, Line], place: CodeLocation) -> Line:
    """Returns the source line of a code location; if unknown, a line with only object and offset."""
    return lines.get(place) or Line(UNKNOWN, 0, UNKNOWN, *place)


def line_of_call(lines: Mapping[CodeLocation, Line], called: str, frames: Iterable[CodeLocation]) -> Line:
    """Returns the source line that calls an MPI function. If the caller is a wrapper, whose name contains that of the
    MPI function (hypre_MPI_Wait), returns the line that calls the wrapper. `frames` is the call stack: the location of
    the call, then of its callers."""
    found = [line_of(lines, place) for place in frames]
    return next((line for line in found if called.lower() not in line.function.lower()), found[0])


def lines_of(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Line]:
    """Returns (path, offset) -> source line. Offsets are return addresses, so the call instruction precedes them."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(places):
        by_object[path].append(offset)
    return {
        (path, offset): line
        for path, all_of in by_object.items()
        for offset, line in _run_addr2line(path, all_of).items()
    }


def to_utf8(text: str) -> str:
    """Returns the text with bytes that are not UTF-8 replaced by \\xff."""
    return os.fsencode(text).decode(errors="backslashreplace")


def _run_addr2line(path: str, offsets: list[int]) -> Mapping[int, Line]:
    """Returns offset -> source line from addr2line. Where addr2line has no line, takes the function from the symbol
    table, because addr2line's function is then merely the nearest preceding symbol."""
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
