"""TOML files with a pydantic model: every error names the file and the key, and an unknown key the nearest
valid one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from nearfield import itself
from nearfield.errors import ProfileError
from nearfield.profile.table import SCHEMA_VERSION, Table
from nearfield.profile.words import suggestion

Model = TypeVar("Model", bound=Table)

# A file may come from somebody else, and its texts go to terminals: there such characters are commands.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_REMEDY = f"Mend that line if the file was edited by hand; otherwise measure anew with: {itself.command('probe')}"


def dump_toml(model: Table, comment: str, described_in: str = "docs/profile.md") -> bytes:
    """The model as TOML under a comment; keys without a value, and empty lists and tables, are left out. Control
    characters, as an MPI's coloured message may have, become "?", since nobody would read them back."""
    import tomlkit  # rules are read before every mpirun, and seldom written

    text = tomlkit.dumps(_writable(model.model_dump()))
    return f"# {comment} Format: {described_in} of nearfield.\n{text}".encode()


def parse_toml(model: type[Model], content: bytes, path: Path, remedy: str = _REMEDY) -> Model:
    """ProfileError that names `path` and the line or key."""
    try:
        values = read_toml(content.decode())
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path} is damaged: byte {error.start} is not UTF-8 text", remedy) from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: {error}", remedy) from error
    _check_version(values.get("schema_version"), path)
    for key, value in _leaves(values):
        if problem := _problem(value):
            raise ProfileError(f"{path}: {_brief(repr(key))} {problem}", remedy)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ProfileError(f"{path}: {explain(error, model)}", remedy) from error


def read_toml(text: str) -> dict[str, Any]:
    """By Python's own reader, which is ten times as fast, where it has one. ValueError of either."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    import tomlkit

    try:
        return tomlkit.parse(text).unwrap()
    except tomlkit.exceptions.TOMLKitError as error:  # not all of them are
        raise ValueError(str(error)) from error


def explain(error: ValidationError, model: type[Table]) -> str:
    """The first thing that is wrong, in one line; a misspelt key rather than the key that is missing for
    it."""
    errors = error.errors()
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key, value = _brief(_dotted(first["loc"])), _brief(repr(first["input"]))
    if first["type"] == "value_error":  # a check of several keys, which says what it is about
        return f"{key}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
    *outer, name = first["loc"]
    if first["type"] == "extra_forbidden":
        return f"unknown key '{key}': {suggestion(str(name), _table_at(model, outer).model_fields)}"
    if first["type"] == "missing":
        return f"the key '{key}' is missing"
    if first["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", first["ctx"]["expected"]) or [first["ctx"]["expected"]]
        return f"{key} = {value}: {suggestion(str(first['input']), words)}"
    return f"{key} = {value}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """All values that are no tables or lists, and the names of keys, each with the key where it is."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, name
            yield from _leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value


def _problem(value: Any) -> str | None:
    """Returns what is wrong with a value that no key may have; None if nothing is."""
    if isinstance(value, str) and CONTROL.search(value):
        return f"has a control character: {_brief(repr(value))}"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "is a number beyond 64 bits, which TOML does not have"
    return None


def _brief(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _check_version(version: Any, path: Path) -> None:
    if not isinstance(version, int):
        raise ProfileError(
            f"{path} has no schema_version: nearfield did not write it",
            f"Give a folder that this wrote: {itself.command('probe')}",
        )
    if version > SCHEMA_VERSION:
        raise ProfileError(
            f"{path} was written by a newer nearfield: format {version}, and this one reads {SCHEMA_VERSION}",
            "Upgrade: pip install --upgrade nearfield.",
        )


def _dotted(location: tuple[int | str, ...]) -> str:
    """('cache', 1, 'level') as cache[1].level, counted from 0 as in the API."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _table_at(model: type[BaseModel], location: list[int | str]) -> type[BaseModel]:
    """The model of the table at a location of an error."""
    for part in location:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            candidates = [annotation, *get_args(annotation)]
            model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return model


def _writable(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((key, _writable(inner)) for key, inner in value.items())
        return {key: inner for key, inner in pairs if inner not in (None, {}, [])}
    if isinstance(value, str):
        return CONTROL.sub("?", value)
    return [_writable(inner) for inner in value] if isinstance(value, list) else value
