"""Set operations on the iterations of a region's loop nests."""

from __future__ import annotations

import islpy as isl

IterationsByNest = dict[int, isl.Set]  # iterations of each loop nest, by item number in the region
ChunkMapsByNest = dict[int, isl.Map]  # by item number: from a loop iteration to the chunk with which it is executed


def union_of_iterations(*iteration_sets: IterationsByNest) -> IterationsByNest:
    """Returns the union of several sets of loop iterations, nest by nest."""
    result: IterationsByNest = {}
    for sets in iteration_sets:
        for number, some in sets.items():
            result[number] = result[number].union(some).coalesce() if number in result else some
    return result


def common_iterations(first: IterationsByNest, second: IterationsByNest) -> IterationsByNest:
    """Returns the loop iterations that are in both sets, nest by nest."""
    return {number: some.intersect(second[number]).coalesce() for number, some in first.items()}


def remaining_iterations(iterations: IterationsByNest, removed: IterationsByNest) -> IterationsByNest:
    """Returns the loop iterations of the first set that are not in the second one, nest by nest."""
    return {
        number: some.subtract(removed[number]).coalesce() if number in removed else some
        for number, some in iterations.items()
    }


def iterations_in_chunk_loops(*chunk_maps: ChunkMapsByNest) -> IterationsByNest:
    """Returns the loop iterations that chunk loops execute, from the maps of iterations to chunks."""
    return union_of_iterations(*({number: chunk.domain() for number, chunk in pieces.items()} for pieces in chunk_maps))


def has_no_iterations(iterations: IterationsByNest) -> bool:
    """Returns whether a set has no loop iterations in any nest."""
    return all(bool(some.is_empty()) for some in iterations.values())
