"""Maps the loop iterations and calls of a region to the array elements that they access. An access that is not exactly
known is widened to all elements of its array, and the reason is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import islpy as isl

from nearfield.rewrite.analysis.arrays import ArrayShape, common_array_shape, reshape_access
from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.program import Access, Region, RegionItem
from nearfield.rewrite.model.isl_sets import tuple_text, union_of_maps, union_of_sets
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
    written_keys = {a.base.key for item in region.items for a in item.accesses if a.is_write}
    mapper = _AccessMapper(region, names, parameter_context)
    mapped: dict[tuple[int, Access], _MappedAccess] = {}  # by item number and access, as a read at line 0
    keys_by_kind: dict[bool, dict[tuple[int, Access], None]] = {False: {}, True: {}}  # of reads and of writes
    widened_accesses = []
    for number, item in enumerate(region.items):
        for access in item.accesses:
            if not access.base.dimension_sizes and not access.is_message and access.base.key not in written_keys:
                continue  # a variable that is only read causes no dependence
            key = number, replace(access, is_write=False, line=0)
            if key not in mapped:
                tuple_name, shape = instance_sets[number][0].get_tuple_name(), shape_by_array[access.base.key]
                mapped[key] = mapper.map_access(tuple_name, item, access, shape)
                if mapped[key].widening_reason and access.base.dimension_sizes and access.base.key in written_keys:
                    widened_accesses.append(WidenedAccess(access.line, mapped[key].widening_reason))
            keys_by_kind[access.is_write][key] = None
    reads, writes = (
        union_of_maps(
            mapped[number, access].elements.set_tuple_name(isl.dim_type.in_, instances.get_tuple_name())
            for number, access in keys for instances in instance_sets[number]
        ).coalesce()
        for keys in keys_by_kind.values()
    )  # fmt: skip
    sent = union_of_sets(mapped[key].elements.range() for key in keys_by_kind[False] if key[1].is_message)
    elements_by_access = {key: one.elements.range() for key, one in mapped.items()}
    conditions = tuple(condition for one in mapped.values() for condition in one.conditions)
    return AccessRelations(reads, writes, sent.coalesce(), elements_by_access, conditions, tuple(widened_accesses))


@dataclass(frozen=True)
class _MappedAccess:
    """The map from the iterations of a statement to the elements that an access reaches, which holds under
    `conditions`, and the reason if it is to more elements than the access may reach."""

    elements: isl.Map
    conditions: tuple[isl.Set, ...] = ()
    widening_reason: str = ""


@dataclass(frozen=True)
class _AccessMapper:
    """Maps loop iterations to the array elements that their accesses reach."""

    region: Region
    names: IslNames
    parameter_context: isl.Set
    _row_maps: dict[tuple[str, int, str], tuple[isl.Set, list[isl.Map]]] = field(default_factory=dict)  # made so far

    def map_access(self, tuple_name: str, item: RegionItem, access: Access, shape: ArrayShape | None) -> _MappedAccess:
        """Returns the map from the iterations of a statement to the elements that an access reaches, one index per
        array dimension."""
        source = tuple_text(tuple_name, [self.names.iterator_name(loop.iterator.key) for loop in item.loops])
        if shape is None:
            num_dimensions = max(len(access.base.dimension_sizes), 1)
            reason = "its array has no dimensions that fit all its indices"
            return self._map_to_whole_array(source, access, num_dimensions, reason)
        if not access.base.dimension_sizes or not shape.num_dimensions:
            scalar = self.names.make_map(source, tuple_text(self.names.array_name(access.base.key), []))
            return _MappedAccess(scalar, (), access.unknown_index_reason)
        access = reshape_access(access, shape)
        try:
            elements = self._map_exactly(source, item, access)
        except NotAffine as why:
            reason = f"an index is not affine: {why.reason}"
            return self._map_to_whole_array(source, access, shape.num_dimensions, reason)
        restricted, conditions = self._restrict_to_rows(elements, access, shape)
        if restricted is None:
            reason = f"an index of {access.base.text} may leave its row"
            return self._map_to_whole_array(source, access, shape.num_dimensions, reason, conditions)
        return _MappedAccess(restricted, conditions, access.unknown_index_reason)

    def _map_to_whole_array(
        self, source: str, access: Access, num_dimensions: int, reason: str, conditions: tuple[isl.Set, ...] = ()
    ) -> _MappedAccess:
        """Returns the map from a statement's iterations to all elements of an array, for a reason."""
        target = tuple_text(self.names.array_name(access.base.key), _dimension_names(num_dimensions))
        return _MappedAccess(self.names.make_map(source, target), conditions, access.unknown_index_reason or reason)

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
        target = tuple_text(self.names.array_name(access.base.key), _dimension_names(len(access.indices)))
        return self.names.make_map(source, target, constraints, inner)

    # ---- array indices that may leave their rows

    def _restrict_to_rows(
        self, elements: isl.Map, access: Access, shape: ArrayShape
    ) -> tuple[isl.Map | None, tuple[isl.Set, ...]]:
        """Returns the map if all array indices stay within their rows, possibly after an index is carried to the next
        row, and the conditions on parameters under which they do. Returns None instead of the map if they may not."""
        conditions: tuple[isl.Set, ...] = ()
        for dimension in range(shape.num_dimensions - 1, 0, -1):
            length = shape.sizes[dimension - 1]
            if access.indices[dimension] is None or length is None:
                continue
            outside_row, carries = self._row_maps_of(elements, dimension, self.names.affine_text(length))
            candidates: list[tuple[isl.Map, isl.Map]] = []  # each with its part outside of the rows
            for one in chain([elements], map(elements.apply_range, carries)):
                outside_part = one.intersect_params(self.parameter_context).intersect_range(outside_row)
                candidates.append((one, outside_part))
                if outside_part.is_empty():
                    elements = one
                    break
            else:
                found = self._find_condition(candidates)
                if found is None:
                    return None, conditions
                elements, conditions = found[0], (*conditions, found[1])
        return elements, conditions

    def _find_condition(self, candidates: Sequence[tuple[isl.Map, isl.Map]]) -> tuple[isl.Map, isl.Set] | None:
        """Returns the first map whose array indices stay within their rows under a simple condition on parameters, and
        the condition; None if there is none. Each map comes with its part outside of the rows."""
        for one, outside_part in candidates:
            inside = outside_part.params().complement().intersect(self.parameter_context).coalesce()
            condition = self._unbounded_parts(inside)
            if not condition.is_empty() and condition.n_basic_set() <= 2:
                return one, condition
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
        names = self.names
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
        return names.parameter_set([]) if large_parameters.is_empty() else large_parameters

    def _row_maps_of(self, elements: isl.Map, dimension: int, length: str) -> tuple[isl.Set, list[isl.Map]]:
        """Returns the elements whose index in one dimension lies outside of the row, and the maps that carry the index
        to the next or previous row."""
        name, dims = elements.get_tuple_name(isl.dim_type.out), _dimension_names(elements.dim(isl.dim_type.out))
        if (name, dimension, length) not in self._row_maps:
            carries = []
            for sign in (1, -1):
                carried = list(dims)
                carried[dimension - 1 : dimension + 1] = (
                    f"a{dimension - 1} - {sign}",
                    f"a{dimension} + {sign} * ({length})",
                )
                carries.append(self.names.make_map(tuple_text(name, dims), tuple_text(name, carried)))
            outside_row = self.names.make_set(name, dims, [f"(a{dimension} < 0 or a{dimension} >= {length})"])
            self._row_maps[name, dimension, length] = outside_row, carries
        return self._row_maps[name, dimension, length]


def _dimension_names(num_dimensions: int) -> list[str]:
    """Returns the isl names of an array's dimensions."""
    return [f"a{dimension}" for dimension in range(num_dimensions)]
