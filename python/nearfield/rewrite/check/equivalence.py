"""Proves that emitted code is equivalent to the region that it replaces: each loop iteration and each call event is
executed exactly once, and the order keeps every dependence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import Loop
from nearfield.rewrite.check.translation import CodePosition, IslTranslation, NotEquivalent, iterator_variable
from nearfield.rewrite.model.polyhedral import Model, maps_of


@dataclass(frozen=True)
class EmittedStatement:
    """A statement of the emitted code that executes iterations of a loop nest, or an event of an MPI call."""

    name: str  # isl tuple name of the iterations or events
    loops: tuple[Loop, ...]  # the loops whose iterators number the iterations of the nest
    position: CodePosition
    instances: isl.Set | None = None  # set only for a nest that is copied with its loops


def prove_equivalence(
    model: Model, guard: isl.Set, occurrences: Sequence[EmittedStatement], constraints: IslTranslation
) -> None:
    """Raises NotEquivalent unless the statements of the emitted code, in textual order, do what the region does, for
    parameter values that satisfy the guard."""
    length = max((len(one.position.time) for one in occurrences), default=0) + 1
    times: dict[str, list[isl.Map]] = defaultdict(list)
    for number, one in enumerate(occurrences):
        times[one.name].append(_execution_times(one, number, length, constraints).intersect_params(guard))
    for domain in [domain for parts in model.domains for domain in parts]:
        _check_executed_once(domain.intersect_params(guard), times[domain.get_tuple_name()])
    _check_order(model.dependences.intersect_params(guard), times)


def _execution_times(one: EmittedStatement, number: int, length: int, constraints: IslTranslation) -> isl.Map:
    """Returns the execution times of the loop iterations or events that a statement of the emitted code executes. The
    statement's number orders events of the same statement, such as those of an MPI call that begins and completes."""
    time = [*one.position.time, str(number)]
    time += ["0"] * (length - len(time))
    where = [f"t{place} = {value}" for place, value in enumerate(time)]
    where += [*map(constraints.loop_constraint, one.position.loops), *(f"({test})" for test in one.position.tests)]
    dims = [iterator_variable(loop) for loop in one.loops]
    outer = [iterator_variable(loop) for loop in one.position.loops if iterator_variable(loop) not in dims]
    exists = f"exists {', '.join(outer)}: " if outer else ""
    times = f"[{', '.join(f't{place}' for place in range(length))}]"
    instances = f"{one.name}[{', '.join(dims)}]"
    made = isl.Map(f"{constraints.parameter_prefix()}{{ {instances} -> {times} : {exists}{' and '.join(where)} }}")
    return made if one.instances is None else made.intersect_domain(one.instances)


def _check_executed_once(whole: isl.Set, times: Sequence[isl.Map]) -> None:
    """Raises NotEquivalent unless each loop iteration has exactly one execution time."""
    executed = isl.Set.empty(whole.get_space())
    for one in times:
        if not one.is_single_valued() or not one.domain().intersect(executed).is_empty():
            raise NotEquivalent("an instance of a loop or a call is executed twice")
        executed = executed.union(one.domain())
    if not executed.is_equal(whole):
        raise NotEquivalent("the new code does not execute the same instances and calls")


def _check_order(dependences: isl.UnionMap, times: dict[str, list[isl.Map]]) -> None:
    """Raises NotEquivalent if a loop iteration or MPI call event is executed before another one that it depends on."""
    for one in maps_of(dependences):
        for first in times[one.get_tuple_name(isl.dim_type.in_)]:
            for second in times[one.get_tuple_name(isl.dim_type.out)]:
                moved = one.apply_domain(first).apply_range(second)
                if not moved.intersect(isl.Map.lex_ge(first.range().get_space())).is_empty():
                    raise NotEquivalent("the new code breaks a dependence")
