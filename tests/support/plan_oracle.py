"""Computes what an exchange costs the slowest rank by walking over every cell of every rank's halo: slow, and written
apart from src/halo. For the tests of plans."""

from __future__ import annotations

from itertools import product
from typing import Any

from nearfield._native import Link, Plan, PlanRequest

Direction = tuple[int, ...]


def slowest_ns(request: PlanRequest, plan: Plan) -> float:
    ranks = product(*(range(n) for n in plan.dims))
    return max(exchange_ns(request, plan, rank) for rank in ranks)


def exchange_ns(request: PlanRequest, plan: Plan, rank: Direction) -> float:
    """Returns the exchange time of the rank at these coordinates: the sum over the messages that it waits for."""
    box = [_cells(request.extents[d], plan.dims[d], rank[d]) for d in range(3)]
    total = 0.0
    for direction, addresses in halo_addresses(request, box).items():
        axes = sum(step != 0 for step in direction)
        neighbour = _neighbour(request, plan, rank, direction)
        if neighbour is None or neighbour == rank or (axes > 1 and not request.corners):
            continue
        if any(direction[d] != 0 and plan.dims[d] == 1 for d in range(3)):
            continue  # along such a dimension the rank is its own neighbour
        near = all(a // n == b // n for a, b, n in zip(rank, neighbour, plan.node_dims, strict=True))
        inside = request.costs.in_place or request.costs.same_node
        total += message_ns(inside if near else request.costs.network, addresses, request.element_bytes)
    return total


def halo_addresses(request: PlanRequest, box: list[int]) -> dict[Direction, list[int]]:
    """Returns direction -> addresses (in elements) of the halo's cells there, in an array with its halo around it."""
    array = [box[d] + sum(request.halo[d]) for d in range(3)]
    found: dict[Direction, list[int]] = {}
    for cell in product(*(range(n) for n in array)):
        inner = [c - request.halo[d][0] for d, c in enumerate(cell)]
        direction = tuple(-1 if i < 0 else int(i >= n) for i, n in zip(inner, box, strict=True))
        if any(direction):
            found.setdefault(direction, []).append((cell[0] * array[1] + cell[1]) * array[2] + cell[2])
    return found


def message_ns(link: Link, addresses: list[int], element_bytes: int) -> float:
    starts = [a for a in addresses if a - 1 not in set(addresses)]
    size = len(addresses) * element_bytes
    load = link.load_factor if size >= link.load_from_bytes else 1
    time = link.latency_ns + load * size * link.ns_per_byte
    if len(starts) > 1:
        stride = (starts[1] - starts[0]) * element_bytes
        gap = stride - size // len(starts)
        time += len(starts) * 8 * max(0.0, _strided_ns_per_byte(link, stride, gap) - link.ns_per_byte)
    return time


def _strided_ns_per_byte(link: Link, stride: int, gap: int) -> float:
    banks = [m for m in link.banked if stride % m == 0]
    if banks:
        return link.banked[max(banks)]
    points: list[tuple[int, Any]] = sorted(link.strided.items())
    x = min(max(gap + 8, points[0][0]), points[-1][0])
    for (a, low), (b, high) in zip(points, points[1:], strict=False):
        if a <= x <= b:
            return low + (high - low) * (x - a) / (b - a)
    return points[0][1]


def _cells(extent: int, boxes: int, coordinate: int) -> int:
    return len(range(coordinate, extent, boxes))


def _neighbour(request: PlanRequest, plan: Plan, rank: Direction, direction: Direction) -> Direction | None:
    there = []
    for d, step in enumerate(direction):
        c = rank[d] + step
        if not 0 <= c < plan.dims[d] and not request.periodic[d][step > 0]:
            return None
        there.append(c % plan.dims[d])
    return tuple(there)
