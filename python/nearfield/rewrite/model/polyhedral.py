"""The polyhedral model of a region: instances of its nests, its calls as events, their accesses and their dependences.

Each call k is two events, Pk (it begins) and Wk (it completes). Both read the send buffer and write the receive buffer,
since MPI owns the buffers in between. A dependence connects two instances or events that access the same element, if
one of them writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.analysis.arrays import Shape, shape_of, with_shape
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Access, Call, Item, Loop, Nest, Region
from nearfield.rewrite.model.names import Names

_ROUNDS = 4  # steps of the exact transitive closure, before it is widened to whole nests


@dataclass(frozen=True)
class Note:
    """An access that the model had to widen, and the reason."""

    line: int
    reason: str


class Model:
    """A region in terms of isl. `context` is what is known of the parameters; `needed` adds the conditions under which
    accesses stay within their rows."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.names = Names(region.symbols)
        self.notes: list[Note] = []
        self._written = {a.base.key for item in region.items for a in item.accesses if a.write}
        self.width = 5 + max((len(nest.loops) for nest in region.nests), default=0)  # of an execution time
        self._facts: list[str] = []
        self._needed: list[isl.Set] = []
        self._known_large: tuple[int, isl.Set] | None = None  # with the number of parameters at that time
        self._elements: dict[
            tuple[int, Access], isl.Set
        ] = {}  # by item and access, with the access as a read at line 0
        self._known_rows: dict[tuple[str, int, str], tuple[isl.Set, list[isl.Map]]] = {}
        self.domains = [self._domain(number, item) for number, item in enumerate(region.items)]
        self._arrays: dict[str, str] = {}
        self.shapes = shapes = self._shapes()
        self._know_sizes(shapes)
        self.context = self.names.facts(self._facts)
        empty = isl.UnionMap("{ }")
        self.reads, self.writes = empty, empty
        self.sent, self.received = isl.UnionSet("{ }"), isl.UnionSet("{ }")
        self._read_accesses(shapes)
        self._assume_disjoint_buffers()
        self.needed = self.context
        for one in self._needed:
            self.needed = self.needed.intersect(one)
        self.needed = self.needed.coalesce()
        self.instances = isl.UnionSet("{ }")
        for domain in self.domains:
            for one in domain:
                self.instances = self.instances.union(isl.UnionSet.from_set(one.intersect_params(self.needed)))
        self.dependences = self._dependences()

    @property
    def chunked_calls(self) -> list[tuple[int, Call]]:
        """Returns the calls whose messages are split into chunks, with their item numbers."""
        return [(n, item) for n, item in enumerate(self.region.items) if isinstance(item, Call) and item.chunking]

    def considered_parameters(self) -> isl.Set:
        """Returns the parameters for which a new order is searched: those with messages long enough to be split into
        chunks, if any is."""
        long = [
            f"{self.names.poly(c.chunking.count)} > {c.chunking.least}" for _, c in self.chunked_calls if c.chunking
        ]
        return self.needed.intersect(self.names.facts(long)) if long else self.needed

    def project_out_sizes(self, parameters: isl.Set) -> isl.Set:
        """Projects out parameters that occur in loop bounds or message lengths."""
        sized = [loop for item in self.region.items for loop in item.loops]
        sized += [loop for item in self.region.items for access in item.accesses for loop in access.loops]
        polys = [poly for loop in sized for poly in (*loop.lower, *loop.upper)]
        keys = {key for poly in polys for key in poly.keys}
        for symbol, name in self.names.parameters.items():
            place = parameters.find_dim_by_name(isl.dim_type.param, name)
            if place >= 0 and keys.intersection(symbol):
                parameters = parameters.eliminate(isl.dim_type.param, place, 1)
        return parameters

    # ---- names of sets

    def tuple_name(self, number: int) -> str:
        return f"N{number}"

    def events(self, number: int) -> tuple[str, str]:
        return f"P{number}", f"W{number}"

    def _domain(self, number: int, item: Item) -> list[isl.Set]:
        dims = [self.names.iterator(loop.iterator.key) for loop in item.loops]
        names = self.events(number) if isinstance(item, Call) else (self.tuple_name(number),)
        return [self.names.set(name, dims, self.names.loops(item.loops)) for name in names]

    def nest_domain(self, number: int) -> isl.Set:
        return self.domains[number][0].intersect_params(self.needed)

    # ---- accesses

    def _shapes(self) -> dict[str, Shape | None]:
        by_base: dict[str, list[Access]] = defaultdict(list)
        for item in self.region.items:
            for access in item.accesses:
                by_base[access.base.key].append(access)
        return {key: shape_of(accesses, self.region.symbols) if accesses[0].base.sizes else Shape((), ())
                for key, accesses in by_base.items()}  # fmt: skip

    def _know_sizes(self, shapes: dict[str, Shape | None]) -> None:
        """Adds known facts: the meaning of factors, positive sizes, and counts that are not negative."""
        for symbol in list(self.region.symbols.values()):
            if symbol.meaning is not None:
                self._fact(Poly.of(symbol.key) - symbol.meaning, "=")
        for shape in shapes.values():
            for size in shape.sizes if shape and not shape.strides else ():
                if size is not None:
                    self._fact(size - Poly.number(1), ">=")
        for message in [message for call in self.region.calls for message in call.messages]:
            if message.certain and message.count is not None:
                self._fact(message.count, ">=")

    def _fact(self, poly: Poly, relation: str) -> None:
        try:
            self._facts.append(f"{self.names.poly(poly)} {relation} 0")
        except NotAffine:
            return

    def _read_accesses(self, shapes: dict[str, Shape | None]) -> None:
        for number, item in enumerate(self.region.items):
            known: dict[Access, isl.Map] = {}  # elements by access, regardless of read or write and of the line
            recorded: set[tuple[Access, bool]] = set()
            names = self.events(number) if isinstance(item, Call) else (self.tuple_name(number),)
            for access in item.accesses:
                if not access.base.sizes and not access.message and access.base.key not in self._written:
                    continue  # a variable that is only read causes no dependence
                same = replace(access, write=False, line=0)
                if same not in known:
                    known[same] = self._map(names[0], item, access, shapes[access.base.key])
                    self._elements[number, same] = known[same].range()
                if (same, access.write) not in recorded:
                    recorded.add((same, access.write))
                    self._record_accesses(access, names, known[same])
        self.reads, self.writes = self.reads.coalesce(), self.writes.coalesce()
        self.sent, self.received = self.sent.coalesce(), self.received.coalesce()

    def _record_accesses(self, access: Access, names: Sequence[str], elements: isl.Map) -> None:
        """Records the elements that instances of these names access."""
        for name in names:
            made = isl.UnionMap.from_map(elements.set_tuple_name(isl.dim_type.in_, name))
            if access.write:
                self.writes = self.writes.union(made)
            else:
                self.reads = self.reads.union(made)
        if access.message and access.write:
            self.received = self.received.union(made.range())
        elif access.message:
            self.sent = self.sent.union(made.range())

    def _map(self, name: str, item: Item, access: Access, shape: Shape | None) -> isl.Map:
        """Returns the elements that an instance accesses, in the array's dimensions."""
        if access.note and access.base.sizes and access.base.key in self._written:
            self.notes.append(Note(access.line, access.note))
        loops = item.loops
        dims = [self.names.iterator(loop.iterator.key) for loop in loops]
        array = self.array(access)
        if shape is None:
            rank = max(len(access.base.sizes), 1)
            return self._any(name, dims, array, rank, access, "its array has no dimensions that fit all its indices")
        rank = shape.rank if access.base.sizes else 0
        if rank == 0:
            return isl.Map(f"{self.names.head()}{{ {name}[{', '.join(dims)}] -> {array}[] }}")
        access = with_shape(access, shape)
        try:
            wide = self._exact(name, dims, array, loops, access)
        except NotAffine as why:
            return self._any(name, dims, array, rank, access, f"an index is not affine: {why.reason}")
        made = self._within_rows(wide, access, shape, len(dims))
        if made is None:
            reason = f"an index of {access.base.text} may leave its row"
            return self._any(name, dims, array, rank, access, reason)
        return made

    def array(self, access: Access) -> str:
        return self.array_name(access.base.key)

    def array_name(self, key: str) -> str:
        """Returns the isl name of a base."""
        return self._arrays.setdefault(key, f"A{len(self._arrays)}")

    def _any(self, name: str, dims: list[str], array: str, rank: int, access: Access, reason: str) -> isl.Map:
        if not access.note and access.base.key in self._written:
            self.notes.append(Note(access.line, reason))
        cells = ", ".join(f"a{place}" for place in range(rank))
        return isl.Map(f"{self.names.head()}{{ {name}[{', '.join(dims)}] -> {array}[{cells}] }}")

    def _exact(self, name: str, dims: list[str], array: str, loops: list[Loop], access: Access) -> isl.Map:
        """Returns the map from instances to elements, projected over the inner loops. Raises NotAffine."""
        inner = [self.names.iterator(loop.iterator.key) for loop in access.loops]
        constraints = self.names.loops(access.loops) + self.names.conditions(access.conditions)
        constraints += self.names.loops(loops)
        cells = []
        for place, index in enumerate(access.index):
            cells.append(f"a{place}")
            if index is not None:
                constraints.append(f"a{place} = {self.names.poly(index)}")
        names = ", ".join([*dims])
        exists = f"exists {', '.join(inner)}: " if inner else ""
        where = f" : {exists}{' and '.join(constraints)}" if constraints else ""
        return isl.Map(f"{self.names.head()}{{ {name}[{names}] -> {array}[{', '.join(cells)}] {where} }}")

    def _within_rows(self, wide: isl.Map, access: Access, shape: Shape, dims: int) -> isl.Map | None:
        """Returns the map if all indices stay within their rows, possibly after carrying a row, or under a condition on
        parameters, which is recorded; None otherwise."""
        for place in range(shape.rank - 1, 0, -1):
            length = shape.sizes[place - 1]
            if access.index[place] is None or length is None:
                continue
            beyond, borrow = self._rows(wide, place, self.names.poly(length))
            outside: list[tuple[isl.Map, isl.Map]] = []
            for one in (wide, *borrow):
                one = one if one is wide else wide.apply_range(one)
                outside.append((one, one.intersect_params(self.context).intersect_range(beyond)))
                if outside[-1][1].is_empty():
                    break
            else:
                made = self._under_condition(outside)
                if made is None:
                    return None
                outside.append((made, made))
            wide = outside[-1][0]
        return wide

    def _under_condition(self, outside: Sequence[tuple[isl.Map, isl.Map]]) -> isl.Map | None:
        """Returns the first map that stays within its rows under a simple condition, which is recorded; None if there
        is none. Each map comes with its part outside of the rows."""
        for one, out in outside:
            condition = self._unbounded_parts(out.params().complement().intersect(self.context).coalesce())
            if not condition.is_empty() and condition.n_basic_set() <= 2:
                self._needed.append(condition)
                return one
        return None

    def _unbounded_parts(self, condition: isl.Set) -> isl.Set:
        """Returns the parts of a condition that allow arbitrarily large sizes and loop extents."""
        where = self._large_parameters()
        made = isl.Set.empty(condition.get_space())
        for part in condition.get_basic_sets():
            one = isl.Set.from_basic_set(part)
            if not one.intersect(where).is_empty():
                made = made.union(one)
        return made

    def _large_parameters(self) -> isl.Set:
        """Returns the parameters for which all sizes and loop extents are large; all parameters if that is
        impossible."""
        count = len(self.names.parameters)
        if self._known_large is None or self._known_large[0] != count:
            names = self.names
            single = {keys[0]: name for keys, name in names.parameters.items() if len(keys) == 1}
            large = [f"{name} >= 5" for name in names.parameters.values()]
            large += [
                f"{name} >= 5*{single[key]}"
                for keys, name in names.parameters.items() if len(keys) > 1 for key in keys if key in single
            ]  # fmt: skip
            item_loops = [loop for nest in self.region.nests for loop in nest.loops]
            for loop in item_loops + [one for item in self.region.items for a in item.accesses for one in a.loops]:
                for extent in [upper - lower for upper in loop.upper for lower in loop.lower]:
                    if extent.constant is None and not any(names.symbols[key].iterator for key in extent.keys):
                        large.append(f"{names.poly(extent)} >= 5")
            where = isl.Set(f"{names.head()}{{ : {' and '.join(dict.fromkeys(large))} }}")
            if where.is_empty():
                where = isl.Set(f"{names.head()}{{ : }}")
            self._known_large = len(names.parameters), where
        return self._known_large[1]

    def _rows(self, wide: isl.Map, place: int, size: str) -> tuple[isl.Set, list[isl.Map]]:
        """Returns the elements outside of rows of this size, and the maps that carry an index to the next or previous
        row."""
        rank, name = wide.dim(isl.dim_type.out), wide.get_tuple_name(isl.dim_type.out)
        key = (name, place, size)
        if key not in self._known_rows:
            cells = [f"a{n}" for n in range(rank)]
            head, at = self.names.head(), f"{name}[{', '.join(cells)}]"
            beyond = isl.Set(f"{head}{{ {at} : a{place} < 0 or a{place} >= {size} }}")
            maps = []
            for sign in (1, -1):
                out = list(cells)
                out[place - 1 : place + 1] = f"a{place - 1} - {sign}", f"a{place} + {sign} * ({size})"
                maps.append(isl.Map(f"{head}{{ {at} -> {name}[{', '.join(out)}] }}"))
            self._known_rows[key] = beyond, maps
        return self._known_rows[key]

    def _assume_disjoint_buffers(self) -> None:
        """Assumes that the two buffers of a call do not overlap, as MPI requires."""
        for number, item in enumerate(self.region.items):
            if not isinstance(item, Call) or not item.exchange or any(a.note for a in item.accesses):
                continue
            event = isl.UnionSet.from_set(self.domains[number][0])
            both = event.apply(self.reads).intersect(event.apply(self.writes))
            overlap = both.params()
            if not both.is_empty() and not self.context.subtract(overlap).is_empty():
                self.context = self.context.subtract(overlap).coalesce()

    def can_begin_all_first(self, number: int) -> bool:
        """Returns whether all calls of a statement may begin before the first one completes: after a call, nothing in
        the statement accesses what it receives or overwrites what it sends."""
        item = self.region.items[number]
        assert isinstance(item, Call)
        return not any(
            self._may_conflict(number, item.accesses[first], item.accesses[second])
            for call in item.blocking for first in call.accesses
            for second in range(call.accesses.stop, len(item.accesses))
        )  # fmt: skip

    def _may_conflict(self, number: int, message: Access, other: Access) -> bool:
        """Returns whether two accesses of a call, one of which writes, may be to the same element."""
        if message.base.key != other.base.key or not (message.write or other.write):
            return False
        mine, theirs = (self._elements.get((number, replace(one, write=False, line=0))) for one in (message, other))
        return mine is None or theirs is None or not mine.intersect(theirs).intersect_params(self.needed).is_empty()

    # ---- order

    def _dependences(self) -> isl.UnionMap:
        reads, writes = (one.intersect_domain(self.instances) for one in (self.reads, self.writes))
        met = writes.apply_range(reads.reverse())
        pairs = met.union(met.reverse()).union(writes.apply_range(writes.reverse()))
        return self._in_order(pairs).union(self._chunks_in_order()).coalesce()

    def _in_order(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """Returns the pairs whose first part is executed first: items are in textual order, a call begins before it
        completes, and instances of a nest are in iteration order."""
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
        """Returns the execution times of an item's instances, with the `reverse` outermost loops reversed."""
        loops = self.region.items[number].loops
        dims = [self.names.iterator(loop.iterator.key) for loop in loops]
        down = [loop.down != (place < reverse) for place, loop in enumerate(loops)]
        times = [f"-{dim}" if back else dim for dim, back in zip(dims, down, strict=True)]
        return isl.Map(f"{{ {name}[{', '.join(dims)}] -> [{', '.join(times)}] }}")

    def _chunks_in_order(self) -> isl.UnionMap:
        """Returns the order of a message's chunks: MPI matches sends and receives in the order in which they are
        posted."""
        made = isl.UnionMap("{ }")
        for number, _ in self.chunked_calls:
            name, domain = self.events(number)[0], isl.UnionSet.from_set(self.domains[number][0])
            later = isl.UnionMap(f"{{ {name}[a] -> {name}[b] : a < b }}")
            made = made.union(later.intersect_domain(domain).intersect_range(domain))
        return made

    # ---- what follows from a dependence

    def reachable(self, start: isl.UnionSet, along: isl.UnionMap) -> isl.UnionSet:
        """Returns all that is reachable along dependences; the result may be too large, never too small."""
        found = start.apply(along)
        for _ in range(_ROUNDS):
            more = found.apply(along)
            if more.is_subset(found):
                return found.coalesce()
            found = found.union(more).coalesce()
        names: set[str] = set()
        while True:
            more_names = {one.get_tuple_name() for one in _sets(found)}
            if more_names <= names:
                return found
            names |= more_names
            for name in names:
                found = found.union(self._all(name))
            found = found.union(found.apply(along))

    def _all(self, name: str) -> isl.UnionSet:
        return isl.UnionSet.from_set(
            next(d for parts in self.domains for d in parts if d.get_tuple_name() == name).intersect_params(self.needed)
        )

    def nest_instances(self, some: isl.UnionSet) -> dict[int, isl.Set]:
        """Returns the instances of each nest."""
        made = {}
        for number, item in enumerate(self.region.items):
            if isinstance(item, Nest):
                own = some.intersect(isl.UnionSet.from_set(self.nest_domain(number)))
                made[number] = (
                    own.extract_set(self.domains[number][0].get_space()) if not own.is_empty() else
                    isl.Set.empty(self.domains[number][0].get_space())
                ).coalesce()  # fmt: skip
        return made


def _sets(union: isl.UnionSet) -> list[isl.Set]:
    found = union.get_set_list()
    return [found.get_at(place) for place in range(found.n_set())]


def maps_of(union: isl.UnionMap) -> Iterator[isl.Map]:
    """Yields the maps of a union, one for each pair of spaces."""
    found = union.get_map_list()
    for place in range(found.n_map()):
        yield found.get_at(place)
