"""Proves that a new order of execution keeps every dependence, possibly only if sizes are not degenerate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import islpy as isl

from nearfield.rewrite.analysis.program import LoopNest
from nearfield.rewrite.model.polyhedral import Model, maps_of
from nearfield.rewrite.model.schedule import ChunkLoop, ComputeStep, ExecutionOrder, Step

SMALL = 16  # sizes up to this number of elements or iterations are degenerate


def find_guard(model: Model, order: ExecutionOrder) -> isl.Set | None:
    """Returns the parameter values for which an order is legal: all, or all but degenerate sizes. Returns None if the
    order is illegal."""
    if not is_partition(model, order):
        return None
    considered = guard = model.considered_parameters()
    for bad in find_violations(model, order):
        guard = guard.subtract(bad.params())
        if guard.is_empty():
            return None
    for phase in order.steps:
        if isinstance(phase, ComputeStep) and not order.whole_statements:
            guard = guard.intersect(_parameters_without_empty_nests(model, phase))
    guard = guard.coalesce()
    if guard.is_empty() or not has_only_small_sizes(considered.subtract(guard), model):
        return None
    return _simplest_guard(guard, considered, model)


def _simplest_guard(guard: isl.Set, considered: isl.Set, model: Model) -> isl.Set:
    """Returns one conjunction of the guard if that excludes only degenerate sizes; otherwise the whole guard."""
    for part in guard.get_basic_sets():
        one = isl.Set.from_basic_set(part)
        if has_only_small_sizes(considered.subtract(one), model):
            return one
    return guard


def is_partition(model: Model, order: ExecutionOrder) -> bool:
    """Returns whether each loop iteration and each MPI call event is in exactly one step of the order."""
    for number, item in enumerate(model.region.items):
        if not isinstance(item, LoopNest):
            halves = [step for step in order.steps if not isinstance(step, ComputeStep) and step.call == number]
            if sum(step.begins for step in halves) != 1 or sum(step.completes for step in halves) != 1:
                return False
            continue
        whole, seen = model.nest_domain(number), isl.Set.empty(model.nest_domain(number).get_space())
        for some in _instances_by_step(order, number):
            if some is None or not seen.intersect(some).is_empty():
                return False
            seen = seen.union(some)
        if not seen.is_equal(whole):
            return False
    return True


def _instances_by_step(order: ExecutionOrder, number: int) -> Iterator[isl.Set | None]:
    """Yields the iterations of a loop nest that each step of an order executes; None if a chunk loop would execute an
    iteration with several chunks."""
    for step in order.steps:
        if isinstance(step, ComputeStep) and number in step.sets:
            yield step.sets[number]
        elif isinstance(step, ChunkLoop):
            for pieces in (step.before, step.after):
                if number in pieces:
                    yield pieces[number].domain() if pieces[number].is_single_valued() else None


@dataclass(frozen=True)
class TimedInstances:
    """Loop iterations or MPI call events of one isl tuple name in one step of an order. `first` is the common prefix of
    their execution times; `times` orders those with equal prefixes."""

    first: tuple[int, ...]
    instances: isl.Set
    times: isl.Map


def execution_times(model: Model, order: ExecutionOrder) -> dict[str, list[TimedInstances]]:
    """Returns the execution times of loop iterations and MPI call events in an order, by isl tuple name."""
    made: dict[str, list[TimedInstances]] = defaultdict(list)
    for place, step in enumerate(order.steps):
        for one in _timed_instances(model, place, step):
            made[one.instances.get_tuple_name()].append(one)
    return made


def _timed_instances(model: Model, place: int, step: Step) -> Iterator[TimedInstances]:
    """Yields the loop iterations and MPI call events of one step of an order, with their execution times."""
    if isinstance(step, ChunkLoop):
        for one in _times_of_chunk_loop(model, step):
            yield TimedInstances((place,), one.domain(), one)
    elif isinstance(step, ComputeStep):
        for number, some in step.sets.items():
            yield TimedInstances(
                (place, number), some, model.iteration_times(number, model.tuple_name(number), step.reverse)
            )
    else:
        halves = zip(model.event_names(step.call), model.domains[step.call], (step.begins, step.completes), strict=True)
        for half, (name, domain, wanted) in enumerate(halves):
            if wanted:
                yield TimedInstances((place, half), domain, model.iteration_times(step.call, name))


def _times_of_chunk_loop(model: Model, step: ChunkLoop) -> Iterator[isl.Map]:
    """Yields the execution times in a loop over message chunks: the chunk, then the position in the loop body."""
    begins, completes = model.domains[step.call]
    at = model.region.items[step.call].loops[0].iterator
    name = model.names.iterator_name(at.key)
    zeros = ", 0" * (model.time_dimensions - 3)
    for half, (domain, wanted) in enumerate(((begins, step.begins), (completes, step.completes))):
        if wanted:
            text = f"{{ {domain.get_tuple_name()}[{name}] -> [{name}, 1, {half}{zeros}] }}"
            yield isl.Map(text).intersect_domain(domain)
    for part, pieces in ((0, step.before), (2, step.after)):
        for number, chunk in pieces.items():
            loops = model.region.items[number].loops
            dims = [model.names.iterator_name(loop.iterator.key) for loop in loops]
            signed = [f"{'-' if loop.down else ''}{dim}" for loop, dim in zip(loops, dims, strict=True)]
            rest = [str(part), str(number), *signed]
            rest += ["0"] * (model.time_dimensions - 1 - len(rest))
            last = isl.Map(f"{{ {model.tuple_name(number)}[{', '.join(dims)}] -> [{', '.join(rest)}] }}")
            yield chunk.flat_range_product(last)


def find_violations(model: Model, order: ExecutionOrder) -> Iterator[isl.Map]:
    """Yields the dependences that an order violates, for each pair of steps."""
    steps = execution_times(model, order)
    for one in maps_of(model.dependences):
        names = (one.get_tuple_name(side) for side in (isl.dim_type.in_, isl.dim_type.out))
        for first, second in product(*(steps[name] for name in names)):
            if first.first < second.first:
                continue
            bad = one.intersect_domain(first.instances).intersect_range(second.instances)
            if first.first == second.first and not bad.is_empty():
                bad = bad.intersect(first.times.lex_ge_map(second.times))
            if not bad.is_empty():
                yield bad


def _parameters_without_empty_nests(model: Model, phase: ComputeStep) -> isl.Set:
    """Returns the parameter values for which a step executes at least one iteration of each of its loop nests, so that
    its loops need no further conditions."""
    made = model.needed
    for number, some in phase.sets.items():
        if some.is_empty():
            continue
        whole = model.nest_domain(number).params()
        made = made.intersect(some.params().union(model.needed.subtract(whole)))
    return made


def has_only_small_sizes(bad: isl.Set, model: Model) -> bool:
    """Returns whether every part of a set of parameter values has a small size, which may be a parameter or a loop
    extent."""
    small = _small_sizes(model)
    return bool(bad.is_subset(small))


def _small_sizes(model: Model) -> isl.Set:
    """Returns the parameter values for which at least one size is at most SMALL."""
    names = list(model.names.parameters.values())
    extents = [f"{name} <= {SMALL}" for name in names]
    for nest in model.region.nests:
        for loop in nest.loops:
            for upper in loop.upper:
                for lower in loop.lower:
                    if not any(model.names.symbols[key].iterator for key in (upper - lower).keys):
                        extents.append(f"{model.names.affine_text(upper - lower)} <= {SMALL}")
    return isl.Set(f"{model.names.parameter_prefix()}{{ : {' or '.join(extents)} }}") if extents else model.needed
