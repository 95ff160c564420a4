"""Proves that an order keeps every dependence, perhaps only beyond degenerate sizes."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from nearfield.rewrite.model import Model
from nearfield.rewrite.parts import Event, Order, Phase
from nearfield.rewrite.program import Nest

SMALL = 16  # a size up to this is degenerate


def guard_of(model: Model, order: Order) -> isl.Set | None:
    """Returns the parameters for which the order is legal: all, or all but degenerate sizes. None if it is illegal."""
    if not partitions(model, order):
        return None
    bad = violated(model, order, timing(model, order)).params()
    guard = model.needed.subtract(bad)
    for phase in order.steps:
        if isinstance(phase, Phase):
            guard = guard.intersect(_present(model, phase))
    guard = guard.coalesce()
    if guard.is_empty() or not only_small(model.needed.subtract(guard), model):
        return None
    return _simplest(guard, model)


def _simplest(guard: isl.Set, model: Model) -> isl.Set:
    """Returns a part of the guard that is one conjunction, if this leaves out degenerate sizes only."""
    for part in guard.get_basic_sets():
        one = isl.Set.from_basic_set(part)
        if only_small(model.needed.subtract(one), model):
            return one
    return guard


def partitions(model: Model, order: Order) -> bool:
    """Returns whether each instance and each event is in exactly one step."""
    for number, item in enumerate(model.region.items):
        if not isinstance(item, Nest):
            halves = [step for step in order.steps if isinstance(step, Event) and step.call == number]
            if sum(step.begins for step in halves) != 1 or sum(step.completes for step in halves) != 1:
                return False
            continue
        whole, seen = model.nest_domain(number), isl.Set.empty(model.nest_domain(number).get_space())
        for step in order.steps:
            if isinstance(step, Phase) and number in step.sets:
                if not seen.intersect(step.sets[number]).is_empty():
                    return False
                seen = seen.union(step.sets[number])
        if not seen.is_equal(whole):
            return False
    return True


def timing(model: Model, order: Order) -> isl.UnionMap:
    """Returns when the order executes each instance and event."""
    return model.timed(_times(model, order))


def _times(model: Model, order: Order) -> Iterator[tuple[int, isl.Set, list[int], bool]]:
    for place, step in enumerate(order.steps):
        if isinstance(step, Phase):
            for number, some in step.sets.items():
                yield number, some, [place, number], step.reverse
        else:
            begins, completes = model.domains[step.call]
            if step.begins:
                yield step.call, begins, [place, 0], False
            if step.completes:
                yield step.call, completes, [place, 1], False


def violated(model: Model, order: Order, times: isl.UnionMap) -> isl.UnionMap:
    """Returns the dependences whose second part would not come after the first."""
    return model.dependences.intersect(times.lex_ge_union_map(times))


def _present(model: Model, phase: Phase) -> isl.Set:
    """Returns the parameters for which a phase has instances of all nests of which it ever has some, so that its loops
    need no further conditions."""
    made = model.needed
    for number, some in phase.sets.items():
        if some.is_empty():
            continue
        whole = model.nest_domain(number).params()
        made = made.intersect(some.params().union(model.needed.subtract(whole)))
    return made


def only_small(bad: isl.Set, model: Model) -> bool:
    """Returns whether in each part of a set of parameters a size is small: a parameter, or a loop's extent."""
    small = _small(model)
    return bool(bad.is_subset(small))


def _small(model: Model) -> isl.Set:
    """Returns the parameters for which some size is at most SMALL."""
    names = list(model.names.parameters.values())
    extents = [f"{name} <= {SMALL}" for name in names]
    for nest in model.region.nests:
        for loop in nest.loops:
            for upper in loop.upper:
                for lower in loop.lower:
                    if not any(model.names.symbols[key].iterator for key in (upper - lower).keys):
                        extents.append(f"{model.names.poly(upper - lower)} <= {SMALL}")
    return isl.Set(f"{model.names.head()}{{ : {' or '.join(extents)} }}") if extents else model.needed
