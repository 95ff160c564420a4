"""Maps the loop iterations and calls of a region to the array elements that they access. An access that is not exactly
known is widened to all elements of its array, and the reason is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.analysis.arrays import ArrayShape, common_array_shape, reshape_access
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.program import Access, Item, Region
from nearfield.rewrite.model.names import IslNames


@dataclass(frozen=True)
class WidenedAccess:
    """The line and the reason of a memory access that the model had to widen to the whole array."""

    line: int
    reason: str


@dataclass(frozen=True)
class AccessRelations:
    """The array elements that loop iterations and MPI call events read and write, the elements that messages send, and
    the conditions under which no index leaves its row."""

    reads: isl.UnionMap
    writes: isl.UnionMap
    sent: isl.UnionSet
    elements: dict[tuple[int, Access], isl.Set]  # by item number and access; the access as a read at line 0
    conditions: tuple[isl.Set, ...]
    notes: tuple[WidenedAccess, ...]


def array_shapes_of(region: Region) -> dict[str, ArrayShape | None]:
    """Returns the shapes of all arrays that a region accesses; None for an array whose dimensions do not fit all its
    indices."""
    by_base: dict[str, list[Access]] = defaultdict(list)
    for item in region.items:
        for access in item.accesses:
            by_base[access.base.key].append(access)
    return {key: common_array_shape(accesses, region.symbols) if accesses[0].base.sizes else ArrayShape((), ())
            for key, accesses in by_base.items()}  # fmt: skip


def relate_accesses(
    region: Region,
    names: IslNames,
    domains: Sequence[Sequence[isl.Set]],
    shapes: dict[str, ArrayShape | None],
    context: isl.Set,
) -> AccessRelations:
    """Returns the access relations of a region. `domains` are the loop iterations or MPI call events of its
    statements."""
    mapper = _AccessMapper(region, names, context)
    relations = {write: isl.UnionMap("{ }") for write in (False, True)}
    sent = isl.UnionSet("{ }")
    elements: dict[tuple[int, Access], isl.Set] = {}
    for number, item in enumerate(region.items):
        maps: dict[Access, isl.Map] = {}  # by access, regardless of its line and of whether it writes
        recorded: set[tuple[Access, bool]] = set()
        tuples = [domain.get_tuple_name() for domain in domains[number]]
        for access in item.accesses:
            if not access.base.sizes and not access.message and access.base.key not in mapper.written:
                continue  # a variable that is only read causes no dependence
            same, write = replace(access, write=False, line=0), access.write
            if same not in maps:
                maps[same] = mapper.map_access(tuples[0], item, access, shapes[access.base.key])
                elements[number, same] = maps[same].range()
            if (same, write) in recorded:
                continue
            recorded.add((same, write))
            for name in tuples:
                made = isl.UnionMap.from_map(maps[same].set_tuple_name(isl.dim_type.in_, name))
                relations[write] = relations[write].union(made)
                if access.message and not write:
                    sent = sent.union(made.range())
    reads, writes = relations[False].coalesce(), relations[True].coalesce()
    return AccessRelations(reads, writes, sent.coalesce(), elements, tuple(mapper.conditions), tuple(mapper.notes))


class _AccessMapper:
    """Builds the maps from loop iterations to array elements, and collects their conditions and the widened
    accesses."""

    def __init__(self, region: Region, names: IslNames, context: isl.Set) -> None:
        self.region, self.names, self.context = region, names, context
        self.written = {a.base.key for item in region.items for a in item.accesses if a.write}
        self.conditions: list[isl.Set] = []
        self.notes: list[WidenedAccess] = []
        self._large: tuple[int, isl.Set] | None = None  # the result of _large_parameters, for a number of parameters
        self._rows: dict[tuple[str, int, str], tuple[isl.Set, list[isl.Map]]] = {}

    def map_access(self, name: str, item: Item, access: Access, shape: ArrayShape | None) -> isl.Map:
        """Returns the map from the iterations of a statement to the elements that an access reaches, one index per
        array dimension."""
        if access.note and access.base.sizes and access.base.key in self.written:
            self.notes.append(WidenedAccess(access.line, access.note))
        source = _tuple_text(name, [self.names.iterator_name(loop.iterator.key) for loop in item.loops])
        if shape is None:
            rank = max(len(access.base.sizes), 1)
            return self._map_to_whole_array(
                source, rank, access, "its array has no dimensions that fit all its indices"
            )
        rank = shape.dimension_count if access.base.sizes else 0
        if rank == 0:
            return self.names.make_map(source, _tuple_text(self.names.array_name(access.base.key), []))
        access = reshape_access(access, shape)
        try:
            wide = self._map_exactly(source, item, access)
        except NotAffine as why:
            return self._map_to_whole_array(source, rank, access, f"an index is not affine: {why.reason}")
        made = self._restrict_to_rows(wide, access, shape)
        if made is None:
            return self._map_to_whole_array(source, rank, access, f"an index of {access.base.text} may leave its row")
        return made

    def _map_to_whole_array(self, source: str, rank: int, access: Access, reason: str) -> isl.Map:
        """Returns the map from a statement's iterations to all elements of an array, and records the reason."""
        if not access.note and access.base.key in self.written:
            self.notes.append(WidenedAccess(access.line, reason))
        return self.names.make_map(source, _tuple_text(self.names.array_name(access.base.key), _dimension_names(rank)))

    def _map_exactly(self, source: str, item: Item, access: Access) -> isl.Map:
        """Returns the map from a statement's iterations to the accessed elements, projected over the inner loops.
        Raises NotAffine if an index is not affine."""
        inner = [self.names.iterator_name(loop.iterator.key) for loop in access.loops]
        constraints = self.names.loop_constraints(access.loops) + self.names.condition_constraints(access.conditions)
        constraints += self.names.loop_constraints(item.loops)
        constraints += [
            f"a{place} = {self.names.affine_text(index)}"
            for place, index in enumerate(access.index)
            if index is not None
        ]
        target = _tuple_text(self.names.array_name(access.base.key), _dimension_names(len(access.index)))
        return self.names.make_map(source, target, constraints, inner)

    # ---- array indices that may leave their rows

    def _restrict_to_rows(self, wide: isl.Map, access: Access, shape: ArrayShape) -> isl.Map | None:
        """Returns the map if all array indices stay within their rows, possibly after an index is carried to the next
        row, or under a condition on parameters, which is recorded. Returns None otherwise."""
        for place in range(shape.dimension_count - 1, 0, -1):
            length = shape.sizes[place - 1]
            if access.index[place] is None or length is None:
                continue
            beyond, borrow = self._outside_and_carries(wide, place, self.names.affine_text(length))
            outside: list[tuple[isl.Map, isl.Map]] = []
            for one in (wide, *borrow):
                one = one if one is wide else wide.apply_range(one)
                outside.append((one, one.intersect_params(self.context).intersect_range(beyond)))
                if outside[-1][1].is_empty():
                    break
            else:
                made = self._restrict_by_condition(outside)
                if made is None:
                    return None
                outside.append((made, made))
            wide = outside[-1][0]
        return wide

    def _restrict_by_condition(self, outside: Sequence[tuple[isl.Map, isl.Map]]) -> isl.Map | None:
        """Returns the first map whose array indices stay within their rows under a simple condition on parameters,
        which is recorded; None if there is none. Each map comes with its part outside of the rows."""
        for one, out in outside:
            condition = self._unbounded_parts(out.params().complement().intersect(self.context).coalesce())
            if not condition.is_empty() and condition.n_basic_set() <= 2:
                self.conditions.append(condition)
                return one
        return None

    def _unbounded_parts(self, condition: isl.Set) -> isl.Set:
        """Returns the parts of a condition on parameters that allow arbitrarily large array sizes and loop extents."""
        where = self._large_parameters()
        made = isl.Set.empty(condition.get_space())
        for part in condition.get_basic_sets():
            one = isl.Set.from_basic_set(part)
            if not one.intersect(where).is_empty():
                made = made.union(one)
        return made

    def _large_parameters(self) -> isl.Set:
        """Returns the parameter values for which all array sizes and loop extents are large; all values if that is
        impossible."""
        names, count = self.names, len(self.names.parameters)
        if self._large is None or self._large[0] != count:
            single = {keys[0]: name for keys, name in names.parameters.items() if len(keys) == 1}
            large = [f"{name} >= 5" for name in names.parameters.values()]
            large += [
                f"{name} >= 5*{single[key]}"
                for keys, name in names.parameters.items() if len(keys) > 1 for key in keys if key in single
            ]  # fmt: skip
            loops = [loop for nest in self.region.nests for loop in nest.loops]
            for loop in loops + [one for item in self.region.items for a in item.accesses for one in a.loops]:
                for extent in [upper - lower for upper in loop.upper for lower in loop.lower]:
                    if extent.constant is None and not any(names.symbols[key].iterator for key in extent.keys):
                        large.append(f"{names.affine_text(extent)} >= 5")
            where = names.parameter_set(list(dict.fromkeys(large)))
            self._large = len(names.parameters), names.parameter_set([]) if where.is_empty() else where
        return self._large[1]

    def _outside_and_carries(self, wide: isl.Map, place: int, size: str) -> tuple[isl.Set, list[isl.Map]]:
        """Returns the elements whose index in one dimension lies outside of the row, and the maps that carry the index
        to the next or previous row."""
        rank, name = wide.dim(isl.dim_type.out), wide.get_tuple_name(isl.dim_type.out)
        key = (name, place, size)
        if key not in self._rows:
            cells = _dimension_names(rank)
            beyond = self.names.make_set(name, cells, [f"(a{place} < 0 or a{place} >= {size})"])
            maps = []
            for sign in (1, -1):
                out = list(cells)
                out[place - 1 : place + 1] = f"a{place - 1} - {sign}", f"a{place} + {sign} * ({size})"
                maps.append(self.names.make_map(_tuple_text(name, cells), _tuple_text(name, out)))
            self._rows[key] = beyond, maps
        return self._rows[key]


def _dimension_names(rank: int) -> list[str]:
    """Returns the isl names of an array's dimensions."""
    return [f"a{place}" for place in range(rank)]


def _tuple_text(name: str, cells: Sequence[str]) -> str:
    """Returns an isl tuple with a name and dimensions."""
    return f"{name}[{', '.join(cells)}]"
