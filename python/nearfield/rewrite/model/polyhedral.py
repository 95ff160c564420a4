"""The polyhedral model of a region: iterations of its loop nests, its calls as events, their memory accesses and their
dependences.

Each call k is two events, Pk (the call begins) and Wk (the call completes). Both read the send buffer and write the
receive buffer, since MPI owns the buffers in between. A dependence connects two iterations or events that access the
same element, if at least one of them writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl

from nearfield.rewrite.analysis.arrays import ArrayShape
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Access, CommunicationStatement, Item, LoopNest, Region
from nearfield.rewrite.model.access_relations import AccessRelations, array_shapes_of, relate_accesses
from nearfield.rewrite.model.names import IslNames

_ROUNDS = 4  # steps of the exact transitive closure, before it is widened to all iterations of a nest


def build_model(region: Region) -> Model:
    """Returns the polyhedral model of a region."""
    names = IslNames(region.symbols)
    domains = tuple(_domains_of(number, item, names) for number, item in enumerate(region.items))
    shapes = array_shapes_of(region)
    context = names.parameter_set(_known_constraints(region, names, shapes))
    accesses = relate_accesses(region, names, domains, shapes, context)
    context = _with_disjoint_buffers(region, domains, accesses, context)
    needed = context
    for condition in accesses.conditions:
        needed = needed.intersect(condition)
    return Model(region, names, domains, shapes, accesses, context, needed.coalesce())


@dataclass(frozen=True)
class Model:
    """The polyhedral model of a region, as isl sets and maps. `domains` are the iterations of each loop nest and the
    two events of each MPI call. `context` is what is known of the parameters (sizes and other invariants); `needed`
    adds the conditions under which no array index leaves its row."""

    region: Region
    names: IslNames
    domains: tuple[tuple[isl.Set, ...], ...]
    shapes: dict[str, ArrayShape | None]
    accesses: AccessRelations
    context: isl.Set
    needed: isl.Set

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
    def instances(self) -> isl.UnionSet:
        """Returns all iterations and MPI call events, under the condition that no array index leaves its row."""
        return union_of_sets([one.intersect_params(self.needed) for domain in self.domains for one in domain])

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
            f"{self.names.affine_text(c.chunking.count)} > {c.chunking.least}"
            for _, c in self.chunked_calls
            if c.chunking
        ]
        return self.needed.intersect(self.names.parameter_set(long)) if long else self.needed

    def project_out_sizes(self, parameters: isl.Set) -> isl.Set:
        """Projects parameters that occur in loop bounds or message lengths out of a set of parameter values."""
        sized = [loop for item in self.region.items for loop in item.loops]
        sized += [loop for item in self.region.items for access in item.accesses for loop in access.loops]
        polys = [poly for loop in sized for poly in (*loop.lower, *loop.upper)]
        keys = {key for poly in polys for key in poly.keys}
        for symbol, name in self.names.parameters.items():
            place = parameters.find_dim_by_name(isl.dim_type.param, name)
            if place >= 0 and keys.intersection(symbol):
                parameters = parameters.eliminate(isl.dim_type.param, place, 1)
        return parameters

    def tuple_name(self, number: int) -> str:
        """Returns the isl tuple name for the iterations of the loop nest with this statement number."""
        return _tuple_names(number, self.region.items[number])[0]

    def event_names(self, number: int) -> tuple[str, ...]:
        """Returns the isl tuple names for the begin and the completion of the MPI call with this statement number."""
        return _tuple_names(number, self.region.items[number])

    def nest_domain(self, number: int) -> isl.Set:
        """Returns the iterations of a loop nest, under the condition that no array index leaves its row."""
        return self.domains[number][0].intersect_params(self.needed)

    def can_begin_all_first(self, number: int) -> bool:
        """Returns whether all blocking calls of a statement may begin before the first of them completes: nothing in
        the statement after an MPI call accesses what the call receives or overwrites what the call sends."""
        item = self.region.items[number]
        assert isinstance(item, CommunicationStatement)
        return not any(
            self._may_conflict(number, item.accesses[first], item.accesses[second])
            for call in item.blocking for first in call.accesses
            for second in range(call.accesses.stop, len(item.accesses))
        )  # fmt: skip

    def _may_conflict(self, number: int, message: Access, other: Access) -> bool:
        """Returns whether two accesses of a statement, at least one of which writes, may be to the same element."""
        if message.base.key != other.base.key or not (message.write or other.write):
            return False
        known = self.accesses.elements
        mine, theirs = (known.get((number, replace(one, write=False, line=0))) for one in (message, other))
        return mine is None or theirs is None or not mine.intersect(theirs).intersect_params(self.needed).is_empty()

    # ---- order of execution in the original program

    def select_in_original_order(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """Returns the pairs whose first iteration or event is executed before the second in the original program:
        statements in textual order, an MPI call's begin before its completion, and the iterations of a nest in loop
        order."""
        names = [domain.get_tuple_name() for parts in self.domains for domain in parts]
        made = isl.UnionMap("{ }")
        for one in maps_of(pairs):
            first, second = (names.index(one.get_tuple_name(side)) for side in (isl.dim_type.in_, isl.dim_type.out))
            if first == second:
                times = self.iteration_times(int(names[first][1:]), names[first])
                one = one.intersect(times.lex_lt_map(times))
            if first <= second:
                made = made.union(isl.UnionMap.from_map(one))
        return made

    def iteration_times(self, number: int, name: str, reverse: int = 0) -> isl.Map:
        """Returns the map from the iterations of a statement to vectors in the lexicographic order of execution, with
        the `reverse` outermost loops reversed."""
        loops = self.region.items[number].loops
        dims = [self.names.iterator_name(loop.iterator.key) for loop in loops]
        down = [loop.down != (place < reverse) for place, loop in enumerate(loops)]
        times = [f"-{dim}" if back else dim for dim, back in zip(dims, down, strict=True)]
        return isl.Map(f"{{ {name}[{', '.join(dims)}] -> [{', '.join(times)}] }}")

    def _chunk_order_dependences(self) -> isl.UnionMap:
        """Returns a dependence of each chunk of a message on the previous chunks, since MPI matches sends and receives
        in the order in which they are posted."""
        made = isl.UnionMap("{ }")
        for number, _ in self.chunked_calls:
            name, domain = self.event_names(number)[0], isl.UnionSet.from_set(self.domains[number][0])
            later = isl.UnionMap(f"{{ {name}[a] -> {name}[b] : a < b }}")
            made = made.union(later.intersect_domain(domain).intersect_range(domain))
        return made

    # ---- transitive dependences

    def reachable_from(self, start: isl.UnionSet, along: isl.UnionMap) -> isl.UnionSet:
        """Returns all iterations and MPI call events that are reachable from `start` along dependences. The result may
        be too large, never too small."""
        found = start.apply(along)
        for _ in range(_ROUNDS):
            more = found.apply(along)
            if more.is_subset(found):
                return found.coalesce()
            found = found.union(more).coalesce()
        names: set[str] = set()
        while True:
            more_names = {one.get_tuple_name() for one in _sets_of(found)}
            if more_names <= names:
                return found
            names |= more_names
            for name in names:
                found = found.union(self._instances_named(name))
            found = found.union(found.apply(along))

    def _instances_named(self, name: str) -> isl.UnionSet:
        """Returns all iterations or events of an isl tuple name."""
        return isl.UnionSet.from_set(
            next(d for parts in self.domains for d in parts if d.get_tuple_name() == name).intersect_params(self.needed)
        )

    def nest_instances(self, some: isl.UnionSet) -> dict[int, isl.Set]:
        """Splits a set of iterations and MPI call events into the iterations of each loop nest, by statement number;
        events are dropped."""
        made = {}
        for number, item in enumerate(self.region.items):
            if isinstance(item, LoopNest):
                own = some.intersect(isl.UnionSet.from_set(self.nest_domain(number)))
                made[number] = (
                    own.extract_set(self.domains[number][0].get_space()) if not own.is_empty() else
                    isl.Set.empty(self.domains[number][0].get_space())
                ).coalesce()  # fmt: skip
        return made


def _tuple_names(number: int, item: Item) -> tuple[str, ...]:
    """Returns the isl tuple names of a statement: two events for an MPI call, one set of iterations for a loop
    nest."""
    return (f"P{number}", f"W{number}") if isinstance(item, CommunicationStatement) else (f"N{number}",)


def _domains_of(number: int, item: Item, names: IslNames) -> tuple[isl.Set, ...]:
    """Returns the iterations of a loop nest, or the two events of an MPI call, as isl sets."""
    dims = [names.iterator_name(loop.iterator.key) for loop in item.loops]
    return tuple(names.make_set(name, dims, names.loop_constraints(item.loops)) for name in _tuple_names(number, item))


def _known_constraints(region: Region, names: IslNames, shapes: dict[str, ArrayShape | None]) -> list[str]:
    """Returns what is known of the parameters, as isl constraints: the values of sums that became one symbol, that
    array sizes are positive, and that message counts are not negative."""
    known = [
        (Poly.from_symbol(symbol.key) - symbol.meaning, "=")
        for symbol in region.symbols.values()
        if symbol.meaning is not None
    ]
    sizes = [size for shape in shapes.values() if shape and not shape.strides for size in shape.sizes]
    known += [(size - Poly.from_constant(1), ">=") for size in sizes if size is not None]
    messages = [message for call in region.calls for message in call.messages if message.certain]
    known += [(message.count, ">=") for message in messages if message.count is not None]
    facts = []
    for poly, relation in known:
        with contextlib.suppress(NotAffine):
            facts.append(f"{names.affine_text(poly)} {relation} 0")
    return facts


def _with_disjoint_buffers(
    region: Region, domains: Sequence[Sequence[isl.Set]], accesses: AccessRelations, context: isl.Set
) -> isl.Set:
    """Returns the context restricted to parameters for which the send and receive buffers of an MPI call do not
    overlap, as MPI requires."""
    for number, item in enumerate(region.items):
        if not isinstance(item, CommunicationStatement) or not item.exchange or any(a.note for a in item.accesses):
            continue
        event = isl.UnionSet.from_set(domains[number][0])
        both = event.apply(accesses.reads).intersect(event.apply(accesses.writes))
        overlap = both.params()
        if not both.is_empty() and not context.subtract(overlap).is_empty():
            context = context.subtract(overlap).coalesce()
    return context


def _sets_of(union: isl.UnionSet) -> list[isl.Set]:
    """Returns the sets of a union, one for each isl space."""
    found = union.get_set_list()
    return [found.get_at(place) for place in range(found.n_set())]


def maps_of(union: isl.UnionMap) -> Iterator[isl.Map]:
    """Yields the maps of a union, one for each pair of isl spaces."""
    found = union.get_map_list()
    for place in range(found.n_map()):
        yield found.get_at(place)


def union_of_sets(some: Iterable[isl.Set]) -> isl.UnionSet:
    """Returns the union of sets from several isl spaces."""
    result = isl.UnionSet("{ }")
    for one in some:
        result = result.union(isl.UnionSet.from_set(one))
    return result
