"""Finds the compiler arguments of a source file, in a compile_commands.json."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfield.base.errors import UsageError
from nearfield.base.files import read_user_file

_OPTIONS_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-Xlinker", "-L", "-l")
_DROPPED_OPTIONS = ("-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MP", "-pipe")
_PREFIXES_PARSER_IGNORES = ("-l", "-L", "-W", "-O", "-g", "-f", "-m")
_FOLDER_OPTIONS = ("-I", "-isystem", "-iquote", "-include")
_REMEDY = "Let the build write it anew (CMake: -DCMAKE_EXPORT_COMPILE_COMMANDS=ON), or give the arguments after --."


@dataclass(frozen=True)
class CompileCommand:
    """The compile command of one source file: `command_line` has the compiler and its arguments."""

    file: Path
    directory: Path
    command_line: list[str]


def compiler_arguments_of(source: Path, database_path: Path, *, is_for_parser: bool = True) -> list[str]:
    """Returns the compiler arguments of a source file, with absolute folders. If `is_for_parser` is set, omits
    arguments that only affect code generation. `database_path` is a compile_commands.json or its folder. Raises
    UsageError if it lacks the file or is damaged."""
    source_path = source.resolve()
    for entry in _read_entries(database_path):
        if entry.file.resolve() == source_path:
            return _select_arguments(entry.command_line[1:], entry.directory, is_for_parser)
    raise UsageError(
        f"{_database_file(database_path)} does not say how {source} is compiled",
        "Give the compiler's arguments after -- instead.",
    )


def listed_source_files(database_path: Path) -> list[Path]:
    """Returns the existing source files that a compile_commands.json lists. Raises UsageError if it is damaged."""
    return [path for path in dict.fromkeys(entry.file for entry in _read_entries(database_path)) if path.is_file()]


def _database_file(database_path: Path) -> Path:
    """Returns the path of the compile_commands.json, given the file or its folder."""
    return database_path / "compile_commands.json" if database_path.is_dir() else database_path


def _read_entries(database_path: Path) -> Iterator[CompileCommand]:
    """Yields the entries of a compile_commands.json. Raises UsageError with the file and the number of the wrong
    entry."""
    path = _database_file(database_path)
    try:
        entries = json.loads(read_user_file(path))
    except OSError as error:
        remedy = "CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON."
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy) from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply to be read", _REMEDY) from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", _REMEDY) from error
    if not isinstance(entries, list):
        raise UsageError(f"{path} is no list of entries", _REMEDY)
    for number, entry in enumerate(entries, 1):
        try:
            yield _parse_entry(entry)
        except ValueError as error:
            raise UsageError(f"{path}, entry {number}: {error}", _REMEDY) from error


def _parse_entry(entry: Any) -> CompileCommand:
    """Converts an entry of a compile_commands.json. Raises ValueError with the reason if the entry is invalid."""
    if not isinstance(entry, dict):
        raise ValueError("it is no object with keys")
    directory = Path(_require_text(entry.get("directory", "."), "directory"))
    file = directory / _require_text(entry.get("file", ""), "file")
    try:
        file.is_file()
    except (OSError, ValueError) as error:
        raise ValueError(f"'file' names no file: {getattr(error, 'strerror', None) or error}") from error
    arguments = entry.get("arguments")
    if arguments is None:
        return CompileCommand(file, directory, _split_command(_require_text(entry.get("command", ""), "command")))
    if not isinstance(arguments, list):
        raise ValueError("'arguments' is no list")
    return CompileCommand(file, directory, [_require_text(word, "arguments") for word in arguments])


def _split_command(command: str) -> list[str]:
    """Splits a shell command into words. Raises ValueError if its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"'command' cannot be split into words: {str(error).lower()}") from error


def _require_text(value: Any, key: str) -> str:
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


def _select_arguments(arguments: Sequence[str], directory: Path, is_for_parser: bool) -> list[str]:
    """Returns the compiler arguments that a compiler, or only a parser, needs to read a source file."""
    selected: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _OPTIONS_WITH_VALUE:
            next(remaining, None)
        elif argument in _FOLDER_OPTIONS:
            selected += [argument, str(directory / next(remaining, ""))]
        elif argument.startswith("-I"):
            selected.append(f"-I{directory / argument[2:]}")
        elif (
            argument.startswith("-")
            and argument not in _DROPPED_OPTIONS
            and not argument.startswith(_PREFIXES_PARSER_IGNORES if is_for_parser else "-l")
        ):
            selected.append(argument)
    return selected
