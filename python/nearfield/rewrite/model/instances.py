"""Operations on the instances of the nests of a region."""

from __future__ import annotations

import islpy as isl

Sets = dict[int, isl.Set]  # instances of each nest, by item number
ChunkMaps = dict[int, isl.Map]  # for each nest, by item number, the chunk with which an instance is executed


def union_of(*several: Sets) -> Sets:
    """Returns the union of the instances."""
    result: Sets = {}
    for sets in several:
        for number, some in sets.items():
            result[number] = result[number].union(some).coalesce() if number in result else some
    return result


def intersection(one: Sets, other: Sets) -> Sets:
    """Returns the instances in both sets."""
    return {number: some.intersect(other[number]).coalesce() for number, some in one.items()}


def difference(one: Sets, other: Sets) -> Sets:
    """Returns the instances of the first that are not in the second."""
    return {
        number: some.subtract(other[number]).coalesce() if number in other else some for number, some in one.items()
    }


def executed_instances(*several: ChunkMaps) -> Sets:
    """Returns the instances that chunk loops execute."""
    return union_of(*({number: chunk.domain() for number, chunk in pieces.items()} for pieces in several))


def is_empty(sets: Sets) -> bool:
    """Returns whether there are no instances."""
    return all(bool(some.is_empty()) for some in sets.values())
