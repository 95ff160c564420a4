"""The Python binding, and examples of its documentation, on real ranks; asserts on every rank, says "ok" on rank 0. Run
by test_halo_python.py."""

import contextlib
import io
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

import nearfield.halo
from nearfield.base.errors import MpiError, UsageError
from nearfield.halo import Grid, HaloError, library, protocols
from nearfield.halo.interface import TYPE_NUMBER_BY_NAME
from nearfield.plan import CostModel, costs_file_text, default_model

WORLD = MPI.COMM_WORLD


def numbered(grid: Grid) -> np.ndarray:
    """Own cells, each with its number in the whole grid."""
    axes = [np.arange(s, s + n) for s, n in zip(grid.start_cell, grid.count, strict=True)]
    return np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), grid.extents)


def wrapped(grid: Grid) -> np.ndarray:
    """Returns the values that own and ghost cells of a periodic grid must hold."""
    axes = [
        np.arange(s - low, s + n + high) % whole
        for s, n, (low, high), whole in zip(grid.start_cell, grid.count, grid.halo, grid.extents, strict=True)
    ]
    return np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), grid.extents)


def expect(wrong: Callable[[], object], kind: type[Exception], text: str) -> None:
    try:
        wrong()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(text)


def a_library_that_cannot_be_had_is_an_error_on_all_ranks() -> None:
    """The first rank of the node alone finds its cache not readable, or a file that is no library."""

    def refused(_: Path) -> Path:
        raise PermissionError(13, "Permission denied", "cache")

    original = library._find_or_build_library
    for answer in (refused, lambda _: Path(__file__)):
        library._find_or_build_library = answer
        expect(library.load_halo_library, MpiError, "the halo library cannot be built or loaded")
    library._find_or_build_library = original


def fields_of_every_type() -> None:
    for dtype in TYPE_NUMBER_BY_NAME:
        with Grid((6, 8), halo=(2, (1, 0)), periodic=True) as grid:
            field = grid.field(dtype)
            field.own[...] = numbered(grid)
            grid.exchange(field)
            assert field.all.dtype == np.dtype(dtype) and field.own.shape == grid.count == field.shape
            assert np.array_equal(field.all, wrapped(grid)), dtype


def components_and_overlap() -> None:
    with Grid((12, 5, 4), halo=1, periodic=True) as grid:
        field = grid.field(np.float32, components=3)
        for part in range(3):
            field.own[..., part] = numbered(grid) + part
        field.ready()
        field.wait()
        for part in range(3):
            assert np.array_equal(field.all[..., part], wrapped(grid) + part)


def arrays_of_the_callers() -> None:
    with Grid((9, 10), halo=2, periodic=True) as grid:
        c, fortran = grid.empty(np.int64), np.asfortranarray(grid.empty(np.int64))
        for array in (c, fortran):
            array[2:-2, 2:-2] = numbered(grid)
            grid.exchange(array)
            grid.exchange(array)
            assert np.array_equal(array, wrapped(grid))
        for protocol in protocols():
            if protocol in ("in-place", "window", "direct", "sendrecv", "persistent", "neighborhood"):
                continue
            a, b = grid.empty(), grid.empty()
            a[2:-2, 2:-2], b[2:-2, 2:-2] = numbered(grid), -numbered(grid)
            both = grid.exchange_of(a, b, protocol=protocol)
            both()
            assert both.protocol == protocol
            assert np.array_equal(a, wrapped(grid)) and np.array_equal(b, -wrapped(grid)), protocol


