"""Described machines for tests: those of nearfield as tables that can be edited, and files as a user writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from nearfield.base.errors import ProfileError
from nearfield.base.toml import parse_toml_values
from nearfield.machine import load_machine, machine_files

FILES = machine_files()
PROFILE = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"
Edit = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Edit:
    """Returns an edit that sets a value, such as that at 'cache.1.ways'. A new value is a stated one, and None removes
    the key."""

    def edit(machine: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        table: Any = machine
        for part in outer:
            table = table[int(part)] if part.isdecimal() else table.setdefault(part, {})
        if value is None:
            del table[last]
        elif isinstance(value, list) and last == "cache":
            table[last] = value
        elif isinstance(table.get(last), dict) and not isinstance(value, dict):
            table[last]["value"] = value
        else:
            table[last] = value if isinstance(value, dict) else {"value": value, "source": "made up"}

    return edit


def put_tiers(*tiers: tuple[float, float, float]) -> Edit:
    """Returns an edit that gives the memory tiers, each with a latency in ns, a rate in GB/s and a share."""

    def edit(machine: dict[str, Any]) -> None:
        keys = "latency_ns", "gb_per_s", "share"
        machine["memory"]["tier"] = [
            {"name": "far"} | {key: {"value": value, "source": "made up"} for key, value in zip(keys, one, strict=True)}
            for one in tiers
        ]

    return edit


def all_of(*edits: Edit) -> Edit:
    """Returns an edit that makes all of these, one after the other."""

    def edit(machine: dict[str, Any]) -> None:
        for one in edits:
            one(machine)

    return edit


def values(name: str) -> Any:
    """Returns what the file of a machine holds."""
    return parse_toml_values(FILES[name].read_text())


def load_content(content: str | bytes | dict[str, Any], folder: Path) -> Any:
    """Returns the machine that a user's file with this content describes."""
    file = folder / "mine.toml"
    if isinstance(content, dict):
        content = tomlkit.dumps(content)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_machine(str(file))


def refusal(content: str | dict[str, Any], folder: Path) -> str:
    """Returns why a user's file with this content is refused."""
    with pytest.raises(ProfileError) as caught:
        load_content(content, folder)
    assert "mine.toml" in caught.value.message
    return caught.value.message
