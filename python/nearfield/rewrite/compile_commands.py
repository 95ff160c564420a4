"""Finds out how a file is compiled: from a compile_commands.json, else from the MPI's headers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from nearfield.base.files import content_of
from nearfield.errors import UsageError

_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-Xlinker", "-L", "-l")
_DROPPED = ("-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MP", "-pipe")
_PARSER_DROPS = ("-l", "-L", "-W", "-O", "-g", "-f", "-m")
_FOLDERS = ("-I", "-isystem", "-iquote", "-include")


def arguments_of(source: Path, database: Path, *, parser: bool = True) -> list[str]:
    """Returns the compiler's arguments for a file, with absolute folders; for a `parser`, only those that it needs.
    `database` is a compile_commands.json or the folder of one. Raises UsageError if it does not have the file."""
    file = database / "compile_commands.json" if database.is_dir() else database
    try:
        entries = json.loads(content_of(file))
    except OSError as error:
        remedy = "CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON."
        raise UsageError(f"{file} cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}") from error
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and _is(entry, source):
            words = entry.get("arguments") or shlex.split(str(entry.get("command", "")))
            return _kept([str(word) for word in words][1:], Path(str(entry.get("directory", "."))), parser)
    raise UsageError(f"{file} does not say how {source} is compiled", "Give the compiler's arguments after -- instead.")


def files_of(database: Path) -> list[Path]:
    """Returns the files of a compile_commands.json that exist."""
    file = database / "compile_commands.json" if database.is_dir() else database
    entries = json.loads(content_of(file))
    named = [
        Path(str(entry.get("directory", "."))) / str(entry.get("file", ""))
        for entry in entries
        if isinstance(entry, dict)
    ]
    return [path for path in dict.fromkeys(named) if path.is_file()]


def _is(entry: dict[str, object], source: Path) -> bool:
    named = Path(str(entry.get("directory", "."))) / str(entry.get("file", ""))
    return named.resolve() == source.resolve()


def _kept(words: Sequence[str], directory: Path, parser: bool) -> list[str]:
    """Returns the arguments that a compiler needs to read the file, or a parser."""
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word in _FOLDERS:
            made += [word, str(directory / next(rest, ""))]
        elif word.startswith("-I"):
            made.append(f"-I{directory / word[2:]}")
        elif word.startswith("-") and word not in _DROPPED and not word.startswith(_PARSER_DROPS if parser else "-l"):
            made.append(word)
    return made
