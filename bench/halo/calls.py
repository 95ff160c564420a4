"""What an exchange costs from Python, and what GHEX's costs in the same process, in turns. Lines of JSON from rank 0.

Planes are written before each exchange, and what arrives is copied where GHEX would have copied it; what the same costs
on memory of one's own is taken off.

calls.py ROUNDS. GHEX is measured if it can be imported; docs/performance.md says how to build it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np
from mpi4py import MPI

from nearfield.halo import Field, Grid

WORLD = MPI.COMM_WORLD


def bind() -> None:
    cpus = [int(cpu) for cpu in os.environ["BENCH_CPUS"].split(",")]
    os.sched_setaffinity(0, {cpus[WORLD.rank]})


def time_us(work: Callable[[], Any], count: int) -> float:
    """Returns the seconds of one call on the slowest rank."""
    WORLD.Barrier()
    start = time.perf_counter()
    for _ in range(count):
        work()
    return WORLD.allreduce((time.perf_counter() - start) / count * 1e6, MPI.MAX)


def report(**line: Any) -> None:
    if WORLD.rank == 0:
        print(json.dumps(line), flush=True)


def calls(rounds: int) -> None:
    """On a grid of one rank the library has nothing to do: what is left is Python's part."""
    with Grid((64, 64), comm=MPI.COMM_SELF) as grid:
        field = grid.field()
        report(call_us=[time_us(lambda: grid.exchange(field), 20000) for _ in range(rounds)])


def ghex_exchange(cells: int, width: int) -> Callable[[], Any]:
    """A field cut in two along its first dimension, not periodic, set up once; from GHEX's documentation."""
    from ghex.context import make_context
    from ghex.structured.cartesian_sets import IndexSpace
    from ghex.structured.regular import (
        DomainDescriptor,
        HaloGenerator,
        make_communication_object,
        make_field_descriptor,
        make_pattern,
    )

    context = make_context(WORLD, True)
    halos = ((width, width),) * 3
    space = IndexSpace.from_sizes(2 * cells, cells, cells)
    own = space.decompose((2, 1, 1))[WORLD.rank, 0, 0].subset["definition"]
    with_halo = IndexSpace({"definition": own, "halo": own.extend(*halos).without(own)})
    memory = with_halo.translate(*(-origin for origin in with_halo.bounds[(0, 0, 0)]))
    domain = DomainDescriptor(context.rank(), own)
    generator = HaloGenerator(space.subset["definition"], halos, (False, False, False))
    pattern = make_pattern(context, generator, [domain])
    exchange = make_communication_object(context)
    data = np.zeros(memory.bounds.shape)
    field = make_field_descriptor(domain, data, memory.subset["definition"][(0, 0, 0)], memory.bounds.shape)
    cells_of_others = [pattern(field)]
    planes = data[-2 * width : -width] if WORLD.rank == 0 else data[width : 2 * width]

    def step(referenced: object = (context, domain, pattern, data, field)) -> None:  # GHEX holds pointers to them
        planes.fill(1.0)
        exchange.exchange(cells_of_others).wait()

    return step


def sides_of(grid: Grid, width: int) -> tuple[Field, np.ndarray, np.ndarray]:
    """A field, what the other rank reads of it, and what this one reads of the other's."""
    field = grid.field()
    ghosts = field.all[-width:] if WORLD.rank == 0 else field.all[:width]
    planes = field.own[-width:] if WORLD.rank == 0 else field.own[:width]
    return field, planes, ghosts[:, width:-width, width:-width]


def against_ghex(rounds: int) -> None:
    for width in (1, 2):
        for cells in (32, 64, 128, 256):
            theirs = ghex_exchange(cells, width)
            with Grid((2 * cells, cells, cells), halo=width, dims=(2, 1, 1)) as grid:
                in_turn = cycle([sides_of(grid, width) for _ in range(2)])  # as a sweep has its fields
                arrived = np.empty((width, cells, cells))

                def ours(grid=grid, in_turn=in_turn, arrived=arrived) -> None:
                    field, planes, ghosts = next(in_turn)
                    planes.fill(1.0)
                    grid.exchange(field)
                    np.copyto(arrived, ghosts)  # GHEX copies, so this must, too

                mine, others = np.zeros((width, cells, cells)), np.zeros((width, cells, cells))

                def alone(mine=mine, others=others, arrived=arrived) -> None:
                    mine.fill(1.0)
                    np.copyto(arrived, others)

                def alone_ghex(mine=mine) -> None:
                    mine.fill(1.0)

                ways = (ours, alone, theirs, alone_ghex)
                count = max(20, 20000 // cells)
                times = [[time_us(way, count) for way in ways] for _ in range(rounds)]
            ours_us = [t[0] - t[1] for t in times]
            ghex_us = [t[2] - t[3] for t in times]
            report(cells=cells, width=width, ours_us=ours_us, ghex_us=ghex_us)


if __name__ == "__main__":
    bind()
    calls(int(sys.argv[1]))
    if "Open MPI" not in MPI.Get_library_version():
        print("GHEX is built for one MPI, here Open MPI: not compared", file=sys.stderr)
    elif not find_spec("ghex"):
        print("GHEX is not installed: not compared", file=sys.stderr)
    else:
        against_ghex(int(sys.argv[1]))
