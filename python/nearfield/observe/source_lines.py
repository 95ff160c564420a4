"""Finds the source lines of code locations, by debugging information or otherwise by symbols."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nearfield.observe.symbols import FunctionNames

UNKNOWN_NAME = "?"


@dataclass(frozen=True)
class SourceLine:
    """A source line. Without debugging information (-g), `number` is 0, and `object` (the path of the program or
    library) and `offset` (a return address in it, or 0) locate the code."""

    file: str
    number: int
    function: str
    object: str = ""
    offset: int = 0

    def __str__(self) -> str:
        named = self.function != UNKNOWN_NAME
        return f"{self._format_location()} ({self.function})" if named else self._format_location()

    def _format_location(self) -> str:
        if self.number:
            return f"{Path(self.file).name}:{self.number}"
        if not self.object:
            return UNKNOWN_NAME
        return Path(self.object).name + (f"+{self.offset:#x}" if self.offset else "")

    @property
    def is_resolved(self) -> bool:
        """Returns whether the line number or the function is known."""
        return bool(self.number) or self.function != UNKNOWN_NAME

    def merge_by_function(self) -> SourceLine:
        """Returns the line unchanged if its number is known. Otherwise returns a line with offset 0, which all
        locations of the function share."""
        return self if self.number else replace(self, offset=0)


UNKNOWN_LINE = SourceLine(UNKNOWN_NAME, 0, UNKNOWN_NAME)
CodeLocation = tuple[str, int]


def line_of(lines: Mapping[CodeLocation, SourceLine], location: CodeLocation) -> SourceLine:
    """Returns the source line of a code location; if unknown, a line with only object and offset."""
    return lines.get(location) or SourceLine(UNKNOWN_NAME, 0, UNKNOWN_NAME, *location)


def line_of_call(
    lines: Mapping[CodeLocation, SourceLine], function_name: str, frames: Iterable[CodeLocation]
) -> SourceLine:
    """Returns the source line that calls an MPI function. If the caller is a wrapper, whose name contains that of the
    MPI function (hypre_MPI_Wait), returns the line that calls the wrapper. `frames` is the call stack: the location of
    the call, then of its callers."""
    source_lines = [line_of(lines, place) for place in frames]
    return next((line for line in source_lines if function_name.lower() not in line.function.lower()), source_lines[0])


def find_source_lines(locations: Iterable[tuple[str, int]]) -> dict[tuple[str, int], SourceLine]:
    """Returns (path, offset) -> source line. Offsets are return addresses, so the call instruction precedes them."""
    by_object: dict[str, list[int]] = defaultdict(list)
    for path, offset in set(locations):
        by_object[path].append(offset)
    return {
        (path, offset): line
        for path, offsets in by_object.items()
        for offset, line in _run_addr2line(path, offsets).items()
    }


def to_utf8(text: str) -> str:
    """Returns the text with bytes that are not UTF-8 replaced by \\xff."""
    return os.fsencode(text).decode(errors="backslashreplace")


def _run_addr2line(path: str, offsets: list[int]) -> Mapping[int, SourceLine]:
    """Returns offset -> source line, from addr2line. If addr2line has no line for an offset, the function comes from
    the symbol table, because addr2line then only returns the nearest preceding symbol."""
    command = ["addr2line", "--functions", "--demangle", "--exe", path]
    addresses = "\n".join(hex(offset - 1) for offset in offsets)
    try:
        result = subprocess.run(command, input=addresses, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return {offset: SourceLine(UNKNOWN_NAME, 0, UNKNOWN_NAME, path, offset) for offset in offsets}
    output_lines = result.stdout.splitlines()
    line_by_offset = {
        at: _parse_addr2line(output_lines[2 * i], output_lines[2 * i + 1])
        for i, at in enumerate(offsets)
        if 2 * i + 1 < len(output_lines)
    }
    names = FunctionNames(path) if any(not line.number for line in line_by_offset.values()) else None
    return {
        at: line
        if line.number or not names
        else SourceLine(UNKNOWN_NAME, 0, names.function_at(at - 1) or UNKNOWN_NAME, path, at)
        for at, line in line_by_offset.items()
    }


def _parse_addr2line(function: str, location: str) -> SourceLine:
    file, _, number = location.partition(" ")[0].rpartition(":")
    function_name = function if function != "??" else UNKNOWN_NAME
    return SourceLine(file if "?" not in file else UNKNOWN_NAME, int(number) if number.isdigit() else 0, function_name)
