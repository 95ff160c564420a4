"""The halo library from Python, under every MPI that mpi4py can load here."""

import os
import sys
from pathlib import Path

import pytest

from nearfield import mpi
from nearfield.mpi import Installation

pytest.importorskip("mpi4py")

ROOT = Path(__file__).parents[2]
CORES = os.cpu_count() or 1


def mpi4py_on(inst: Installation) -> dict[str, str]:
    """Has mpi4py's wheel load the MPI's library, whatever else it would find. Skips the test if it cannot."""
    assert inst.library
    if inst.library.name.startswith("libmpich"):
        pytest.skip("mpi4py's wheel looks for libmpi.so.12, Debian's MPICH has another name")
    folders = [str(inst.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        "MPI4PY_MPIABI": "openmpi" if inst.family == "openmpi" else "mpich",
        "MPI4PY_LIBMPI": str(inst.library),
        "LD_LIBRARY_PATH": ":".join(f for f in folders if f),
    }


def run(inst: Installation, script: Path, *arguments: str, ranks: int) -> mpi.FinishedLaunch:
    if ranks > CORES and inst.family == "mpich":
        pytest.skip("its ranks wait busily")
    argv = [sys.executable, str(script), *arguments]
    return mpi.run(inst, argv, ranks, oversubscribe=ranks > CORES, timeout_s=120, env=mpi4py_on(inst))


@pytest.mark.families
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_binding(installation: Installation, ranks: int) -> None:
    """Types, components, arrays in C and Fortran order, the reverse exchange, widths, errors and debugging: all as
    promised, under the requested MPI?"""
    done = run(installation, ROOT / "tests/programs/halo_python.py", ranks=ranks)
    assert done.exit_code == 0 and "ok" in done.stdout, done.stdout + done.stderr[-3000:]
    assert installation.version.split(".")[0] in done.stdout


@pytest.mark.families
@pytest.mark.parametrize("ranks", [2, 4])
def test_life(installation: Installation, ranks: int, tmp_path: Path) -> None:
    """Is the Game of Life on several ranks the same as on one, and are its frames pictures of it?"""
    arguments = ["--size", "50", "--steps", "30", "--check"]
    frames = ["--frames", str(tmp_path)] if ranks == 2 else []
    done = run(installation, ROOT / "examples/life.py", *arguments, *frames, ranks=ranks)
    assert done.exit_code == 0 and "as on one rank" in done.stdout, done.stdout + done.stderr[-3000:]
    if frames:
        image = pytest.importorskip("PIL.Image")
        with image.open(tmp_path / "00020.png") as picture:
            assert picture.size == (50, 50) and picture.getextrema() == (0, 255)
