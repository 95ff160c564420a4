"""Exchanges ghost cells of NumPy arrays that the caller owns."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfield.base.errors import UsageError
from nearfield.halo.field import nf_type_number
from nearfield.halo.interface import ArrayDescription, ClosingContext, raise_on_error

if TYPE_CHECKING:
    from nearfield.halo.grid import Grid


class Exchange(ClosingContext):
    """A halo exchange that fills the ghost cells of NumPy arrays. An array has count + low + high cells per dimension,
    any strides, and optionally one more axis for the components of a cell. Calling the object exchanges; `start` and
    `finish` allow work in between. The object keeps the arrays alive; they must not be resized. Created by
    `Grid.exchange_of`. Creation and close are collective; the end of a `with` block closes it. Otherwise it is freed
    with its grid, not by garbage collection, which happens at a different time on each rank."""

    def __init__(self, grid: Grid, arrays: Sequence[np.ndarray[Any, Any]], protocol: str) -> None:
        self._grid, self._library, self.arrays = grid, grid._library, list(arrays)
        descriptions = (ArrayDescription * len(self.arrays))(*(_describe_array(grid, array) for array in self.arrays))
        self.handle = c_void_p()
        code = self._library.nf_exchange_create(
            grid.handle, descriptions, len(self.arrays), protocol.encode(), byref(self.handle)
        )
        raise_on_error(self._library, code)
        self.protocol = self._library.nf_exchange_protocol(self.handle).decode()
        self._run = self._library.nf_exchange_run
        grid._exchanges.add(self)

    def close(self) -> None:
        """Frees the exchange. Collective. Raises HaloError between start and finish."""
        raise_on_error(self._library, self._library.nf_exchange_free(byref(self.handle)))
        self.drop_array_references()

    def drop_array_references(self) -> None:
        """Drops the references to the arrays. Called when the library has freed the exchange or its whole grid."""
        self.handle.value = None
        self.arrays.clear()

    def __call__(self) -> None:
        if code := self._run(self.handle):
            raise_on_error(self._library, code)

    def start(self) -> None:
        raise_on_error(self._library, self._library.nf_exchange_start(self.handle))
        self._grid._started = self  # keeps the arrays alive until finish

    def finish(self) -> None:
        raise_on_error(self._library, self._library.nf_exchange_finish(self.handle))

    def accumulate(self) -> None:
        """Exchanges in reverse: sends ghost cells to their owners, which add them to their own cells."""
        raise_on_error(self._library, self._library.nf_exchange_accumulate(self.handle))


def _describe_array(grid: Grid, array: np.ndarray[Any, Any]) -> ArrayDescription:
    dimensions = len(grid.extents)
    wanted = tuple(low + n + high for n, (low, high) in zip(grid.count, grid.halo, strict=True))
    if array.shape[:dimensions] != wanted or array.ndim > dimensions + 1:
        raise UsageError(
            f"an array of shape {array.shape} does not hold this rank's cells",
            f"with ghost cells they have shape {wanted}; grid.empty(dtype) makes such an array",
        )
    if not array.flags.writeable:
        raise UsageError("an array cannot be written to", "pass a copy")
    components = array.shape[dimensions] if array.ndim > dimensions else 1
    if array.ndim > dimensions and array.strides[dimensions] != array.itemsize:
        raise UsageError("components of a cell must be next to each other", "make the last axis contiguous")
    lows = [low for low, _ in grid.halo]
    first = array.ctypes.data + sum(s * low for s, low in zip(array.strides, lows, strict=False))
    description = ArrayDescription(first=first, type=nf_type_number(array.dtype), components=components)
    for d in range(dimensions):
        description.strides_bytes[d] = array.strides[d]
    return description
