"""Loads a described machine by name, file or profile, and writes a described machine as TOML."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import find_shipped_folder, read_user_file
from nearfield.base.toml import parse_toml
from nearfield.base.words import as_sentence, suggest_name
from nearfield.machine.captured import machine_from_profile
from nearfield.machine.described import DescribedMachine
from nearfield.machine.nearest import nearest_machine_name
from nearfield.machine.partial import check_valid_parts
from nearfield.machine.quantity import SourcedFact
from nearfield.profile import load

PROFILE_MARKER_FILE = "run.toml"  # a file that every profile has
DESCRIPTION_FILE = "described.toml"  # file of a simulated profile with the description of the machine


def machine_files() -> dict[str, Path]:
    """Returns name -> file of the described machines that come with nearfield."""
    return {file.stem: file for file in sorted(find_shipped_folder("machines").glob("*.toml"))}


def load_machine(name: str) -> DescribedMachine:
    """Returns the described machine: `name` is the name of a built-in machine, a path ending in .toml, or the folder of
    a profile. Raises UsageError if there is no such machine, and ProfileError with file and key if the file has
    errors."""
    path_and_content = find_machine_text(name)
    if path_and_content is None:
        return _machine_of_profile(name)
    path, content = path_and_content
    try:
        return parse_toml(DescribedMachine, content, path, "Mend it.", check_valid_parts)
    except ProfileError as error:
        raise ProfileError(error.message, _remedy_for_machine_file(content)) from error


def _remedy_for_machine_file(content: bytes) -> str:
    """Returns the remedy for a machine file with errors. It recommends the most similar built-in machine as a starting
    point."""
    start = own_command.command_line("machine", "new", "--from", nearest_machine_name(content, _built_in_machines()))
    return f"Mend it: docs/reference/machine.md lists all keys, and a file to start from is written by {start}"


@cache
def _built_in_machines() -> list[DescribedMachine]:
    """Returns the built-in machines that can be simulated."""
    machines = (parse_toml(DescribedMachine, file.read_bytes(), file) for file in machine_files().values())
    return [machine for machine in machines if machine.is_simulable]


def find_machine_text(name: str) -> tuple[Path, bytes] | None:
    """Returns path and content of the file that describes a machine; None if `name` is the folder of a measured
    profile, which has no such file. Raises UsageError if `name` is neither a machine nor a profile."""
    files = machine_files()
    near = as_sentence(suggest_name(name, files))
    path = Path(name) if name.endswith(".toml") else files.get(name)
    try:
        if path is None and name and Path(name, DESCRIPTION_FILE).is_file():
            path = Path(name, DESCRIPTION_FILE)
        if path is None and name and Path(name, PROFILE_MARKER_FILE).is_file():
            return None
        content = read_user_file(path) if path else None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        cause = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the file '{name}' cannot be read: {cause}", near) from error
    if path is None or content is None:
        raise UsageError(f"there is no described machine '{name}'", near)
    return path, content


def _machine_of_profile(folder: str) -> DescribedMachine:
    profile = load(folder)
    if profile.run.backend == "sim":
        raise UsageError(f"the profile '{folder}' is simulated itself", f"Name its machine: {profile.run.simulated}.")
    return machine_from_profile(profile)


def to_toml(machine: DescribedMachine, remark: Callable[[SourcedFact], str] = lambda _: "") -> str:
    """Returns the machine as TOML text. If `remark` returns a text for a value, the value is written as a comment line
    that ends with this text."""
    import tomlkit

    return tomlkit.dumps(_fill_table(machine, tomlkit.document(), remark))


def _fill_table(model: BaseModel, table: Any, remark: Callable[[SourcedFact], str]) -> Any:
    """Fills `table` with the values of `model` in the order of the schema, and returns it. Omits values that are
    absent, empty or equal to the default."""
    import tomlkit

    fields = type(model).model_fields
    for name in sorted(fields, key=lambda name: name != "value"):  # "value" comes first
        field = fields[name]
        value = getattr(model, name)
        if value in (None, "", [], {}) and not field.is_required():
            if name == "claims" and value == []:  # required for chosen values, even if the list is empty
                table[name] = []
            continue
        if isinstance(value, SourcedFact) and (comment := remark(value)):
            rounded = round(value.plain_value, 3) if isinstance(value.plain_value, float) else value.plain_value
            value_text = tomlkit.item(rounded).as_string()
            table.add(tomlkit.comment(f'{name} = {{ value = {value_text}, source = "" }}  # {comment}'))
        elif isinstance(value, SourcedFact):
            table[name] = _fill_table(value, tomlkit.inline_table(), remark)
        elif isinstance(value, BaseModel):
            table[name] = _fill_table(value, tomlkit.table(), remark)
        elif isinstance(value, list) and isinstance(value[0], BaseModel):
            table[name] = tomlkit.aot()
            for one in value:
                table[name].append(_fill_table(one, tomlkit.table(), remark))
        elif value != field.default:
            table[name] = value
    return table
