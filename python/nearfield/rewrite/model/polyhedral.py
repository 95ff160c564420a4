"""The polyhedral model of a region: iterations of its loop nests, its calls as events, their memory accesses and their
dependences.

Each call k is two events, Pk (the call begins) and Wk (the call completes). Both read the send buffer and write the
receive buffer, since MPI owns the buffers in between. A dependence connects two iterations or events that access the
same element, if at least one of them writes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import islpy as isl

from nearfield.rewrite.analysis.arrays import ArrayShape
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import Access, CommunicationStatement, LoopNest, Region, RegionItem
from nearfield.rewrite.model.access_relations import AccessRelations, array_shapes_of, build_access_relations
from nearfield.rewrite.model.isl_sets import map_to_times, maps_of, sets_of, union_of_maps, union_of_sets
from nearfield.rewrite.model.names import IslNames

_MAX_CLOSURE_STEPS = 4  # exact steps of the transitive closure, before it is widened to all iterations of a nest


def build_model(region: Region) -> PolyhedralModel:
    """Returns the polyhedral model of a region."""
    names = IslNames(region.symbols)
    instance_sets = tuple(_instance_sets_of_item(number, item, names) for number, item in enumerate(region.items))
    shapes = array_shapes_of(region)
    known_context = names.parameter_set(_known_constraints(region, names, shapes))
    accesses = build_access_relations(region, names, instance_sets, shapes, known_context)
    context = _with_disjoint_buffers(region, instance_sets, accesses, known_context)
    index_conditions = reduce(isl.Set.intersect, accesses.conditions, context).coalesce()
    return PolyhedralModel(region, names, instance_sets, shapes, accesses, context, index_conditions)


@dataclass(frozen=True)
class PolyhedralModel:
    """The polyhedral model of a region, as isl sets and maps. `instance_sets` are the iterations of each loop nest and
    the two events of each MPI call. `parameter_context` are the parameter values (sizes and other invariants) that are
    possible; `index_conditions` adds the conditions under which no array index leaves its row."""

    region: Region
    names: IslNames
    instance_sets: tuple[tuple[isl.Set, ...], ...]
    shape_by_array: dict[str, ArrayShape | None]
    accesses: AccessRelations
    parameter_context: isl.Set
    index_conditions: isl.Set

    @property
    def reads(self) -> isl.UnionMap:
        """Returns the map from iterations and MPI call events to the array elements that they read."""
        return self.accesses.reads

    @property
    def writes(self) -> isl.UnionMap:
        """Returns the map from iterations and MPI call events to the array elements that they write."""
        return self.accesses.writes

    @property
    def time_dimensions(self) -> int:
        """Returns the number of dimensions of the vectors that represent execution times."""
        return 5 + max((len(nest.loops) for nest in self.region.nests), default=0)

    @cached_property
    def instance_set_by_name(self) -> dict[str, isl.Set]:
        """Returns the iterations of each loop nest and each event of an MPI call by isl tuple name, in textual order,
        under the condition that no array index leaves its row."""
        return {
            one.get_tuple_name(): one.intersect_params(self.index_conditions)
            for instance_sets in self.instance_sets for one in instance_sets
        }  # fmt: skip

    @cached_property
    def instances(self) -> isl.UnionSet:
        """Returns all iterations and MPI call events, under the condition that no array index leaves its row."""
        return union_of_sets(self.instance_set_by_name.values())

    @cached_property
    def dependences(self) -> isl.UnionMap:
        """Returns the pairs of iterations or MPI call events of which the second depends on the first."""
        reads, writes = (one.intersect_domain(self.instances) for one in (self.reads, self.writes))
        met = writes.apply_range(reads.reverse())
        pairs = met.union(met.reverse()).union(writes.apply_range(writes.reverse()))
        return self.select_in_original_order(pairs).union(self._chunk_order_dependences()).coalesce()

    @property
    def chunked_calls(self) -> list[tuple[int, CommunicationStatement]]:
        """Returns the MPI calls whose messages are split into chunks, with their statement numbers."""
        return [
            (n, item)
            for n, item in enumerate(self.region.items)
            if isinstance(item, CommunicationStatement) and item.chunking
        ]

    def considered_parameters(self) -> isl.Set:
        """Returns the parameter values for which a new order is searched. If messages are split into chunks, those are
        the values for which a message is long enough."""
        long = [
            f"{self.names.affine_text(c.chunking.count)} > {c.chunking.max_unsplit_elements}"
            for _, c in self.chunked_calls
            if c.chunking
        ]
        return self.index_conditions.intersect(self.names.parameter_set(long)) if long else self.index_conditions

    def project_out_sizes(self, parameter_values: isl.Set) -> isl.Set:
        """Projects parameters that occur in loop bounds or message lengths out of a set of parameter values."""
        sized = [loop for item in self.region.items for loop in item.loops]
        sized += [loop for item in self.region.items for access in item.accesses for loop in access.loops]
        polys = [poly for loop in sized for poly in (*loop.lower_bounds, *loop.upper_bounds)]
        keys = {key for poly in polys for key in poly.keys}
        for symbol, name in self.names.parameters.items():
            place = parameter_values.find_dim_by_name(isl.dim_type.param, name)
            if place >= 0 and keys.intersection(symbol):
                parameter_values = parameter_values.eliminate(isl.dim_type.param, place, 1)
        return parameter_values

    def tuple_name(self, nest_number: int) -> str:
        """Returns the isl tuple name for the iterations of the loop nest with this statement number."""
        return _tuple_names(nest_number, self.region.items[nest_number])[0]

    def event_names(self, call_number: int) -> tuple[str, ...]:
        """Returns the isl tuple names for the begin and the completion of the MPI call with this statement number."""
        return _tuple_names(call_number, self.region.items[call_number])

    def nest_domain(self, nest_number: int) -> isl.Set:
        """Returns the iteration domain of a loop nest, restricted to iterations with all array indices in bounds."""
        return self.instance_sets[nest_number][0].intersect_params(self.index_conditions)

    def can_begin_all_first(self, item_number: int) -> bool:
        """Returns whether all blocking calls of a statement may begin before the first of them completes: nothing in
        the statement after an MPI call accesses what the call receives or overwrites what the call sends."""
        item = self.region.items[item_number]
        assert isinstance(item, CommunicationStatement)
        return not any(
            self._may_conflict(item_number, item.accesses[first], item.accesses[second])
            for call in item.blocking_calls for first in call.access_numbers
            for second in range(call.access_numbers.stop, len(item.accesses))
        )  # fmt: skip

    def _may_conflict(self, item_number: int, message_access: Access, other_access: Access) -> bool:
        """Returns whether two accesses of a statement, at least one of which writes, may be to the same element."""
        if message_access.base.key != other_access.base.key or not (message_access.is_write or other_access.is_write):
            return False
        elements_by_access = self.accesses.elements_by_access
        message_elements, other_elements = (
            elements_by_access.get((item_number, replace(one, is_write=False, line=0)))
            for one in (message_access, other_access)
        )
        return (
            message_elements is None
            or other_elements is None
            or not message_elements.intersect(other_elements).intersect_params(self.index_conditions).is_empty()
        )

    # ---- order of execution in the original program

    def select_in_original_order(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """Returns the pairs whose first iteration or event is executed before the second in the original program:
        statements in textual order, an MPI call's begin before its completion, and the iterations of a nest in loop
        order."""
        names = list(self.instance_set_by_name)
        ordered_pairs = []
        for one in maps_of(pairs):
            first, second = (names.index(one.get_tuple_name(side)) for side in (isl.dim_type.in_, isl.dim_type.out))
            if first == second:
                times = self.iteration_times(int(names[first][1:]), names[first])
                one = one.intersect(times.lex_lt_map(times))
            if first <= second:
                ordered_pairs.append(one)
        return union_of_maps(ordered_pairs)

    def iteration_times(self, item_number: int, name: str, num_reversed_loops: int = 0) -> isl.Map:
        """Returns the map from the iterations of a statement to vectors in the lexicographic order of execution, with
        the `num_reversed_loops` outermost loops reversed."""
        loops = self.region.items[item_number].loops
        dims = [self.names.iterator_name(loop.iterator.key) for loop in loops]
        is_descending = [loop.is_descending != (place < num_reversed_loops) for place, loop in enumerate(loops)]
        times = [f"-{dim}" if is_backward else dim for dim, is_backward in zip(dims, is_descending, strict=True)]
        return map_to_times(name, dims, times)

    def _chunk_order_dependences(self) -> isl.UnionMap:
        """Returns a dependence of each chunk of a message on the previous chunks, since MPI matches sends and receives
        in the order in which they are posted."""
        begins = [self.instance_sets[number][0] for number, _ in self.chunked_calls]
        return union_of_maps(
            isl.Map.lex_lt(one.get_space()).intersect_domain(one).intersect_range(one) for one in begins
        )

    # ---- transitive dependences

    def reachable_from(self, start: isl.UnionSet, dependences: isl.UnionMap) -> isl.UnionSet:
        """Returns all iterations and MPI call events that are reachable from `start` along dependences. The result may
        be too large, never too small."""
        reachable = start.apply(dependences)
        for _ in range(_MAX_CLOSURE_STEPS):
            successors = reachable.apply(dependences)
            if successors.is_subset(reachable):
                return reachable.coalesce()
            reachable = reachable.union(successors).coalesce()
        names: set[str] = set()
        while True:
            tuple_names = {one.get_tuple_name() for one in sets_of(reachable)}
            if tuple_names <= names:
                return reachable
            names |= tuple_names
            reachable = reachable.union(union_of_sets(self.instance_set_by_name[name] for name in names))
            reachable = reachable.union(reachable.apply(dependences))

    def nest_instances(self, instances: isl.UnionSet) -> dict[int, isl.Set]:
        """Splits a set of iterations and MPI call events into the iterations of each loop nest, by statement number;
        events are dropped."""
        iterations_by_nest = {}
        for number, item in enumerate(self.region.items):
            if isinstance(item, LoopNest):
                nest_iterations = instances.intersect(isl.UnionSet.from_set(self.nest_domain(number)))
                space = self.instance_sets[number][0].get_space()
                is_empty = nest_iterations.is_empty()
                iterations = isl.Set.empty(space) if is_empty else nest_iterations.extract_set(space)
                iterations_by_nest[number] = iterations.coalesce()
        return iterations_by_nest


def _tuple_names(item_number: int, item: RegionItem) -> tuple[str, ...]:
    """Returns the isl tuple names of a statement: two events for an MPI call, one set of iterations for a loop
    nest."""
    return (f"P{item_number}", f"W{item_number}") if isinstance(item, CommunicationStatement) else (f"N{item_number}",)


def _instance_sets_of_item(item_number: int, item: RegionItem, names: IslNames) -> tuple[isl.Set, ...]:
    """Returns the iterations of a loop nest, or the two events of an MPI call, as isl sets."""
    dims = [names.iterator_name(loop.iterator.key) for loop in item.loops]
    return tuple(
        names.make_set(name, dims, names.loop_constraints(item.loops)) for name in _tuple_names(item_number, item)
    )


def _known_constraints(region: Region, names: IslNames, shape_by_array: dict[str, ArrayShape | None]) -> list[str]:
    """Returns the known facts on parameters as isl constraints: the values of sums that became one symbol, that array
    sizes are positive, and that message counts are not negative."""
    constraints = [
        (Polynomial.from_symbol(symbol.key) - symbol.equivalent_polynomial, "=")
        for symbol in region.symbols.values()
        if symbol.equivalent_polynomial is not None
    ]
    sizes = [size for shape in shape_by_array.values() if shape and not shape.strides for size in shape.sizes]
    constraints += [(size - Polynomial.from_constant(1), ">=") for size in sizes if size is not None]
    messages = [message for call in region.calls for message in call.messages if message.is_certain]
    constraints += [(message.count, ">=") for message in messages if message.count is not None]
    constraint_texts = []
    for poly, relation in constraints:
        with contextlib.suppress(NotAffine):
            constraint_texts.append(f"{names.affine_text(poly)} {relation} 0")
    return constraint_texts


def _with_disjoint_buffers(
    region: Region, instance_sets: Sequence[Sequence[isl.Set]], accesses: AccessRelations, parameter_context: isl.Set
) -> isl.Set:
    """Returns the context restricted to parameters for which the send and receive buffers of an MPI call do not
    overlap, as MPI requires."""
    for number, item in enumerate(region.items):
        if (
            not isinstance(item, CommunicationStatement)
            or not item.sendrecv_arguments
            or any(a.unknown_index_reason for a in item.accesses)
        ):
            continue
        event = isl.UnionSet.from_set(instance_sets[number][0])
        common_elements = event.apply(accesses.reads).intersect(event.apply(accesses.writes))
        overlap = common_elements.params()
        if not common_elements.is_empty() and not parameter_context.subtract(overlap).is_empty():
            parameter_context = parameter_context.subtract(overlap).coalesce()
    return parameter_context
