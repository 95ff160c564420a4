"""Finds the built-in machine that is most similar to a machine file with errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from nearfield.base.toml import read_toml
from nearfield.machine.schema import DescribedMachine

# Words in titles that identify the architecture of a machine.
ARCHITECTURES = {
    "arm": "arm aarch64 neoverse graviton grace ampere altra cobalt axion kunpeng a64fx",
    "x86": "x86 xeon epyc opteron zen intel amd",
    "power": "power ppc",
    "mips": "mips r10000",
    "alpha": "alpha",
}
OTHER_ARCHITECTURE_PENALTY = 4.0  # as much as a factor of 16 in one number


def nearest_machine_name(content: bytes, machines: Iterable[DescribedMachine]) -> str:
    """Returns the name of the machine whose cores, caches and architecture are most similar to those in a user's
    machine file. `content` is the file's text, in which any value may be wrong or missing. Returns 'here' if none of
    these values can be read."""
    try:
        values = read_toml(content.decode())
    except (ValueError, RecursionError):
        values = {}
    cores, caches, title = _positive_number(values.get("cores")), _cache_bytes(values), str(values.get("title", ""))
    if cores is None and not any(caches) and not architecture_of(title):
        return "here"

    def difference(machine: DescribedMachine) -> float:
        theirs = [cache.size_bytes.value for cache in machine.cache]
        sizes = sum(_log2_ratio(a, b) for a, b in zip(caches, theirs, strict=False))
        levels = abs(len(caches) - len(theirs)) if caches else 0
        known = {architecture_of(title), architecture_of(machine.title)} - {""}
        return (
            _log2_ratio(cores, machine.cores.value if machine.cores else None)
            + sizes
            + 2.0 * levels
            + (OTHER_ARCHITECTURE_PENALTY if len(known) > 1 else 0.0)
        )

    return min(machines, key=difference).name


def architecture_of(title: str) -> str:
    """Returns the architecture that the words of a title identify; empty if none is recognised."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    for name, known in ARCHITECTURES.items():
        if any(word.startswith(one) for word in words for one in known.split()):
            return name
    return ""


def _cache_bytes(values: dict[str, Any]) -> list[float | None]:
    caches = values.get("cache")
    return [_positive_number(cache.get("size_bytes")) for cache in caches if isinstance(cache, dict)] if caches else []


def _positive_number(fact: Any) -> float | None:
    """Returns the number of a fact, which is a bare number or a table with `value`; None if that is not a positive
    number."""
    value = fact.get("value") if isinstance(fact, dict) else fact
    return float(value) if isinstance(value, (int, float)) and 0 < value < 1 << 60 else None


def _log2_ratio(ours: float | None, theirs: float | None) -> float:
    """Returns the absolute base-two logarithm of the ratio of two numbers; 0 if one of them is unknown."""
    return abs(math.log2(ours / theirs)) if ours and theirs else 0.0
