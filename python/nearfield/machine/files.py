"""Finds described machines by name, those of nearfield and the user's files; and writes a machine as a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import read_file
from nearfield.base.toml import parse_toml
from nearfield.base.words import as_sentence, suggest
from nearfield.machine.captured import machine_from_profile
from nearfield.machine.nearest import nearest_machine_name
from nearfield.machine.partial import check_valid_parts
from nearfield.machine.quantity import SourcedFact
from nearfield.machine.schema import DescribedMachine
from nearfield.profile import load

RUN_FILE = "run.toml"  # in every profile
DESCRIBED_FILE = "described.toml"  # the machine's description in a simulated profile


def machine_files() -> dict[str, Path]:
    """Returns name -> file of the machines that come with nearfield."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "machines", *(parent / "machines" for parent in package.parents[:3])]
    return next(({f.stem: f for f in sorted(p.glob("*.toml"))} for p in places if p.is_dir()), {})


def load_machine(name: str) -> DescribedMachine:
    """Returns the machine of this name, of a file that ends in .toml, or of a profile's folder. Raises UsageError if
    there is none, and ProfileError with file and key if it has errors."""
    found = machine_text(name)
    if found is None:
        return _machine_of_profile(name)
    path, content = found
    try:
        return parse_toml(DescribedMachine, content, path, "Mend it.", check_valid_parts)
    except ProfileError as error:
        raise ProfileError(error.message, _remedy_for(content)) from error


def _remedy_for(content: bytes) -> str:
    """Returns the remedy for a file with errors. It names nearfield's most similar machine."""
    start = own_command.line("machine", "new", "--from", nearest_machine_name(content, _built_in_machines()))
    return f"Mend it: docs/reference/machine.md lists all keys, and a file to start from is written by {start}"


@cache
def _built_in_machines() -> list[DescribedMachine]:
    """Returns the machines that come with nearfield and can be simulated."""
    machines = (parse_toml(DescribedMachine, file.read_bytes(), file) for file in machine_files().values())
    return [machine for machine in machines if machine.simulable]


def machine_text(name: str) -> tuple[Path, bytes] | None:
    """Returns the path and content of the file that describes a machine; None if the name is that of a measured
    profile. Raises UsageError if there is neither."""
    files = machine_files()
    near = as_sentence(suggest(name, files))
    path = Path(name) if name.endswith(".toml") else files.get(name)
    try:
        if path is None and name and Path(name, DESCRIBED_FILE).is_file():
            path = Path(name, DESCRIBED_FILE)
        if path is None and name and Path(name, RUN_FILE).is_file():
            return None
        content = read_file(path) if path else None
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


def as_toml(machine: DescribedMachine, remark: Callable[[SourcedFact], str] = lambda _: "") -> str:
    """Returns the text of the file. A value for which `remark` returns words is written as a comment that ends with
    them."""
    import tomlkit

    return tomlkit.dumps(_fill_table(machine, tomlkit.document(), remark))


def _fill_table(model: BaseModel, table: Any, remark: Callable[[SourcedFact], str]) -> Any:
    """Fills `table` in the order of the schema, without values that are absent, empty or the default. Returns it."""
    import tomlkit

    fields = type(model).model_fields
    for name in sorted(fields, key=lambda name: name != "value"):  # "value" comes first
        info = fields[name]
        value = getattr(model, name)
        if value in (None, "", [], {}) and not info.is_required():
            if name == "claims" and value == []:  # a chosen value must have the key, even if it is empty
                table[name] = []
            continue
        if isinstance(value, SourcedFact) and (words := remark(value)):
            rounded = round(value.plain, 3) if isinstance(value.plain, float) else value.plain
            shown = tomlkit.item(rounded).as_string()
            table.add(tomlkit.comment(f'{name} = {{ value = {shown}, source = "" }}  # {words}'))
        elif isinstance(value, SourcedFact):
            table[name] = _fill_table(value, tomlkit.inline_table(), remark)
        elif isinstance(value, BaseModel):
            table[name] = _fill_table(value, tomlkit.table(), remark)
        elif isinstance(value, list) and isinstance(value[0], BaseModel):
            table[name] = tomlkit.aot()
            for one in value:
                table[name].append(_fill_table(one, tomlkit.table(), remark))
        elif value != info.default:
            table[name] = value
    return table
