"""Proves that emitted code is equivalent to the region that it replaces: each loop iteration and each call event is
executed exactly once, and the order keeps every dependence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import Loop
from nearfield.rewrite.check.translation import CodePosition, IslTranslation, NotEquivalent, iterator_variable
from nearfield.rewrite.model.isl_sets import maps_of
from nearfield.rewrite.model.polyhedral import PolyhedralModel


@dataclass(frozen=True)
class EmittedStatement:
    """A statement of the emitted code that executes iterations of a loop nest, or an event of an MPI call."""

    name: str  # isl tuple name of the iterations or events
    loops: tuple[Loop, ...]  # the loops around it that correspond to loops of the nest
    position: CodePosition
    instances: isl.Set | None = None  # set only for a nest that is copied with its loops


def prove_equivalence(
    model: PolyhedralModel, guard: isl.Set, occurrences: Sequence[EmittedStatement], translation: IslTranslation
) -> None:
    """Raises NotEquivalent unless the statements of the emitted code, in textual order, do what the region does, for
    parameter values that satisfy the guard."""
    num_time_dimensions = max((len(statement.position.time_components) for statement in occurrences), default=0) + 1
    times: dict[str, list[isl.Map]] = defaultdict(list)
    for number, statement in enumerate(occurrences):
        times[statement.name].append(
            _execution_times(statement, number, num_time_dimensions, translation).intersect_params(guard)
        )
    for domain in [domain for parts in model.instance_sets for domain in parts]:
        _check_executed_once(domain.intersect_params(guard), times[domain.get_tuple_name()])
    _check_order(model.dependences.intersect_params(guard), times)


def _execution_times(
    statement: EmittedStatement, statement_number: int, num_time_dimensions: int, translation: IslTranslation
) -> isl.Map:
    """Returns the execution times of the loop iterations or events that a statement of the emitted code executes. The
    statement's number orders events of the same statement, such as those of an MPI call that begins and completes."""
    time = [*statement.position.time_components, str(statement_number)]
    time += ["0"] * (num_time_dimensions - len(time))
    conditions = [f"t{dimension} = {value}" for dimension, value in enumerate(time)]
    conditions += [
        *map(translation.loop_constraint, statement.position.loops),
        *(f"({test})" for test in statement.position.conditions),
    ]
    dims = [iterator_variable(loop) for loop in statement.loops]
    other_iterators = [
        iterator_variable(loop) for loop in statement.position.loops if iterator_variable(loop) not in dims
    ]
    quantifier = f"exists {', '.join(other_iterators)}: " if other_iterators else ""
    times = f"[{', '.join(f't{dimension}' for dimension in range(num_time_dimensions))}]"
    instances = f"{statement.name}[{', '.join(dims)}]"
    execution_times = isl.Map(
        f"{translation.parameter_prefix()}{{ {instances} -> {times} : {quantifier}{' and '.join(conditions)} }}"
    )
    return execution_times if statement.instances is None else execution_times.intersect_domain(statement.instances)


def _check_executed_once(all_instances: isl.Set, times: Sequence[isl.Map]) -> None:
    """Raises NotEquivalent unless each loop iteration has exactly one execution time."""
    executed = isl.Set.empty(all_instances.get_space())
    for time_map in times:
        if not time_map.is_single_valued() or not time_map.domain().intersect(executed).is_empty():
            raise NotEquivalent("an instance of a loop or a call is executed twice")
        executed = executed.union(time_map.domain())
    if not executed.is_equal(all_instances):
        raise NotEquivalent("the new code does not execute the same instances and calls")


def _check_order(dependences: isl.UnionMap, times: dict[str, list[isl.Map]]) -> None:
    """Raises NotEquivalent if a loop iteration or MPI call event is executed before another one that it depends on."""
    for dependence in maps_of(dependences):
        for first in times[dependence.get_tuple_name(isl.dim_type.in_)]:
            for second in times[dependence.get_tuple_name(isl.dim_type.out)]:
                dependence_between_times = dependence.apply_domain(first).apply_range(second)
                if not dependence_between_times.intersect(isl.Map.lex_ge(first.range().get_space())).is_empty():
                    raise NotEquivalent("the new code breaks a dependence")
