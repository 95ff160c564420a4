"""Turns the errors of pydantic into messages for the author of a TOML file: each names the wrong key and its allowed
values."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from nearfield.base.words import suggest_name

KeyLocation = tuple[int | str, ...]
MAX_REPORTED_ERRORS = 40  # maximum number of errors in one message


class ValidationErrors(ValueError):
    """Raised by a check of several keys. `found` holds one message per contradiction."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("; ".join(sentences))
        self.found = sentences


def error_messages(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Returns one message per error, in the order of the file. A key that is missing because it is misspelt is reported
    as misspelt only."""
    errors = error.errors()
    meant = {(*e["loc"][:-1], _probable_key(e["loc"], model)) for e in errors if e["type"] == "extra_forbidden"}
    found: list[str] = []
    for one in errors:
        if one["type"] != "missing" or one["loc"] not in meant:
            found += _error_messages_of(one, model)
    return found


def format_error_list(errors: Iterable[str]) -> str:
    """Returns a single error message unchanged, and several messages as a list with one line each."""
    lines = list(dict.fromkeys(errors))
    if len(lines) == 1:
        return lines[0]
    shown = "".join(f"\n  {line}" for line in lines[:MAX_REPORTED_ERRORS])
    more = f"\n  and {len(lines) - MAX_REPORTED_ERRORS} more" if len(lines) > MAX_REPORTED_ERRORS else ""
    return f"{len(lines)} mistakes{shown}{more}"


def missing_key_message(model: type[BaseModel], location: KeyLocation, why: str = "") -> str:
    """Returns a message that names a missing key, the reason why it is required, and its allowed values."""
    info = field_at(model, location)
    reason = f", required {why}" if why else ""
    if info is None or not describe_allowed_values(info):
        return f"the key '{format_key_path(location)}' is missing{reason}"
    meaning = f" ({info.description})" if info.description else ""
    return f"the key '{format_key_path(location)}' is missing{reason}: it is {describe_allowed_values(info)}{meaning}"


def describe_allowed_values(info: FieldInfo) -> str:
    """Returns the allowed values of a key as text, such as 'a whole number from 1 to 15'; empty if this module cannot
    describe them."""
    return _describe_allowed(info.annotation, info.metadata)


def format_key_path(location: KeyLocation) -> str:
    """Returns the location of a key as text: ('cache', 1, 'level') as 'cache[1].level', counted from 0."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return truncate(text)


def truncate(text: str, max_length: int = 120) -> str:
    """Returns the text, truncated to `max_length` characters and followed by "..." if it is longer."""
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def field_at(model: type[BaseModel], location: KeyLocation) -> FieldInfo | None:
    """Returns the field of the schema for a location in a file; None if the schema has none."""
    info: FieldInfo | None = None
    annotation: Any = model
    metadata: list[Any] = []
    for part in location:
        if isinstance(part, int):
            annotation, metadata = unwrap_annotation(next(iter(get_args(annotation)), None))
            info = None
        else:
            if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
                return None
            info = annotation.model_fields.get(part)
            if info is None:
                return None
            annotation, _ = unwrap_annotation(info.annotation)
    if info is None and annotation is not None:  # the location denotes an item of a list
        info = FieldInfo(annotation=annotation)
        info.metadata = metadata
    return info


def _error_messages_of(one: Any, model: type[BaseModel]) -> list[str]:
    location: KeyLocation = one["loc"]
    key, value = format_key_path(location), truncate(repr(one["input"]))
    if one["type"] == "value_error":  # a check of several keys, whose messages name the keys
        cause = one["ctx"]["error"]
        return [f"{key}: {s}" if key else s for s in getattr(cause, "found", [str(cause)])]
    if one["type"] == "extra_forbidden":
        return [f"unknown key '{key}': {suggest_name(str(location[-1]), _valid_keys_at(model, location[:-1]))}"]
    if one["type"] == "missing":
        return [missing_key_message(model, location)]
    if one["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", one["ctx"]["expected"]) or [one["ctx"]["expected"]]
        return [f"{key} = {value}: {suggest_name(str(one['input']), words)}"]
    info = field_at(model, location)
    if info is None or not describe_allowed_values(info):
        return [f"{key} = {value}: {one['msg'][:1].lower()}{one['msg'][1:]}"]
    finite = ", and finite" if one["type"] == "finite_number" else ""
    return [f"{key} = {value}: must be {describe_allowed_values(info)}{finite}"]


def _probable_key(location: KeyLocation, model: type[BaseModel]) -> str:
    """Returns the valid key that is most similar to a misspelt one; empty if no key is similar."""
    found = re.fullmatch(
        r"did you mean '(.*)'\?", suggest_name(str(location[-1]), _valid_keys_at(model, location[:-1]))
    )
    return found[1] if found else ""


def _valid_keys_at(model: type[BaseModel], location: KeyLocation) -> Iterable[str]:
    info = field_at(model, location) if location else None
    table = unwrap_annotation(info.annotation)[0] if info else model
    return table.model_fields if isinstance(table, type) and issubclass(table, BaseModel) else ()


def unwrap_annotation(annotation: Any) -> tuple[Any, list[Any]]:
    """Returns the type X in `X | None` and Annotated[X, ...], and the metadata of Annotated."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        metadata = [m for one in more for m in (one.metadata if isinstance(one, FieldInfo) else [one])]
        found, deeper = unwrap_annotation(inner)
        return found, deeper + metadata
    if get_origin(annotation) in (Union, types.UnionType):
        return unwrap_annotation(next(a for a in get_args(annotation) if a is not type(None)))
    return annotation, []


def _describe_allowed(annotation: Any, metadata: list[Any]) -> str:
    kind, more = unwrap_annotation(annotation)
    bounds = _describe_bounds([*more, *metadata])
    if get_origin(kind) is Literal:
        words = [str(w) if isinstance(w, int) else f'"{w}"' for w in get_args(kind)]
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if get_origin(kind) is list:
        return f"a list, each of it {_describe_allowed(get_args(kind)[0], [])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _describe_table(kind)
    if get_origin(kind) is dict:
        return "a table"
    names = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
    return names[kind] + bounds if kind in names else ""


def _describe_table(table: type[BaseModel]) -> str:
    """Returns the form of a table as text: a table of a value and its source as one line, any other table by its
    required keys."""
    needed = {name: info for name, info in table.model_fields.items() if info.is_required()}
    if "source" in table.model_fields:
        values = "".join(f"{name} = {describe_allowed_values(info)}, " for name, info in needed.items())
        return f'{{ {values}source = "where that is from" }}'
    return "a table" + (f" with {', '.join(needed)}" if needed else "")


def _describe_bounds(metadata: list[Any]) -> str:
    found = {name: getattr(m, name) for m in metadata for name in ("ge", "gt", "le", "lt") if hasattr(m, name)}
    pattern = next((m.pattern for m in metadata if getattr(m, "pattern", None)), "")
    if pattern:
        return f" that fits {pattern}"
    bounds = {name: f"{bound:.7g}" if isinstance(bound, float) else str(bound) for name, bound in found.items()}
    low = f" from {bounds['ge']}" if "ge" in bounds else f" above {bounds['gt']}" if "gt" in bounds else ""
    high = f" to {bounds['le']}" if "le" in bounds else f" below {bounds['lt']}" if "lt" in bounds else ""
    return low + high
