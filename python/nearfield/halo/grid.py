"""A grid of cells that is decomposed over the ranks of a communicator.

A grid creates its fields and exchanges, and these hold their grid. So `field` and `exchange` import this module, for
their annotations only, though it imports them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import byref, c_int, c_void_p, sizeof
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from nearfield.base.errors import UsageError
from nearfield.halo.exchange import Exchange
from nearfield.halo.field import Field
from nearfield.halo.interface import ClosingContext, GridInfo, GridOptions, raise_on_error
from nearfield.halo.library import get_communicator, load_halo_library
from nearfield.plan.per_side import parse_per_side

if TYPE_CHECKING:
    from mpi4py import MPI

    from nearfield._native import Plan

Sides = Sequence[int | tuple[int, int]]


class Grid(ClosingContext):
    """A box of cells, decomposed into one part per rank. Creation and close are collective; the end of a `with` block
    closes the grid. After that, the arrays of its fields must not be used."""

    def __init__(
        self,
        extents: Sequence[int],
        *,
        halo: int | Sides = 1,
        periodic: bool | Sequence[bool | tuple[bool, bool]] = False,
        corners: bool = True,
        dims: Sequence[int] | None = None,
        reorder: bool = True,
        protocol: str = "auto",
        limit_s: float = 0.0,
        costs: str | os.PathLike[str] | None = None,
        comm: MPI.Comm | None = None,
    ) -> None:
        """`extents`: cells of the whole grid per dimension, the slowest-varying first. `halo`: width of the ghost
        cells, one number for all sides, or per dimension a number or (low, high). `periodic`: whether sides are
        periodic, in the same form. `corners`: also fill ghost cells beyond edges and corners, for box stencils. `dims`:
        ranks per dimension; the library chooses those that are 0. `protocol`: one of `protocols()`. `limit_s`: maximum
        seconds to wait for a living neighbour (0: ten minutes). `costs`: name of a costs file (default:
        NEARFIELD_HALO_COSTS, otherwise built-in costs). `comm`: communicator; by default, all ranks."""
        comm = get_communicator(comm)
        self.handle = c_void_p()
        self._library = load_halo_library()
        self.extents = tuple(int(n) for n in extents)
        dimensions = len(self.extents)
        if not 1 <= dimensions <= 3:
            raise UsageError(f"a grid has 1 to 3 dimensions, not {dimensions}")
        if dims is not None and len(dims) != dimensions:
            raise UsageError(f"dims is given for {len(dims)} dimensions, but the grid has {dimensions}")
        self.halo = parse_per_side("halo", halo, dimensions)
        self._requested_periodic, self._requested_dims = parse_per_side("periodic", periodic, dimensions), dims
        options = GridOptions()
        raise_on_error(self._library, self._library.nf_grid_options_init(byref(options), sizeof(options)))
        options.dimensions, options.corners, options.reorder = dimensions, corners, reorder
        options.protocol, options.limit_s = protocol.encode(), limit_s
        options.costs = os.fsencode(costs) if costs else None
        for d, (extent, widths, turns) in enumerate(
            zip(self.extents, self.halo, self._requested_periodic, strict=True)
        ):
            options.extents[d] = extent
            options.dims[d] = dims[d] if dims is not None else 0
            for side in range(2):
                options.halo[d][side], options.periodic[d][side] = widths[side], turns[side]
        raise_on_error(self._library, self._library.nf_grid_create_f(comm.py2f(), byref(options), byref(self.handle)))
        info = GridInfo()
        raise_on_error(self._library, self._library.nf_grid_get_info(self.handle, byref(info)))
        self.rank, self.ranks, self.ranks_per_node, self.corners = info.rank, info.ranks, info.ranks_per_node, corners
        self.dims, self.place = tuple(info.dims[:dimensions]), tuple(info.place[:dimensions])
        self.start_cell, self.count = tuple(info.start[:dimensions]), tuple(info.count[:dimensions])
        self.neighbours_in_place = info.neighbours_in_place
        self._lists: dict[tuple[Field, ...], tuple[Any, int]] = {}
        self._arrays: dict[int, Exchange] = {}
        self._exchanges: WeakSet[Exchange] = WeakSet()
        self._started: Exchange | None = None
        self._exchange_fields = self._library.nf_exchange_fields

    def close(self) -> None:
        """Frees the grid with its fields and exchanges. Collective."""
        raise_on_error(self._library, self._library.nf_grid_free(byref(self.handle)))
        for exchange in self._exchanges:
            exchange.drop_array_references()
        self._lists.clear()
        self._arrays.clear()
        self._started = None

    def field(self, dtype: Any = np.float64, *, components: int = 1, ghosted: bool = False) -> Field:
        """Returns a new field of zeros. A `ghosted` field has ghost cells of its own inside a node, too, as
        `accumulate` requires. Collective."""
        return Field(self, dtype, components, ghosted)

    def empty(self, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """Returns an array of zeros that the caller owns, with the shape of the cells and ghost cells of this rank."""
        return np.zeros([low + n + high for n, (low, high) in zip(self.count, self.halo, strict=True)], dtype)

    def exchange(self, *fields: Field | np.ndarray[Any, Any]) -> None:
        """Runs a whole phase: `start`, then `finish`. At the first exchange of a NumPy array, sets up an exchange as
        `exchange_of` does, which keeps the array alive."""
        try:
            handles, count = self._lists[fields]  # type: ignore[index]
        except (KeyError, TypeError):
            if any(isinstance(f, np.ndarray) for f in fields):
                return self._exchange_arrays(fields)  # type: ignore[arg-type]
            handles, count = self._cache_field_handles(fields)  # type: ignore[arg-type]
        if code := self._exchange_fields(self.handle, handles, count):
            raise_on_error(self._library, code)
        return None

    def start(self, *fields: Field, width: int | Sides | None = None) -> None:
        """Starts a phase: from now on, neighbours may read the cells of this rank. `width` limits the width of the
        ghost cells that are filled."""
        handles, count = self._lists.get(fields) or self._cache_field_handles(fields)
        if width is None:
            raise_on_error(self._library, self._library.nf_start(self.handle, handles, count))
            return
        widths = ((c_int * 2) * 3)()
        for d, (low, high) in enumerate(parse_per_side("width", width, len(self.extents))):
            widths[d][0], widths[d][1] = low, high
        raise_on_error(self._library, self._library.nf_start_width(self.handle, handles, count, widths))

    def finish(self) -> None:
        """Completes the phase: waits until this rank may read the cells of its neighbours."""
        raise_on_error(self._library, self._library.nf_finish(self.handle))

    def accumulate(self, *fields: Field) -> None:
        """Exchanges in reverse: sends ghost cells to their owners, which add them to their own cells. Requires ghosted
        fields."""
        handles, count = self._lists.get(fields) or self._cache_field_handles(fields)
        raise_on_error(self._library, self._library.nf_accumulate(self.handle, handles, count))

    def exchange_of(self, *arrays: np.ndarray[Any, Any], protocol: str = "auto") -> Exchange:
        """Returns an exchange of arrays that the caller owns. With protocol "auto", chooses the protocol with the
        lowest predicted cost; with "measured", times a few exchanges by each protocol now and chooses the fastest. The
        exchange is closed with its grid at the latest. Collective."""
        return Exchange(self, arrays, protocol)

    def plan(self) -> list[Plan]:
        """Returns all decompositions of the grid over its ranks that have the given `dims`, the fastest first, with
        predicted costs of an exchange."""
        from nearfield.plan import find_plans, parse_model

        return find_plans(
            self.extents,
            self.ranks,
            parse_model(self._read_text(self._library.nf_grid_costs), "the grid's").costs,
            ranks_per_node=self.ranks_per_node,
            halo=self.halo,
            periodic=[(bool(low), bool(high)) for low, high in self._requested_periodic],
            corners=self.corners,
            dims=self._requested_dims,
        )

    def explain(self) -> str:
        """Returns human-readable text on the decisions: costs, decomposition, neighbours, memory and pages."""
        return self._read_text(self._library.nf_grid_explain)

    def _read_text(self, function: Any) -> str:
        """Returns the text that a function of the C library writes into a buffer."""
        text = ctypes.create_string_buffer(function(self.handle, None, 0))
        function(self.handle, text, len(text))
        return text.value.decode(errors="replace")

    def _cache_field_handles(self, fields: tuple[Field, ...]) -> tuple[Any, int]:
        if any(not isinstance(f, Field) or f._grid is not self for f in fields):
            raise UsageError("only fields of this grid can be exchanged by it")
        made = (c_void_p * len(fields))(*(f.handle for f in fields)), len(fields)
        self._lists[fields] = made
        return made

    def _exchange_arrays(self, arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
        for array in arrays:
            if id(array) not in self._arrays:
                self._arrays[id(array)] = self.exchange_of(array)
            self._arrays[id(array)]()
