"""Finds the functions of programs and libraries by symbols, and the packages with debugging information for more names.

A stripped file has only dynamic symbols, so the nearest preceding symbol may belong to another function. A location
belongs to a function only if the symbol's size covers the location."""

from __future__ import annotations

import os
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nearfield.base.words import join_and

_FUNCTION_LETTERS = "TtWwi"  # nm's letters for symbols of functions: global, local, weak, indirect
_DEBIAN_SUFFIX = "-dbgsym"
_MAX_NAMED_FILES = 3  # object files named in a sentence


class Symbol(NamedTuple):
    """A function symbol: its offset in the file, its size in bytes, and its name."""

    offset: int
    size_bytes: int
    name: str


def function_symbols_of(path: str, *, demangled: bool) -> list[Symbol]:
    """Returns the function symbols of a file that have a size, in order of their offsets, from nm. Returns [] if nm is
    missing. A stripped file has only exported functions."""
    symbols = set()
    for table_options in ([], ["--dynamic"]):
        command = ["nm", "--defined-only", "--print-size", *table_options, *(["--demangle"] if demangled else []), path]
        try:
            result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError:
            return []
        for line in result.stdout.splitlines():
            parts = line.split(" ", 3)
            if len(parts) == 4 and parts[2] in _FUNCTION_LETTERS:
                name = parts[3] if demangled else parts[3].partition("@")[0]
                symbols.add(Symbol(int(parts[0], 16), int(parts[1], 16), name))
    return sorted(symbols)


class FunctionNames:
    """Looks up the function that covers an offset of an object file."""

    def __init__(self, path: str) -> None:
        self._symbols = [symbol for symbol in function_symbols_of(path, demangled=True) if symbol.size_bytes]
        self._starts = [symbol.offset for symbol in self._symbols]

    def function_at(self, offset: int) -> str:
        """Returns the name of the function whose symbol covers the offset; '' if there is none. Of several symbols that
        begin at the same offset, takes the shortest that covers it, and of equally long ones the alphabetically first.
        """
        end = bisect_right(self._starts, offset)
        start = self._starts[end - 1] if end else 0
        covering = [
            symbol.name
            for symbol in self._symbols[bisect_right(self._starts, start - 1) : end]
            if offset < symbol.offset + symbol.size_bytes
        ]
        return covering[0].partition("@")[0] if covering else ""


def missing_names_advice(objects: Iterable[str]) -> str:
    """Returns advice on how to get names for functions of these object files; '' without files. It recommends packages
    of this host."""
    paths = sorted({path for path in objects if path})
    if not paths:
        return ""
    packages = sorted({package for path in paths if (package := debugging_package(path))})
    names = sorted({Path(path).name for path in paths})
    which = (
        join_and(names[:_MAX_NAMED_FILES])
        if len(names) <= _MAX_NAMED_FILES
        else f"{join_and(names[:_MAX_NAMED_FILES])} and others"
    )
    remedy = "use files with symbols (compiled with -g, not stripped)"
    if packages:
        archive = " from Debian's debug archive" if packages[0].endswith(_DEBIAN_SUFFIX) else ""
        remedy = f"install {join_and(packages)}{archive}"
    return (
        f"some functions in {which} have no names, because the files are stripped; to see names, {remedy}, and observe "
        "again"
    )


def debugging_package(path: str) -> str:
    """Returns the package with the debugging information for a file of this host; '' if unknown."""
    for owner_of, suffix in ((_debian_owner, _DEBIAN_SUFFIX), (_rpm_owner, "-debuginfo")):
        if owner := owner_of(path):
            return owner + suffix
    return ""


def _debian_owner(path: str) -> str:
    """Returns the Debian package that owns the file; dpkg may list the file with or without /usr."""
    real = os.path.realpath(path)
    candidate_paths = dict.fromkeys((path, real, real.removeprefix("/usr"), f"/usr{path}"))
    output = _read_output_of(["dpkg-query", "--search", *candidate_paths])
    return output.partition(":")[0] if "," not in output.partition(":")[0] else ""


def _rpm_owner(path: str) -> str:
    output = _read_output_of(["rpm", "--query", "--file", "--queryformat", "%{NAME}\n", path])
    return output.splitlines()[0] if output and " " not in output.splitlines()[0] else ""


def _read_output_of(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
