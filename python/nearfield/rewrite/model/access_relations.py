"""Maps the loop iterations and calls of a region to the array elements that they access. An access that is not exactly
known is widened to all elements of its array, and the reason is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from nearfield.rewrite.analysis.arrays import ArrayShape, common_array_shape, reshape_access
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.program import Access, Region, RegionItem
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
    sent_elements: isl.UnionSet
    elements_by_access: dict[tuple[int, Access], isl.Set]  # by item number and access, as a read at line 0
    conditions: tuple[isl.Set, ...]
    widened_accesses: tuple[WidenedAccess, ...]


def array_shapes_of(region: Region) -> dict[str, ArrayShape | None]:
    """Returns the shapes of all arrays that a region accesses; None for an array whose dimensions do not fit all its
    indices."""
    by_base: dict[str, list[Access]] = defaultdict(list)
    for item in region.items:
        for access in item.accesses:
            by_base[access.base.key].append(access)
    return {
        key: common_array_shape(accesses, region.symbols) if accesses[0].base.dimension_sizes else ArrayShape((), ())
        for key, accesses in by_base.items()
    }


def build_access_relations(
    region: Region,
    names: IslNames,
    instance_sets: Sequence[Sequence[isl.Set]],
    shape_by_array: dict[str, ArrayShape | None],
    parameter_context: isl.Set,
) -> AccessRelations:
    """Returns the access relations of a region. `instance_sets` are the loop iterations or MPI call events of its
    statements."""
    mapper = _AccessMapper(region, names, parameter_context)
    relations = {write: isl.UnionMap("{ }") for write in (False, True)}
    sent = isl.UnionSet("{ }")
    elements: dict[tuple[int, Access], isl.Set] = {}
    for number, item in enumerate(region.items):
        maps: dict[Access, isl.Map] = {}  # by access, regardless of its line and of whether it writes
        recorded: set[tuple[Access, bool]] = set()
        tuples = [domain.get_tuple_name() for domain in instance_sets[number]]
        for access in item.accesses:
            if not access.base.dimension_sizes and not access.is_message and access.base.key not in mapper.written_keys:
                continue  # a variable that is only read causes no dependence
            normalized_access, write = replace(access, is_write=False, line=0), access.is_write
            if normalized_access not in maps:
                maps[normalized_access] = mapper.map_access(tuples[0], item, access, shape_by_array[access.base.key])
                elements[number, normalized_access] = maps[normalized_access].range()
            if (normalized_access, write) in recorded:
                continue
            recorded.add((normalized_access, write))
            for name in tuples:
                map_by_access = isl.UnionMap.from_map(maps[normalized_access].set_tuple_name(isl.dim_type.in_, name))
                relations[write] = relations[write].union(map_by_access)
                if access.is_message and not write:
                    sent = sent.union(map_by_access.range())
    reads, writes = relations[False].coalesce(), relations[True].coalesce()
    return AccessRelations(
        reads, writes, sent.coalesce(), elements, tuple(mapper.conditions), tuple(mapper.widened_accesses)
    )


class _AccessMapper:
    """Builds the maps from loop iterations to array elements, and collects their conditions and the widened
    accesses."""

    def __init__(self, region: Region, names: IslNames, parameter_context: isl.Set) -> None:
        self.region, self.names, self.parameter_context = region, names, parameter_context
        self.written_keys = {a.base.key for item in region.items for a in item.accesses if a.is_write}
        self.conditions: list[isl.Set] = []
        self.widened_accesses: list[WidenedAccess] = []
        self._cached_large_parameters: tuple[int, isl.Set] | None = (
            None  # the result of _large_parameters, for a number of parameters
        )
        self._row_maps_by_dimension: dict[tuple[str, int, str], tuple[isl.Set, list[isl.Map]]] = {}

    def map_access(self, tuple_name: str, item: RegionItem, access: Access, shape: ArrayShape | None) -> isl.Map:
        """Returns the map from the iterations of a statement to the elements that an access reaches, one index per
        array dimension."""
        if access.unknown_index_reason and access.base.dimension_sizes and access.base.key in self.written_keys:
            self.widened_accesses.append(WidenedAccess(access.line, access.unknown_index_reason))
        source = _tuple_text(tuple_name, [self.names.iterator_name(loop.iterator.key) for loop in item.loops])
        if shape is None:
            num_dimensions = max(len(access.base.dimension_sizes), 1)
            return self._map_to_whole_array(
                source, num_dimensions, access, "its array has no dimensions that fit all its indices"
            )
        num_dimensions = shape.num_dimensions if access.base.dimension_sizes else 0
        if num_dimensions == 0:
            return self.names.make_map(source, _tuple_text(self.names.array_name(access.base.key), []))
        access = reshape_access(access, shape)
        try:
            unrestricted_map = self._map_exactly(source, item, access)
        except NotAffine as why:
            return self._map_to_whole_array(source, num_dimensions, access, f"an index is not affine: {why.reason}")
        restricted_map = self._restrict_to_rows(unrestricted_map, access, shape)
        if restricted_map is None:
            return self._map_to_whole_array(
                source, num_dimensions, access, f"an index of {access.base.text} may leave its row"
            )
        return restricted_map

    def _map_to_whole_array(self, source: str, num_dimensions: int, access: Access, reason: str) -> isl.Map:
        """Returns the map from a statement's iterations to all elements of an array, and records the reason."""
        if not access.unknown_index_reason and access.base.key in self.written_keys:
            self.widened_accesses.append(WidenedAccess(access.line, reason))
        return self.names.make_map(
            source, _tuple_text(self.names.array_name(access.base.key), _dimension_names(num_dimensions))
        )

    def _map_exactly(self, source: str, item: RegionItem, access: Access) -> isl.Map:
        """Returns the map from a statement's iterations to the accessed elements, projected over the inner loops.
        Raises NotAffine if an index is not affine."""
        inner = [self.names.iterator_name(loop.iterator.key) for loop in access.loops]
        constraints = self.names.loop_constraints(access.loops) + self.names.condition_constraints(access.conditions)
        constraints += self.names.loop_constraints(item.loops)
        constraints += [
            f"a{place} = {self.names.affine_text(index)}"
            for place, index in enumerate(access.indices)
            if index is not None
        ]
        target = _tuple_text(self.names.array_name(access.base.key), _dimension_names(len(access.indices)))
        return self.names.make_map(source, target, constraints, inner)

    # ---- array indices that may leave their rows

    def _restrict_to_rows(self, element_map: isl.Map, access: Access, shape: ArrayShape) -> isl.Map | None:
        """Returns the map if all array indices stay within their rows, possibly after an index is carried to the next
        row, or under a condition on parameters, which is recorded. Returns None otherwise."""
        for dimension in range(shape.num_dimensions - 1, 0, -1):
            length = shape.sizes[dimension - 1]
            if access.indices[dimension] is None or length is None:
                continue
            outside_row, carries = self._outside_row_and_carry_maps(
                element_map, dimension, self.names.affine_text(length)
            )
            maps_with_outside: list[tuple[isl.Map, isl.Map]] = []
            for one in (element_map, *carries):
                one = one if one is element_map else element_map.apply_range(one)
                maps_with_outside.append(
                    (one, one.intersect_params(self.parameter_context).intersect_range(outside_row))
                )
                if maps_with_outside[-1][1].is_empty():
                    break
            else:
                restricted_map = self._restrict_by_condition(maps_with_outside)
                if restricted_map is None:
                    return None
                maps_with_outside.append((restricted_map, restricted_map))
            element_map = maps_with_outside[-1][0]
        return element_map

    def _restrict_by_condition(self, maps_with_outside: Sequence[tuple[isl.Map, isl.Map]]) -> isl.Map | None:
        """Returns the first map whose array indices stay within their rows under a simple condition on parameters,
        which is recorded; None if there is none. Each map comes with its part outside of the rows."""
        for one, outside_part in maps_with_outside:
            condition = self._unbounded_parts(
                outside_part.params().complement().intersect(self.parameter_context).coalesce()
            )
            if not condition.is_empty() and condition.n_basic_set() <= 2:
                self.conditions.append(condition)
                return one
        return None

    def _unbounded_parts(self, condition: isl.Set) -> isl.Set:
        """Returns the parts of a condition on parameters that allow arbitrarily large array sizes and loop extents."""
        large_parameters = self._large_parameters()
        parts = isl.Set.empty(condition.get_space())
        for part in condition.get_basic_sets():
            one = isl.Set.from_basic_set(part)
            if not one.intersect(large_parameters).is_empty():
                parts = parts.union(one)
        return parts

    def _large_parameters(self) -> isl.Set:
        """Returns the parameter values for which all array sizes and loop extents are large; all values if that is
        impossible."""
        names, num_parameters = self.names, len(self.names.parameters)
        if self._cached_large_parameters is None or self._cached_large_parameters[0] != num_parameters:
            name_by_symbol = {keys[0]: name for keys, name in names.parameters.items() if len(keys) == 1}
            constraints = [f"{name} >= 5" for name in names.parameters.values()]
            constraints += [
                f"{name} >= 5*{name_by_symbol[key]}"
                for keys, name in names.parameters.items() if len(keys) > 1 for key in keys if key in name_by_symbol
            ]  # fmt: skip
            loops = [loop for nest in self.region.nests for loop in nest.loops]
            for loop in loops + [one for item in self.region.items for a in item.accesses for one in a.loops]:
                for extent in [upper - lower for upper in loop.upper_bounds for lower in loop.lower_bounds]:
                    if extent.constant is None and not any(names.symbols[key].is_iterator for key in extent.keys):
                        constraints.append(f"{names.affine_text(extent)} >= 5")
            large_parameters = names.parameter_set(list(dict.fromkeys(constraints)))
            self._cached_large_parameters = (
                len(names.parameters),
                names.parameter_set([]) if large_parameters.is_empty() else large_parameters,
            )
        return self._cached_large_parameters[1]

    def _outside_row_and_carry_maps(
        self, element_map: isl.Map, dimension: int, size: str
    ) -> tuple[isl.Set, list[isl.Map]]:
        """Returns the elements whose index in one dimension lies outside of the row, and the maps that carry the index
        to the next or previous row."""
        num_dimensions, name = element_map.dim(isl.dim_type.out), element_map.get_tuple_name(isl.dim_type.out)
        key = (name, dimension, size)
        if key not in self._row_maps_by_dimension:
            dimension_names = _dimension_names(num_dimensions)
            outside_row = self.names.make_set(name, dimension_names, [f"(a{dimension} < 0 or a{dimension} >= {size})"])
            maps = []
            for sign in (1, -1):
                carried = list(dimension_names)
                carried[dimension - 1 : dimension + 1] = (
                    f"a{dimension - 1} - {sign}",
                    f"a{dimension} + {sign} * ({size})",
                )
                maps.append(self.names.make_map(_tuple_text(name, dimension_names), _tuple_text(name, carried)))
            self._row_maps_by_dimension[key] = outside_row, maps
        return self._row_maps_by_dimension[key]


def _dimension_names(num_dimensions: int) -> list[str]:
    """Returns the isl names of an array's dimensions."""
    return [f"a{dimension}" for dimension in range(num_dimensions)]


def _tuple_text(tuple_name: str, dimension_names: Sequence[str]) -> str:
    """Returns an isl tuple with a name and dimensions."""
    return f"{tuple_name}[{', '.join(dimension_names)}]"
