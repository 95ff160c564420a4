"""Finds valid settings close to proposed ones, because a search does not know the constraints between knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from nearfield.rules.knobs import KnobFile, Settings


def satisfy_constraints(knobs: KnobFile, settings: Settings) -> Settings:
    """Returns the settings after repair of violated constraints, without default values, and without knobs of the
    shared heap if it is off. For each violated constraint, raises the left side until it holds; if the range of the
    left side is exhausted, lowers the right side. `KnobFile.problems` reports constraints that remain violated."""
    whole = knobs.with_defaults(settings)
    for _ in range(1 + len(knobs.constraints)):  # the repair of one constraint may violate another
        for rule in knobs.constraints:
            if knobs.violates_constraint(rule, whole):
                _satisfy_constraint(knobs, rule, whole)
    idle = [knob.name for knob in knobs.knob if knob.carrier == "heap" and not knobs.uses_heap(whole)]
    return {name: value for name, value in whole.items() if value != knobs[name].default and name not in idle}


def _satisfy_constraint(knobs: KnobFile, constraint: str, settings: Settings) -> None:
    left, *right = re.findall(r"[a-z_]+", constraint)
    steps = [(left, step) for step in knobs[left].power_of_two_values() if step > int(settings[left])]
    steps += [
        (name, step)
        for name in right
        for step in reversed(knobs[name].power_of_two_values())
        if step < int(settings[name])
    ]
    for name, step in steps:
        settings[name] = step
        if not knobs.violates_constraint(constraint, settings):
            return


def iterate_grid_settings(knobs: KnobFile) -> Iterator[Settings]:
    """Yields every distinct combination of the knobs' grid values, after repair of violated constraints."""
    chosen = [knob for knob in knobs.knob if knob.grid]
    seen: list[Settings] = []
    for values in product(*(knob.grid for knob in chosen)):
        settings = satisfy_constraints(knobs, {knob.name: value for knob, value in zip(chosen, values, strict=True)})
        if settings not in seen:
            seen.append(settings)
            yield settings


MAX_CHANGES_TOWARDS_DEFAULT = 8  # max number of proposed changes towards the defaults


def without_parameter(knobs: KnobFile, settings: Settings, name: str) -> Settings | None:
    """Returns the settings without the parameter; None if another parameter requires it, or if nothing is left."""
    rest = {n: value for n, value in settings.items() if n != name}
    without = satisfy_constraints(knobs, rest)
    return without if without and len(without) <= len(rest) else None


def variants_closer_to_default(knobs: KnobFile, settings: Settings, smallest_slow_bytes: int) -> list[Settings]:
    """Returns variants of the settings in which one numeric parameter is closer to its default, and which satisfy all
    constraints. First come variants in which a limit is lowered to `smallest_slow_bytes`, the smallest slower message
    size, since slower sizes are then treated as by default; then the smallest changes."""
    found: list[tuple[int, Settings]] = []
    for name, value in settings.items():
        default = knobs[name].default
        if isinstance(default, str) or isinstance(value, str):
            continue
        between = [
            step for step in knobs[name].power_of_two_values() if min(default, value) < step < max(default, value)
        ]
        to_slow = (
            max((step for step in between if step <= smallest_slow_bytes), default=None)
            if default < smallest_slow_bytes < value
            else None
        )
        for distance, step in enumerate(sorted(between, reverse=value > default)):
            changed = {**settings, name: step}
            if satisfy_constraints(knobs, changed) == changed:
                found.append((-1 if step == to_slow else distance, changed))
    return [changed for _, changed in sorted(found, key=lambda one: one[0])][:MAX_CHANGES_TOWARDS_DEFAULT]
