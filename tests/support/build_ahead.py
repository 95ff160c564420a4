"""Builds what tests will need for one MPI, in a process of its own: `build_ahead.py PROGRAMS MPI MODULE...`

Building takes about a quarter of the time of all tests with MPI programs, and most of it uses one core. A test module
names what is worth it in a function `build_ahead`, which calls what the fixtures call; these then find everything
built. What fails here is built once more by the test that needs it, which reports the failure.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from traceback import print_exc

from nearfield import mpi
from nearfield.mpi import Installation


def builds(inst: Installation, programs: Path, modules: Iterable[str]) -> Iterator[Callable[[], object]]:
    """Yields what builds: the engine, then what each module names."""
    yield lambda: mpi.program(inst)
    for module in modules:
        yield lambda module=module: importlib.import_module(module).build_ahead(inst, programs)


def main(programs: str, name: str, *modules: str) -> None:
    sys.path.append(str(Path(__file__).parents[1] / "mpi"))
    for build in builds(mpi.choose(name), Path(programs), modules):
        try:
            build()
        except Exception:
            print_exc()


if __name__ == "__main__":
    main(*sys.argv[1:])
