"""Writes a described machine as the text of its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from nearfield.machine.quantity import Sourced
from nearfield.machine.schema import DescribedMachine


def as_toml(machine: DescribedMachine, remark: Callable[[Sourced], str] = lambda _: "") -> str:
    """Returns the text of the file. A value for which `remark` returns words is written as a comment that ends with
    them."""
    import tomlkit

    return tomlkit.dumps(_table(machine, tomlkit.document(), remark))


def _table(model: BaseModel, table: Any, remark: Callable[[Sourced], str]) -> Any:
    """Fills `table` in the order of the schema, without values that are absent, empty or the default. Returns it."""
    import tomlkit

    fields = type(model).model_fields
    for name in sorted(fields, key=lambda name: name != "value"):  # "value" comes first
        info = fields[name]
        value = getattr(model, name)
        if value in (None, "", [], {}) and not info.is_required():
            if name == "claims" and value == []:  # a chosen value must have the key, even if empty
                table[name] = []
            continue
        if isinstance(value, Sourced) and (told := remark(value)):
            rounded = round(value.plain, 3) if isinstance(value.plain, float) else value.plain
            shown = tomlkit.item(rounded).as_string()
            table.add(tomlkit.comment(f'{name} = {{ value = {shown}, source = "" }}  # {told}'))
        elif isinstance(value, Sourced):
            table[name] = _table(value, tomlkit.inline_table(), remark)
        elif isinstance(value, BaseModel):
            table[name] = _table(value, tomlkit.table(), remark)
        elif isinstance(value, list) and isinstance(value[0], BaseModel):
            table[name] = tomlkit.aot()
            for one in value:
                table[name].append(_table(one, tomlkit.table(), remark))
        elif value != info.default:
            table[name] = value
    return table