def mappings() -> int:
    """Checks arrays in the library's memory."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("/memfd:nearfield" in line or "/dev/shm/nearfield" in line for line in lines)


def an_exchange_can_be_closed() -> None:
    """Before its grid, and its memory goes; not while it is under way; after it, or after its grid, it is no more."""
    with Grid((9, 10), periodic=True) as grid:
        before = mappings()
        with grid.exchange_of(grid.empty(), protocol="staged") as exchange:
            exchange()
            assert mappings() > before or WORLD.size == 1
            exchange.start()
            expect(exchange.close, HaloError, "under way")
            exchange.finish()
        assert mappings() == before and not exchange.arrays
        expect(exchange, HaloError, "there is no exchange")
        exchange.close()
        grid.exchange_of(grid.empty()).start()  # nobody else holds its array
        grid.finish()
        array = grid.empty()
        array[1:-1, 1:-1] = numbered(grid)
        with grid.exchange_of(array, protocol="persistent") as other:
            other()
        assert np.array_equal(array, wrapped(grid))
        last = grid.exchange_of(array)
    expect(last, HaloError, "there is no exchange")
    last.close()


def accumulates() -> None:
    with Grid((8, 8), halo=1, periodic=True) as grid:
        field = grid.field(ghosted=True)
        field.all[...] = 1
        field.own[...] = 0
        grid.accumulate(field)
        total = WORLD.allreduce(field.own.sum())
        ghosts = WORLD.allreduce(field.all.size - field.own.size)
        assert total == ghosts, (total, ghosts)
        partly = grid.field(ghosted=True)
        partly.own[...] = 5
        grid.start(partly, width=((1, 0), 0))
        grid.finish()
        assert np.all(partly.all[0, 1:-1] == 5) and np.all(partly.all[-1] == 0)


def says_what_is_wrong() -> None:
    with Grid((8, 8)) as grid:
        field = grid.field()
        for wrong, kind, text in (
            (lambda: grid.exchange_of(np.zeros((3, 3))), UsageError, "does not hold this rank's cells"),
            (lambda: grid.field(np.complex128), UsageError, "cannot hold"),
            (lambda: grid.accumulate(field), HaloError, "ghost cells of their own"),
            (grid.finish, HaloError, "finish was called without start"),
            (lambda: Grid((4, 4), halo=(1, 2, 3)), UsageError, "halo is given for 3 dimensions"),
            (lambda: Grid((4, 4), protocol="pigeon"), HaloError, "there is no protocol 'pigeon'"),
            (lambda: Grid((4,), dims=(WORLD.size + 1,)), HaloError, "but the communicator has"),
            (lambda: Grid((4, 4), dims=(0,)), UsageError, "dims is given for 1 dimensions"),
            (lambda: Grid((0, 4)), HaloError, "has no cells"),
        ):
            expect(wrong, kind, text)


def plans_the_split() -> None:
    with Grid((64, 512), halo=2) as grid:
        best, *others = grid.plan()
        assert tuple(best.dims[1:]) == grid.dims and all(best.time_ns <= other.time_ns for other in others)
        assert "predicted time of an exchange by split:" in grid.explain()
        with Grid((64, 512), halo=2, dims=(1, WORLD.size)) as other:
            assert other.dims == (1, WORLD.size)
            assert {tuple(split.dims[1:]) for split in other.plan()} == {other.dims}
    for options in (
        {"periodic": True},
        {"periodic": ((True, False), False), "corners": False},
        {"dims": (WORLD.size, 0)},
    ):
        with Grid((64, 512), halo=(2, 1), **options) as grid:
            dims, time = re.search(r"by split: (.*?) ([\d.e+]+) us", grid.explain()).groups()
            best = grid.plan()[0]
            assert dims == " x ".join(map(str, best.dims[1:])), (options, dims)
            assert np.isclose(float(time), best.time_ns / 1e3, rtol=1e-4, atol=1e-3), (options, time, best.time_ns)


def plans_by_the_costs_it_is_given() -> None:
    known = default_model()
    assert known.costs.in_place
    known.costs.in_place.latency_ns = 7e6
    with tempfile.NamedTemporaryFile("w") as file:  # each rank writes one; rank 0's is read
        file.write(costs_file_text(CostModel(known.costs, f"somebody's {file.name}")))
        file.flush()
        with Grid((64, 512), costs=file.name) as grid:
            assert f"costs of somebody's {WORLD.bcast(file.name)}\n" in grid.explain()
            assert WORLD.size == 1 or grid.plan()[0].time_ns > 7e6


def debugging_damages_ghost_cells() -> None:
    os.environ["NEARFIELD_HALO_DEBUG"] = "1"
    with Grid((8, 8), periodic=True) as grid:
        field = grid.field()
        field.own[...] = 1
        grid.start(field)
        assert np.isnan(field.all[0]).all()
        grid.finish()
        assert np.all(field.all == 1)
    del os.environ["NEARFIELD_HALO_DEBUG"]


def examples_of_the_documentation_run() -> None:
    """On fewer cells and for fewer steps."""
    document = (Path(__file__).parents[2] / "docs/tutorials/halo.md").read_text(encoding="utf-8")
    indented = (line for line in nearfield.halo.__doc__.splitlines() if not line or line.startswith("    "))
    docstring = textwrap.dedent("\n".join(indented))
    for example in (re.search("```python\n(.*?)```", document, re.S)[1], docstring):
        smaller = example.replace("4096, 4096", "64, 48").replace("range(100)", "range(3)")
        assert "Grid((64, 48)" in smaller and "grid.exchange(" in smaller, example
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(smaller, {})
        assert "print" not in smaller or WORLD.rank or "grid of 64 x 48 cells on " in said.getvalue(), said.getvalue()


if __name__ == "__main__":
    a_library_that_cannot_be_had_is_an_error_on_all_ranks()
    fields_of_every_type()
    components_and_overlap()
    arrays_of_the_callers()
    an_exchange_can_be_closed()
    accumulates()
    says_what_is_wrong()
    plans_the_split()
    plans_by_the_costs_it_is_given()
    debugging_damages_ghost_cells()
    examples_of_the_documentation_run()
    WORLD.Barrier()
    if WORLD.rank == 0:
        print("ok", MPI.Get_library_version().splitlines()[0])
    sys.stdout.flush()
