"""Proves that a new order of execution keeps every dependence, possibly only if sizes are not degenerate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import islpy as isl

from nearfield.rewrite.analysis.program import LoopNest
from nearfield.rewrite.model.isl_sets import map_to_times, maps_of
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import ChunkLoop, ComputeStep, ExecutionOrder, Step

MAX_DEGENERATE_SIZE = 16  # sizes up to this number of elements or iterations are degenerate


def find_guard(model: PolyhedralModel, order: ExecutionOrder) -> isl.Set | None:
    """Returns the parameter values for which an order is legal: all, or all but degenerate sizes. Returns None if the
    order is illegal."""
    if not executes_everything_once(model, order):
        return None
    considered_parameters = guard = model.considered_parameters()
    for bad in find_violations(model, order):
        guard = guard.subtract(bad.params())
        if guard.is_empty():
            return None
    for phase in order.steps:
        if isinstance(phase, ComputeStep) and not order.keeps_statements_whole:
            guard = guard.intersect(_parameters_without_empty_nests(model, phase))
    guard = guard.coalesce()
    if guard.is_empty() or not has_only_small_sizes(considered_parameters.subtract(guard), model):
        return None
    return _simplest_guard(guard, considered_parameters, model)


def _simplest_guard(guard: isl.Set, considered_parameters: isl.Set, model: PolyhedralModel) -> isl.Set:
    """Returns a single conjunction of the guard if it excludes only degenerate sizes; otherwise the whole guard."""
    for part in guard.get_basic_sets():
        one = isl.Set.from_basic_set(part)
        if has_only_small_sizes(considered_parameters.subtract(one), model):
            return one
    return guard


def executes_everything_once(model: PolyhedralModel, order: ExecutionOrder) -> bool:
    """Returns whether each loop iteration and each MPI call event is in exactly one step of the order."""
    for number, item in enumerate(model.region.items):
        if not isinstance(item, LoopNest):
            call_steps = [
                step for step in order.steps if not isinstance(step, ComputeStep) and step.call_number == number
            ]
            if (
                sum(step.begins_call for step in call_steps) != 1
                or sum(step.completes_call for step in call_steps) != 1
            ):
                return False
            continue
        all_iterations, executed_iterations = (
            model.nest_domain(number),
            isl.Set.empty(model.nest_domain(number).get_space()),
        )
        for iterations in _instances_by_step(order, number):
            if iterations is None or not executed_iterations.intersect(iterations).is_empty():
                return False
            executed_iterations = executed_iterations.union(iterations)
        if not executed_iterations.is_equal(all_iterations):
            return False
    return True


def _instances_by_step(order: ExecutionOrder, nest_number: int) -> Iterator[isl.Set | None]:
    """Yields the iterations of a loop nest that each step of an order executes; None if a chunk loop would execute an
    iteration with several chunks."""
    for step in order.steps:
        if isinstance(step, ComputeStep) and nest_number in step.iterations:
            yield step.iterations[nest_number]
        elif isinstance(step, ChunkLoop):
            for chunk_maps in (step.iterations_before, step.iterations_after):
                if nest_number in chunk_maps:
                    yield chunk_maps[nest_number].domain() if chunk_maps[nest_number].is_single_valued() else None


@dataclass(frozen=True)
class TimedInstances:
    """Loop iterations or MPI call events of one isl tuple name in one step of an order. `time_prefix` is the common
    prefix of their execution times; `times` orders those with equal prefixes."""

    time_prefix: tuple[int, ...]
    instances: isl.Set
    times: isl.Map


def execution_times(model: PolyhedralModel, order: ExecutionOrder) -> dict[str, list[TimedInstances]]:
    """Returns the execution times of loop iterations and MPI call events in an order, by isl tuple name."""
    times_by_tuple: dict[str, list[TimedInstances]] = defaultdict(list)
    for step_number, step in enumerate(order.steps):
        for one in _timed_instances(model, step_number, step):
            times_by_tuple[one.instances.get_tuple_name()].append(one)
    return times_by_tuple


def _timed_instances(model: PolyhedralModel, step_number: int, step: Step) -> Iterator[TimedInstances]:
    """Yields the loop iterations and MPI call events of one step of an order, with their execution times."""
    if isinstance(step, ChunkLoop):
        for one in _times_of_chunk_loop(model, step):
            yield TimedInstances((step_number,), one.domain(), one)
    elif isinstance(step, ComputeStep):
        for number, iterations in step.iterations.items():
            yield TimedInstances(
                (step_number, number),
                iterations,
                model.iteration_times(number, model.tuple_name(number), step.num_reversed_loops),
            )
    else:
        events = zip(
            model.event_names(step.call_number),
            model.instance_sets[step.call_number],
            (step.begins_call, step.completes_call),
            strict=True,
        )
        for event_index, (name, instances, is_executed) in enumerate(events):
            if is_executed:
                yield TimedInstances(
                    (step_number, event_index), instances, model.iteration_times(step.call_number, name)
                )


def _times_of_chunk_loop(model: PolyhedralModel, step: ChunkLoop) -> Iterator[isl.Map]:
    """Yields the execution times in a loop over message chunks: the chunk, then the position in the loop body."""
    begins, completes = model.instance_sets[step.call_number]
    chunk_iterator = model.region.items[step.call_number].loops[0].iterator
    name = model.names.iterator_name(chunk_iterator.key)
    zeros = ["0"] * (model.time_dimensions - 3)
    for event_index, (instances, is_executed) in enumerate(
        ((begins, step.begins_call), (completes, step.completes_call))
    ):
        if is_executed:
            times = [name, "1", str(event_index), *zeros]
            yield map_to_times(instances.get_tuple_name(), [name], times).intersect_domain(instances)
    for position, chunk_maps in ((0, step.iterations_before), (2, step.iterations_after)):
        for number, chunk in chunk_maps.items():
            loops = model.region.items[number].loops
            dims = [model.names.iterator_name(loop.iterator.key) for loop in loops]
            time_dimensions = [
                f"{'-' if loop.is_descending else ''}{dim}" for loop, dim in zip(loops, dims, strict=True)
            ]
            body_time = [str(position), str(number), *time_dimensions]
            body_time += ["0"] * (model.time_dimensions - 1 - len(body_time))
            yield chunk.flat_range_product(map_to_times(model.tuple_name(number), dims, body_time))


def find_violations(model: PolyhedralModel, order: ExecutionOrder) -> Iterator[isl.Map]:
    """Yields the dependences that an order violates, for each pair of steps."""
    steps = execution_times(model, order)
    for one in maps_of(model.dependences):
        names = (one.get_tuple_name(side) for side in (isl.dim_type.in_, isl.dim_type.out))
        for first, second in product(*(steps[name] for name in names)):
            if first.time_prefix < second.time_prefix:
                continue
            violated_pairs = one.intersect_domain(first.instances).intersect_range(second.instances)
            if first.time_prefix == second.time_prefix and not violated_pairs.is_empty():
                violated_pairs = violated_pairs.intersect(first.times.lex_ge_map(second.times))
            if not violated_pairs.is_empty():
                yield violated_pairs


def _parameters_without_empty_nests(model: PolyhedralModel, step: ComputeStep) -> isl.Set:
    """Returns the parameter values for which a step executes at least one iteration of each of its loop nests, so that
    its loops need no further conditions."""
    parameters = model.index_conditions
    for number, iterations in step.iterations.items():
        if iterations.is_empty():
            continue
        nest_parameters = model.nest_domain(number).params()
        parameters = parameters.intersect(iterations.params().union(model.index_conditions.subtract(nest_parameters)))
    return parameters


def has_only_small_sizes(parameters: isl.Set, model: PolyhedralModel) -> bool:
    """Returns whether every part of a set of parameter values has a small size, which may be a parameter or a loop
    extent."""
    small_sizes = _small_sizes(model)
    return bool(parameters.is_subset(small_sizes))


def _small_sizes(model: PolyhedralModel) -> isl.Set:
    """Returns the parameter values for which at least one size is at most MAX_DEGENERATE_SIZE."""
    names = list(model.names.parameters.values())
    extents = [f"{name} <= {MAX_DEGENERATE_SIZE}" for name in names]
    for nest in model.region.nests:
        for loop in nest.loops:
            for upper in loop.upper_bounds:
                for lower in loop.lower_bounds:
                    if not any(model.names.symbols[key].is_iterator for key in (upper - lower).keys):
                        extents.append(f"{model.names.affine_text(upper - lower)} <= {MAX_DEGENERATE_SIZE}")
    return model.names.parameter_set([" or ".join(extents)]) if extents else model.index_conditions
