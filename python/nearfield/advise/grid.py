"""Derives the grid of a program's halo exchange: the decomposition over ranks, and the number of cells.

The inputs are a Cartesian communicator and the messages between neighbouring ranks. The lengths of the faces give the
cells, and the distance between the addresses of a rank's lowest and highest face gives the rank's cells in that
dimension. Fields with one layer of ghost cells, in C order, are supported; for others no grid is derived."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nearfield._native import advise as native
from nearfield.advise.run import MessageGroup, ObservedRun

PROC_NULL = -2
Faces = dict[tuple[int, int, bool], MessageGroup]  # by dimension, side (0: low, 1: high) and whether the face is sent


@dataclass(frozen=True)
class Grid:
    """The grid of a halo exchange: its cells, its decomposition over ranks, and the messages that exchange faces."""

    extents: tuple[int, ...]  # cells of the whole grid in each dimension
    dims: tuple[int, ...]  # ranks along each dimension
    periodic: tuple[bool, ...]
    element_bytes: int
    exchanges: int  # number of exchanges by the rank with the largest number
    messages: list[MessageGroup]  # messages of all ranks


def derive_grids(run: ObservedRun) -> list[Grid]:
    """Returns the grids derived from a run's halo exchanges, at most one per Cartesian communicator."""
    by_context: dict[int, dict[int, tuple[int, native.Topology]]] = defaultdict(dict)
    for world_rank, rank in enumerate(run.ranks):
        for topology in rank.found.topologies:
            by_context[topology.context][topology.rank] = world_rank, topology
    found = (_derive_grid(run, context, members) for context, members in by_context.items())
    return [grid for grid in found if grid]


def _derive_grid(run: ObservedRun, context: int, members: dict[int, tuple[int, native.Topology]]) -> Grid | None:
    """Returns the grid of one Cartesian communicator; None if it cannot be derived. `members` are the world rank and
    the topology of each rank."""
    topologies = {rank: topology for rank, (_, topology) in members.items()}
    split = _find_decomposition(topologies)
    if not split:
        return None
    dims, periodic = split
    faces = {rank: _face_messages(run, world, context, topology) for rank, (world, topology) in members.items()}
    known = [one for one in faces.values() if one]
    if not known:
        return None
    element = min(8, *(m.found.piece_bytes for one in known for m in one.values()))
    local = _cells_per_rank(known, dims, element)
    if not local or element < 4:
        return None
    extents = tuple(cells * ranks for cells, ranks in zip(local, dims, strict=True))
    messages = [m for one in known for m in one.values() if m.found.sends]
    return Grid(extents, dims, periodic, element, max(m.found.messages for m in messages), messages)


def _find_decomposition(topologies: dict[int, native.Topology]) -> tuple[tuple[int, ...], tuple[bool, ...]] | None:
    """Returns the number of ranks along each dimension, and which dimensions are periodic; None if the topology is not
    Cartesian."""
    first = topologies.get(0)
    if not first or list(first.sources) != list(first.destinations) or len(topologies) != len(first.world):
        return None
    if len(first.sources) % 2 or not 2 <= len(first.sources) // 2 <= 3:
        return None
    dims, periodic = [], []
    for dimension in range(len(first.sources) // 2):
        length, at = 1, topologies[0].sources[2 * dimension + 1]
        while at > 0 and length <= len(topologies):
            length, at = length + 1, topologies[at].sources[2 * dimension + 1]
        dims.append(length)
        periodic.append(at == 0)
    ranks = 1
    for count in dims:
        ranks *= count
    return (tuple(dims), tuple(periodic)) if ranks == len(topologies) else None


def _face_messages(run: ObservedRun, world_rank: int, context: int, topology: native.Topology) -> Faces:
    """Returns the messages of a rank with its neighbours, by face. Returns none if the rank also sends to others, or if
    one rank is its neighbour on two sides."""
    sides: dict[int, tuple[int, int]] = {}
    for place, neighbour in enumerate(topology.sources):
        if neighbour in sides:
            return {}  # one rank is both the lower and the upper neighbour
        if neighbour != PROC_NULL and neighbour != topology.rank:
            sides[neighbour] = place // 2, place % 2
    found: Faces = {}
    for one in run.messages:
        if one.rank != world_rank or one.found.context != context:
            continue
        side = sides.get(one.found.peer)
        if side is None:
            return {}
        key = (*side, one.found.sends)
        if key not in found or found[key].found.messages < one.found.messages:
            found[key] = one
    return found


def _cells_per_rank(faces: list[Faces], dims: tuple[int, ...], element: int) -> tuple[int, ...] | None:
    """Returns the number of cells of a rank along each dimension; None if it cannot be derived."""
    sizes = {key[0]: one.found.bytes // element for of_rank in faces for key, one in of_rank.items()}
    cut = [dimension for dimension, ranks in enumerate(dims) if ranks > 1]
    if len(dims) == 2:
        return _cells_per_rank_2d(faces, sizes, cut)
    if cut == [0, 1, 2]:
        cells = round((sizes[0] * sizes[1] * sizes[2]) ** 0.5)
        return cells // sizes[0], cells // sizes[1], cells // sizes[2]
    if cut == [0, 1]:
        row = min(m.found.piece_bytes for f in faces for key, m in f.items() if key[0] == 1) // element
        return sizes[1] // row, sizes[0] // row, row
    return None  # a face of a slab does not determine the length of its rows


def _cells_per_rank_2d(faces: list[Faces], sizes: dict[int, int], cut: list[int]) -> tuple[int, ...] | None:
    """Returns the number of cells of a rank along both dimensions of a 2-D grid; None if it cannot be derived."""
    if cut == [0, 1]:
        return sizes[1], sizes[0]
    if len(cut) != 1 or cut[0] not in sizes:
        return None
    cells = next((found for of_rank in faces if (found := _cells_between_faces(of_rank, cut[0]))), None)
    if not cells:
        return None
    return (cells, sizes[0]) if cut[0] == 0 else (sizes[1], cells)


def _cells_between_faces(faces: Faces, dimension: int) -> int | None:
    """Returns the number of a rank's cells from the low to the high side of a dimension, from the addresses of ghost
    cells and the adjacent cells; None if the addresses do not fit."""
    keys = [(dimension, side, sends) for side in (0, 1) for sends in (False, True)]
    if not all(key in faces for key in keys):
        return None
    ghost_low, low, ghost_high, high = (faces[key].found.address for key in keys)
    step = low - ghost_low
    if step <= 0 or ghost_high - high != step or (high - low) % step:
        return None
    return int((high - low) // step + 1)
