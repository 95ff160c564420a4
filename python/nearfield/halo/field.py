"""Provides the memory of a field as NumPy arrays."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfield.base.errors import UsageError
from nearfield.halo.interface import FIELD_GHOSTED, FIELD_IN_PLACE, TYPE_NUMBER_BY_NAME, raise_on_error

if TYPE_CHECKING:
    from nearfield.halo.grid import Grid


def nf_type_number(dtype: np.dtype[Any]) -> int:
    """Returns the nf_type number (nearfield/halo.h) of a NumPy type. Raises UsageError for an unsupported type."""
    if dtype.str[1:] not in TYPE_NUMBER_BY_NAME or dtype.byteorder == ">":
        raise UsageError(
            f"fields cannot hold {dtype}", f"take one of {', '.join(np.dtype(t).name for t in TYPE_NUMBER_BY_NAME)}"
        )
    return TYPE_NUMBER_BY_NAME[dtype.str[1:]]


class Field:
    """A field of a grid: one value per cell, or `components` values along a last axis. Created by `Grid.field`; valid
    as long as its grid. Arrays: `own` has the cells of this rank, `all` also its ghost cells."""

    def __init__(self, grid: Grid, dtype: Any, components: int, ghosted: bool) -> None:
        self._grid, self._library = grid, grid._library
        self.dtype = np.dtype(dtype)
        self.handle = c_void_p()
        storage = FIELD_GHOSTED if ghosted else FIELD_IN_PLACE
        code = self._library.nf_field_create(
            grid.handle, nf_type_number(self.dtype), components, storage, byref(self.handle)
        )
        raise_on_error(self._library, code)
        self.in_place = bool(self._library.nf_field_in_place(self.handle))
        self.all = self._map_array(components)
        lows, counts = [low for low, _ in grid.halo], grid.count
        self.own = self.all[tuple(slice(low, low + n) for low, n in zip(lows, counts, strict=True))]

    def _map_array(self, components: int) -> np.ndarray[Any, Any]:
        """Returns a NumPy view of the cells of this rank with ghost cells; index 0 is the first ghost cell of each
        dimension."""
        dimensions = len(self._grid.extents)
        strides = (c_int64 * 3)()
        self._library.nf_field_strides(self.handle, strides)
        cell = list(strides[:dimensions])
        shape = [low + n + high for n, (low, high) in zip(self._grid.count, self._grid.halo, strict=True)]
        if 0 in self._grid.count:
            shape = [0] * dimensions  # a rank without cells has no ghost cells
        lows = [low for low, _ in self._grid.halo]
        first = self._library.nf_field_data(self.handle) - sum(s * low for s, low in zip(cell, lows, strict=True))
        if components > 1:
            shape, cell = [*shape, components], [*cell, self.dtype.itemsize]
        length = sum(s * (n - 1) for s, n in zip(cell, shape, strict=True)) + self.dtype.itemsize if all(shape) else 0
        memory = memoryview((ctypes.c_char * length).from_address(first))
        cells: np.ndarray[Any, Any] = np.ndarray(shape, self.dtype, buffer=memory, strides=cell)
        return cells

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the cells of this rank, without ghost cells."""
        return self.own.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.own, dtype=dtype, copy=copy)

    def ready(self) -> None:
        """Starts a phase with this field: from now on, neighbours may read the cells of this rank."""
        self._grid.start(self)

    def wait(self) -> None:
        """Completes the phase: waits until this rank may read the cells of its neighbours."""
        self._grid.finish()
