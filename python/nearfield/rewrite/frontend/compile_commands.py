"""Finds the compiler arguments of a source file, in a compile_commands.json."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfield.base.errors import UsageError
from nearfield.base.files import read_file

_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-Xlinker", "-L", "-l")
_DROPPED = ("-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MP", "-pipe")
_PARSER_DROPS = ("-l", "-L", "-W", "-O", "-g", "-f", "-m")
_FOLDERS = ("-I", "-isystem", "-iquote", "-include")
_REMEDY = "Let the build write it anew (CMake: -DCMAKE_EXPORT_COMPILE_COMMANDS=ON), or give the arguments after --."


@dataclass(frozen=True)
class CompileCommand:
    """The compile command of one source file: `words` are the compiler and its arguments."""

    file: Path
    directory: Path
    words: list[str]


def compiler_arguments_of(source: Path, database: Path, *, parser: bool = True) -> list[str]:
    """Returns the compiler arguments of a source file, with absolute folders. If `parser` is set, omits arguments that
    only affect code generation. `database` is a compile_commands.json or its folder. Raises UsageError if it lacks the
    file or is damaged."""
    wanted = source.resolve()
    for entry in _read_entries(database):
        if entry.file.resolve() == wanted:
            return _needed_arguments(entry.words[1:], entry.directory, parser)
    raise UsageError(
        f"{_database_file(database)} does not say how {source} is compiled",
        "Give the compiler's arguments after -- instead.",
    )


def listed_source_files(database: Path) -> list[Path]:
    """Returns the existing source files that a compile_commands.json lists. Raises UsageError if it is damaged."""
    return [path for path in dict.fromkeys(entry.file for entry in _read_entries(database)) if path.is_file()]


def _database_file(database: Path) -> Path:
    """Returns the path of the compile_commands.json, given the file or its folder."""
    return database / "compile_commands.json" if database.is_dir() else database


def _read_entries(database: Path) -> Iterator[CompileCommand]:
    """Yields the entries of a compile_commands.json. Raises UsageError with the file and the number of the wrong
    entry."""
    path = _database_file(database)
    try:
        found = json.loads(read_file(path))
    except OSError as error:
        remedy = "CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON."
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy) from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply to be read", _REMEDY) from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", _REMEDY) from error
    if not isinstance(found, list):
        raise UsageError(f"{path} is no list of entries", _REMEDY)
    for number, one in enumerate(found, 1):
        try:
            yield _parse_entry(one)
        except ValueError as error:
            raise UsageError(f"{path}, entry {number}: {error}", _REMEDY) from error


def _parse_entry(one: Any) -> CompileCommand:
    """Converts an entry of a compile_commands.json. Raises ValueError with the reason if the entry is invalid."""
    if not isinstance(one, dict):
        raise ValueError("it is no object with keys")
    directory = Path(_checked_text(one.get("directory", "."), "directory"))
    file = directory / _checked_text(one.get("file", ""), "file")
    try:
        file.is_file()
    except (OSError, ValueError) as error:
        raise ValueError(f"'file' names no file: {getattr(error, 'strerror', None) or error}") from error
    words = one.get("arguments")
    if words is None:
        return CompileCommand(file, directory, _split_command(_checked_text(one.get("command", ""), "command")))
    if not isinstance(words, list):
        raise ValueError("'arguments' is no list")
    return CompileCommand(file, directory, [_checked_text(word, "arguments") for word in words])


def _split_command(command: str) -> list[str]:
    """Splits a shell command into words. Raises ValueError if its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"'command' cannot be split into words: {str(error).lower()}") from error


def _checked_text(value: Any, key: str) -> str:
    """Returns a JSON value that must be a text usable as a path or an argument. Raises ValueError for any other
    value."""
    if not isinstance(value, str):
        raise ValueError(f"'{key}' has {json.dumps(value)[:40]} in place of a text")
    if "\0" in value:
        raise ValueError(f"'{key}' has a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"'{key}' has a character that is not Unicode (a lone surrogate)") from None
    return value


def _needed_arguments(words: Sequence[str], directory: Path, parser: bool) -> list[str]:
    """Returns the compiler arguments that a compiler, or only a parser, needs to read a source file."""
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
