"""Replaces numbers of a described machine, and parses ranges of such numbers: `memory.latency_ns=80..200`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from nearfield.base.errors import UsageError
from nearfield.base.units import parse_bytes
from nearfield.base.validation_errors import error_messages, format_error_list
from nearfield.base.words import as_sentence, suggest_name
from nearfield.machine.described import DescribedMachine
from nearfield.machine.quantity import SourcedFact, facts, is_byte_size
from nearfield.profile.records import SWEPT_PARAMETER_PREFIX

SweepValue = int | float | str
SweepSetting = tuple[tuple[str, SweepValue], ...]  # (key of a machine's file, value) ...
DEFAULT_RANGE_VALUES = 5  # default number of values of a fractional range
MAX_SWEPT_VALUES = 1000
RANGE_SYNTAX_REMEDY = "Write KEY=80..200, KEY=80..200:7 for seven values, or KEY=80,120,200."
# Suffix of a key -> the units in which values may be written -> factor to the key's own unit.
UNIT_FACTORS_BY_KEY_SUFFIX = {
    "_ns": {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    "_ghz": {"ghz": 1.0, "mhz": 1e-3},
    "gb_per_s": {"gb/s": 1.0, "mb/s": 1e-3, "tb/s": 1e3},
    "_cycles": {"cycles": 1.0},
}


@dataclass(frozen=True)
class Sweep:
    """A key of a machine's file, with the values that a sweep gives it."""

    key: str
    values: tuple[SweepValue, ...]

    @property
    def column(self) -> str:
        """Returns the column of the records that holds the value of the swept key."""
        return swept_column_of(self.key)


def swept_column_of(key: str) -> str:
    """Returns 'machine_cache_2_size_bytes' for the key 'cache[2].size_bytes'."""
    return SWEPT_PARAMETER_PREFIX + re.sub(r"\W+", "_", key)


def parse_sweep(text: str, machine: DescribedMachine) -> Sweep:
    """Parses 'KEY=80..200:7', 'KEY=80..200' or 'KEY=80,120,200'. Raises UsageError for a key that the machine's file
    does not have, and for an invalid value."""
    key, equals, values = (part.strip() for part in text.partition("="))
    fact_by_key = dict(facts(machine))
    if not equals or not values:
        raise UsageError(f"--sweep '{text}': there is no range", RANGE_SYNTAX_REMEDY)
    if key not in fact_by_key and key.startswith("memory.tier["):
        remedy = "Add [[memory.tier]] to a copy of the file; docs/how-to/machine.md shows one."
        raise UsageError(f"{machine.name} has no key '{key}': its file describes no such tier", remedy)
    if key not in fact_by_key:
        raise UsageError(f"{machine.name} has no key '{key}'", as_sentence(suggest_name(key, fact_by_key)))
    fact = fact_by_key[key]
    if isinstance(fact.plain_value, list):
        raise UsageError(f"--sweep {key}: its value is a list", "Take a key that holds one number or word.")
    swept_values = (
        _parse_range(key, values, fact)
        if ".." in values
        else [_parse_value(key, one, fact) for one in values.split(",")]
    )
    if len(swept_values) > MAX_SWEPT_VALUES:
        raise UsageError(f"--sweep {key}: {len(swept_values)} values, {MAX_SWEPT_VALUES} at most", "Give fewer.")
    return Sweep(key, tuple(dict.fromkeys(swept_values)))


def setting_combinations(sweeps: Iterable[Sweep]) -> list[SweepSetting]:
    """Returns every combination of the values of the sweeps; one empty setting without sweeps."""
    return list(product(*([(sweep.key, value) for value in sweep.values] for sweep in sweeps)))


def with_settings(machine: DescribedMachine, setting: SweepSetting) -> DescribedMachine:
    """Returns a copy of the machine with the values of the setting. Raises UsageError if these contradict other
    values."""
    if not setting:
        return machine
    values = machine.model_dump(exclude_none=True)
    for key, value in setting:
        *outer, last = [int(part) if part.isdecimal() else part for part in re.findall(r"\w+", key)]
        table: Any = values
        for part in outer:
            table = table[part]
        table[last] = {"value": value, "kind": "chosen", "reason": "one value of a sweep"}
    try:
        return DescribedMachine.model_validate(values)
    except ValidationError as error:
        setting_text = ", ".join(f"{key}={value}" for key, value in setting)
        raise UsageError(
            f"{machine.name} cannot have {setting_text}: {format_error_list(error_messages(error, DescribedMachine))}",
            "Take other values, or change the keys that it names in a file of your own.",
        ) from error


def _parse_range(key: str, text: str, fact: SourcedFact) -> list[SweepValue]:
    """Returns the values of a range including both ends. Without a count, integers are doubled from value to value, and
    other numbers are DEFAULT_RANGE_VALUES equidistant values."""
    span, colon, count = text.partition(":")
    first, last = (_parse_value(key, end, fact) for end in span.split("..", 1))
    if isinstance(first, str) or isinstance(last, str):
        raise UsageError(f"--sweep {key}={text}: words have no range", "Write them one by one: KEY=lru,random.")
    if not first < last or (colon and not (count.strip().isdecimal() and 2 <= int(count) <= MAX_SWEPT_VALUES)):
        raise UsageError(f"--sweep {key}={text}: not a range from a smaller value up", RANGE_SYNTAX_REMEDY)
    whole = isinstance(fact.plain_value, int)
    if whole and not colon:
        doubled = [max(first, 1) << n for n in range(64) if max(first, 1) << n < last]  # type: ignore[operator]
        return [*([first] if first < 1 else []), *doubled, last]
    steps = int(count) - 1 if colon else DEFAULT_RANGE_VALUES - 1
    values = [first + (last - first) * step / steps for step in range(steps)]
    return [*((round(value) for value in values) if whole else values), last]


def _parse_value(key: str, text: str, fact: SourcedFact) -> SweepValue:
    """Returns the number or word of one value; a number is converted to the key's unit."""
    text = text.strip()
    if isinstance(fact.plain_value, str):
        return text
    if is_byte_size(fact):
        return parse_bytes(text)
    match = re.fullmatch(r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(\S*)", text)
    units = next((units for end, units in UNIT_FACTORS_BY_KEY_SUFFIX.items() if end in key), {})
    if match is None or (match[2] and match[2].lower() not in units):
        units_text = f" with {', '.join(units)} or no unit" if units else ""
        raise UsageError(
            f"--sweep {key}: '{text}' is no value of it", f"Write a number{units_text}. {RANGE_SYNTAX_REMEDY}"
        )
    number = float(match[1]) * units.get(match[2].lower(), 1.0)
    if isinstance(fact.plain_value, int):
        if not number.is_integer():
            raise UsageError(f"--sweep {key}: {text} is not a whole number", RANGE_SYNTAX_REMEDY)
        return int(number)
    return number
