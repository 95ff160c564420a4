"""Finds the built-in machine that is most similar to a machine file with errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from nearfield.base.toml import parse_toml_values
from nearfield.machine.described import DescribedMachine

# Words in titles that identify the architecture of a machine.
TITLE_WORDS_BY_ARCHITECTURE = {
    "arm": "arm aarch64 neoverse graviton grace ampere altra cobalt axion kunpeng a64fx",
    "x86": "x86 xeon epyc opteron zen intel amd",
    "power": "power ppc",
    "mips": "mips r10000",
    "alpha": "alpha",
}
ARCHITECTURE_MISMATCH_PENALTY = 4.0  # as much as a factor of 16 in one number


def nearest_machine_name(content: bytes, machines: Iterable[DescribedMachine]) -> str:
    """Returns the name of the machine whose cores, caches and architecture are most similar to those in a user's
    machine file. `content` is the file's text, in which any value may be wrong or missing. Returns 'here' if none of
    these values can be read."""
    try:
        values = parse_toml_values(content.decode())
    except (ValueError, RecursionError):
        values = {}
    cores, caches, title = _positive_number(values.get("cores")), _cache_bytes(values), str(values.get("title", ""))
    if cores is None and not any(caches) and not architecture_of(title):
        return "here"

    def difference(machine: DescribedMachine) -> float:
        cache_bytes = [cache.size_bytes.value for cache in machine.cache]
        sizes = sum(_log2_ratio(a, b) for a, b in zip(caches, cache_bytes, strict=False))
        levels = abs(len(caches) - len(cache_bytes)) if caches else 0
        architectures = {architecture_of(title), architecture_of(machine.title)} - {""}
        return (
            _log2_ratio(cores, machine.cores.value if machine.cores else None)
            + sizes
            + 2.0 * levels
            + (ARCHITECTURE_MISMATCH_PENALTY if len(architectures) > 1 else 0.0)
        )

    return min(machines, key=difference).name


def architecture_of(title: str) -> str:
    """Returns the architecture that the words of a title identify; empty if none is recognised."""
    words_of_title = re.findall(r"[a-z0-9]+", title.lower())
    for name, title_words in TITLE_WORDS_BY_ARCHITECTURE.items():
        if any(word.startswith(one) for word in words_of_title for one in title_words.split()):
            return name
    return ""


def _cache_bytes(values: dict[str, Any]) -> list[float | None]:
    caches = values.get("cache")
    return [_positive_number(cache.get("size_bytes")) for cache in caches if isinstance(cache, dict)] if caches else []


def _positive_number(fact: Any) -> float | None:
    """Returns the number in a fact, which is a bare number or a table with key `value`; None if it is not a positive
    number."""
    value = fact.get("value") if isinstance(fact, dict) else fact
    return float(value) if isinstance(value, (int, float)) and 0 < value < 1 << 60 else None


def _log2_ratio(first: float | None, second: float | None) -> float:
    """Returns the absolute base-two logarithm of the ratio of two numbers; 0 if one of them is unknown."""
    return abs(math.log2(first / second)) if first and second else 0.0
