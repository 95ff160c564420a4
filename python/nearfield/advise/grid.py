"""Derives the grid of a program's halo exchange from its messages: the decomposition over ranks, and the number of
cells.

The inputs are a Cartesian communicator and the messages between neighbouring ranks. The lengths of the faces give the
cells, and the distance between the addresses of a rank's lowest and highest face gives the rank's cells in that
dimension. Fields with one layer of ghost cells, in C order, are supported; for others no grid is derived."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nearfield._native import advise as native
from nearfield.advise.run import MessageGroup, ObservedRun

PROC_NULL = -2
FaceMessages = dict[
    tuple[int, int, bool], MessageGroup
]  # (dimension, side (0: low, 1: high), whether the face is sent) -> messages


@dataclass(frozen=True)
class Grid:
    """The grid of a halo exchange: its cells, its decomposition over ranks, and the messages that exchange faces."""

    extents: tuple[int, ...]  # cells of the whole grid in each dimension
    dims: tuple[int, ...]  # ranks along each dimension
    periodic: tuple[bool, ...]
    element_bytes: int
    num_exchanges: int  # number of exchanges by the rank with the largest number
    messages: list[MessageGroup]  # messages of all ranks


def derive_grids(run: ObservedRun) -> list[Grid]:
    """Returns the grids derived from a run's halo exchanges, at most one per Cartesian communicator."""
    by_context: dict[int, dict[int, tuple[int, native.Topology]]] = defaultdict(dict)
    for world_rank, rank in enumerate(run.ranks):
        for topology in rank.result.topologies:
            by_context[topology.context][topology.rank] = world_rank, topology
    found = (_derive_grid(run, context, members) for context, members in by_context.items())
    return [grid for grid in found if grid]


def _derive_grid(run: ObservedRun, context: int, members: dict[int, tuple[int, native.Topology]]) -> Grid | None:
    """Returns the grid of one Cartesian communicator; None if it cannot be derived. `members` maps each rank of the
    communicator to its world rank and its topology."""
    topologies = {rank: topology for rank, (_, topology) in members.items()}
    decomposition = _find_decomposition(topologies)
    if not decomposition:
        return None
    dims, periodic = decomposition
    faces = {rank: _face_messages(run, world, context, topology) for rank, (world, topology) in members.items()}
    nonempty_faces = [one for one in faces.values() if one]
    if not nonempty_faces:
        return None
    element_bytes = min(8, *(m.counts.piece_bytes for one in nonempty_faces for m in one.values()))
    local_extents = _cells_per_rank(nonempty_faces, dims, element_bytes)
    if not local_extents or element_bytes < 4:
        return None
    extents = tuple(cells * ranks for cells, ranks in zip(local_extents, dims, strict=True))
    messages = [m for one in nonempty_faces for m in one.values() if m.counts.sends]
    return Grid(extents, dims, periodic, element_bytes, max(m.counts.messages for m in messages), messages)


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
        length, rank = 1, topologies[0].sources[2 * dimension + 1]
        while rank > 0 and length <= len(topologies):
            length, rank = length + 1, topologies[rank].sources[2 * dimension + 1]
        dims.append(length)
        periodic.append(rank == 0)
    ranks = 1
    for count in dims:
        ranks *= count
    return (tuple(dims), tuple(periodic)) if ranks == len(topologies) else None


def _face_messages(run: ObservedRun, world_rank: int, context: int, topology: native.Topology) -> FaceMessages:
    """Returns the messages of a rank with its neighbours, by face. Returns {} if the rank also communicates with other
    ranks, or if one rank is its neighbour on two sides."""
    sides: dict[int, tuple[int, int]] = {}
    for place, neighbor in enumerate(topology.sources):
        if neighbor in sides:
            return {}  # one rank is both the lower and the upper neighbour
        if neighbor != PROC_NULL and neighbor != topology.rank:
            sides[neighbor] = place // 2, place % 2
    faces: FaceMessages = {}
    for one in run.messages:
        if one.rank != world_rank or one.counts.context != context:
            continue
        side = sides.get(one.counts.peer)
        if side is None:
            return {}
        key = (*side, one.counts.sends)
        if key not in faces or faces[key].counts.messages < one.counts.messages:
            faces[key] = one
    return faces


def _cells_per_rank(faces: list[FaceMessages], dims: tuple[int, ...], element_bytes: int) -> tuple[int, ...] | None:
    """Returns the number of cells of a rank along each dimension; None if it cannot be derived."""
    sizes = {key[0]: one.counts.bytes // element_bytes for of_rank in faces for key, one in of_rank.items()}
    split_dimensions = [dimension for dimension, ranks in enumerate(dims) if ranks > 1]
    if len(dims) == 2:
        return _cells_per_rank_2d(faces, sizes, split_dimensions)
    if split_dimensions == [0, 1, 2]:
        cells = round((sizes[0] * sizes[1] * sizes[2]) ** 0.5)
        return cells // sizes[0], cells // sizes[1], cells // sizes[2]
    if split_dimensions == [0, 1]:
        row = min(m.counts.piece_bytes for f in faces for key, m in f.items() if key[0] == 1) // element_bytes
        return sizes[1] // row, sizes[0] // row, row
    return None  # a face of a slab does not determine the length of its rows


def _cells_per_rank_2d(
    faces: list[FaceMessages], sizes: dict[int, int], split_dimensions: list[int]
) -> tuple[int, ...] | None:
    """Returns the number of cells of a rank along both dimensions of a 2-D grid; None if it cannot be derived."""
    if split_dimensions == [0, 1]:
        return sizes[1], sizes[0]
    if len(split_dimensions) != 1 or split_dimensions[0] not in sizes:
        return None
    cells = next((found for of_rank in faces if (found := _cells_between_faces(of_rank, split_dimensions[0]))), None)
    if not cells:
        return None
    return (cells, sizes[0]) if split_dimensions[0] == 0 else (sizes[1], cells)


def _cells_between_faces(faces: FaceMessages, dimension: int) -> int | None:
    """Returns the number of a rank's cells from the low to the high side of a dimension, computed from the addresses of
    the ghost cells and of the cells next to them; None if these addresses are inconsistent."""
    keys = [(dimension, side, sends) for side in (0, 1) for sends in (False, True)]
    if not all(key in faces for key in keys):
        return None
    ghost_low, low, ghost_high, high = (faces[key].counts.address for key in keys)
    step = low - ghost_low
    if step <= 0 or ghost_high - high != step or (high - low) % step:
        return None
    return int((high - low) // step + 1)
