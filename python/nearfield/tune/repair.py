"""Settings that can be, near those that are proposed: a search knows nothing of what must hold between knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from nearfield.tune.knobs import KnobFile, Settings


def repaired(knobs: KnobFile, settings: Settings) -> Settings:
    """Without defaults. The left side of each constraint is raised until it holds; where its range ends before, what is
    on the right is lowered. What still breaks one then, `KnobFile.problems` tells."""
    whole = knobs.complete(settings)
    for _ in range(1 + len(knobs.constraints)):  # one may raise what another needs
        for rule in knobs.constraints:
            if knobs.breaks(rule, whole):
                _repair(knobs, rule, whole)
    return {name: value for name, value in whole.items() if value != knobs[name].default}


def _repair(knobs: KnobFile, rule: str, whole: Settings) -> None:
    left, *right = re.findall(r"[a-z_]+", rule)
    steps = [(left, step) for step in knobs[left].steps() if step > int(whole[left])]
    steps += [(name, step) for name in right for step in reversed(knobs[name].steps()) if step < int(whole[name])]
    for name, step in steps:
        whole[name] = step
        if not knobs.breaks(rule, whole):
            return


def grid(knobs: KnobFile) -> Iterator[Settings]:
    """Every combination of the knobs' grids, repaired; each once."""
    chosen = [knob for knob in knobs.knob if knob.grid]
    seen: list[Settings] = []
    for values in product(*(knob.grid for knob in chosen)):
        settings = repaired(knobs, {knob.name: value for knob, value in zip(chosen, values, strict=True)})
        if settings not in seen:
            seen.append(settings)
            yield settings
