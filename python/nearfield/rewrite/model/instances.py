"""Set operations on the iterations of a region's loop nests."""

from __future__ import annotations

import islpy as isl

Sets = dict[int, isl.Set]  # iterations of each loop nest, by item number in the region
ChunkMaps = dict[int, isl.Map]  # by item number: from a loop iteration to the chunk with which it is executed


def union_of_iterations(*several: Sets) -> Sets:
    """Returns the union of several sets of loop iterations, nest by nest."""
    result: Sets = {}
    for sets in several:
        for number, some in sets.items():
            result[number] = result[number].union(some).coalesce() if number in result else some
    return result


def common_iterations(one: Sets, other: Sets) -> Sets:
    """Returns the loop iterations that are in both sets, nest by nest."""
    return {number: some.intersect(other[number]).coalesce() for number, some in one.items()}


def remaining_iterations(one: Sets, other: Sets) -> Sets:
    """Returns the loop iterations of the first set that are not in the second one, nest by nest."""
    return {
        number: some.subtract(other[number]).coalesce() if number in other else some for number, some in one.items()
    }


def iterations_in_chunk_loops(*several: ChunkMaps) -> Sets:
    """Returns the loop iterations that chunk loops execute, from the maps of iterations to chunks."""
    return union_of_iterations(*({number: chunk.domain() for number, chunk in pieces.items()} for pieces in several))


def has_no_iterations(sets: Sets) -> bool:
    """Returns whether a set has no loop iterations in any nest."""
    return all(bool(some.is_empty()) for some in sets.values())
