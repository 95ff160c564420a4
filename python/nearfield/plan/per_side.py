"""Parses values for the low and high sides of a grid."""

from __future__ import annotations

from typing import Any

from nearfield.base.errors import UsageError


def parse_per_side(name: str, value: Any, dimensions: int) -> tuple[tuple[int, int], ...]:
    """Returns (low, high) per dimension. `value` is one value for all sides, or per dimension a value or (low, high).
    Raises UsageError for a wrong number of dimensions or sides."""
    value_per_dimension = [value] * dimensions if isinstance(value, int) else list(value)
    if len(value_per_dimension) != dimensions:
        raise UsageError(f"{name} is given for {len(value_per_dimension)} dimensions, but the grid has {dimensions}")
    pairs = [tuple(one) if isinstance(one, (tuple, list)) else (one, one) for one in value_per_dimension]
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"{name} has two sides in each dimension, low and high")
    return tuple((int(low), int(high)) for low, high in pairs)
