"""Reads and writes TOML files by pydantic models. Error messages name the file and every wrong key
(validation_errors.py)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nearfield.base import own_command
from nearfield.base.errors import ProfileError
from nearfield.base.validation_errors import error_messages, format_error_list, truncate

SCHEMA_VERSION = 1


class Table(BaseModel):
    """One TOML table. Unknown keys, values of another type ("4" is not 4), infinite numbers and nan are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_assignment=True, allow_inf_nan=False)
    newest_version: ClassVar[int] = SCHEMA_VERSION  # newest readable format version, for whole-file tables


Model = TypeVar("Model", bound=Table)

# Control characters. A file may come from an untrusted source, nearfield prints its texts, and terminals execute
# control characters as commands.
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_MEND_OR_MEASURE_REMEDY = (
    "Correct that line if the file was edited by hand; otherwise measure again with: "
    f"{own_command.command_line('probe')}"
)


def dump_toml(model: Table, comment: str, described_in: str = "docs/reference/profile.md") -> bytes:
    """Returns the model as TOML with a comment on top, without empty keys, lists and tables. Control characters (for
    example in coloured messages of an MPI) and bytes of names that are not UTF-8 become "?", since `parse_toml` rejects
    them."""
    import tomlkit  # a slow import; most commands only read files

    text = tomlkit.dumps(_to_writable(model.model_dump()))
    return f"# {comment} Format: {described_in} of nearfield.\n{text}".encode("utf-8", "replace")


def parse_toml(
    model: type[Model],
    content: bytes,
    path: Path,
    remedy: str = _MEND_OR_MEASURE_REMEDY,
    extra_checks: Callable[[dict[str, Any], ValidationError], list[str]] | None = None,
) -> Model:
    """Returns the model for the content of a file. Raises ProfileError that names `path` and the wrong line, or every
    wrong key. `extra_checks(values, error)` returns further error messages for a file that does not fit the model."""
    try:
        values = parse_toml_values(content.decode())
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path} is damaged: byte {error.start} is not UTF-8 text", remedy) from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: {error}", remedy) from error
    if not values:
        raise ProfileError(f"{path} is empty" if not content.strip() else f"{path} holds nothing but comments", remedy)
    _check_schema_version(
        values.get("schema_version"), model.newest_version, path, by_hand=remedy != _MEND_OR_MEASURE_REMEDY
    )
    for key, value in _leaf_values(values):
        if problem := _invalid_value_reason(value):
            raise ProfileError(f"{path}: {truncate(repr(key))} {problem}", remedy)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = error_messages(error, model) + (extra_checks(values, error) if extra_checks else [])
        raise ProfileError(f"{path}: {format_error_list(found)}", remedy) from error


def parse_toml_values(text: str) -> dict[str, Any]:
    """Returns the values of a TOML text, by tomllib if Python has it, which is ten times as fast as tomlkit. Raises
    ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    import tomlkit

    try:
        return tomlkit.parse(text).unwrap()
    except tomlkit.exceptions.TOMLKitError as error:  # some TOMLKitErrors are not ValueErrors
        raise ValueError(str(error)) from error


def _leaf_values(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (key, value) for all values except tables and lists, and (name, name) for each key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, name
            yield from _leaf_values(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaf_values(inner, key)
    else:
        yield key, value


def _invalid_value_reason(value: Any) -> str | None:
    """Returns the reason why no key may have this value; None if it is valid."""
    if isinstance(value, str) and CONTROL_CHARACTERS.search(value):
        return f"has a control character: {truncate(repr(value))}"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "is a number beyond 64 bits, which TOML does not have"
    return None


def _check_schema_version(version: Any, newest: int, path: Path, *, by_hand: bool) -> None:
    """Raises ProfileError if nearfield cannot read this format version. If the version is missing in a file that people
    write (`by_hand`), the schema reports that with the other errors."""
    if not isinstance(version, int):
        if by_hand:
            return
        raise ProfileError(
            f"{path} has no schema_version: nearfield did not write it",
            f"Name a folder that was written by: {own_command.command_line('probe')}",
        )
    if version > newest:
        raise ProfileError(
            f"{path} was written by a newer nearfield: format {version}, and this one reads {newest}",
            "Upgrade: pip install --upgrade nearfield.",
        )


def _to_writable(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((key, _to_writable(inner)) for key, inner in value.items())
        return {key: inner for key, inner in pairs if inner not in (None, {}, [])}
    if isinstance(value, str):
        return CONTROL_CHARACTERS.sub("?", value)
    return [_to_writable(inner) for inner in value] if isinstance(value, list) else value
