"""Halo exchange without copies inside a node, for NumPy and mpi4py.

    from mpi4py import MPI
    import numpy as np
    from nearfield.halo import Grid

    with Grid((4096, 4096), halo=1, periodic=True) as grid:
        now, next = grid.field(np.float64), grid.field(np.float64)
        now.own[...] = np.random.rand(*now.own.shape)
        grid.exchange(now)
        for step in range(100):
            u = now.all  # the neighbours' cells are in it
            next.own[...] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
            grid.exchange(next)
            now, next = next, now

include/nearfield/halo.h and docs/tutorials/halo.md explain phases and the rule to keep in them. The library is built
for the MPI that mpi4py uses, once, on first use.
"""

from nearfield.halo.exchange import Exchange
from nearfield.halo.field import Field
from nearfield.halo.grid import Grid
from nearfield.halo.interface import HaloError
from nearfield.halo.library import protocols

__all__ = ["Exchange", "Field", "Grid", "HaloError", "protocols"]
