"""Makes isl maps of expressions, and unions of isl sets and maps from several isl spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import islpy as isl


def tuple_text(name: str, components: Iterable[str]) -> str:
    """Returns an isl tuple with a name and components, which may be expressions."""
    return f"{name}[{', '.join(components)}]"


def map_to_times(name: str, dims: Sequence[str], times: Iterable[str]) -> isl.Map:
    """Returns the map from tuples with a name and dimensions to their execution times, which are expressions of the
    dimensions."""
    return isl.Map(f"{{ {tuple_text(name, dims)} -> {tuple_text('', times)} }}")


def union_of_sets(sets: Iterable[isl.Set]) -> isl.UnionSet:
    """Returns the union of sets from several isl spaces."""
    result = isl.UnionSet("{ }")
    for one in sets:
        result = result.union(isl.UnionSet.from_set(one))
    return result


def union_of_maps(maps: Iterable[isl.Map]) -> isl.UnionMap:
    """Returns the union of maps between several isl spaces."""
    result = isl.UnionMap("{ }")
    for one in maps:
        result = result.union(isl.UnionMap.from_map(one))
    return result


def sets_of(union: isl.UnionSet) -> Iterator[isl.Set]:
    """Yields the sets of a union, one for each isl space."""
    set_list = union.get_set_list()
    for index in range(set_list.n_set()):
        yield set_list.get_at(index)


def maps_of(union: isl.UnionMap) -> Iterator[isl.Map]:
    """Yields the maps of a union, one for each pair of isl spaces."""
    map_list = union.get_map_list()
    for index in range(map_list.n_map()):
        yield map_list.get_at(index)
