"""Builds what tests with MPI programs need, while tests run: `build_ahead.py PROGRAMS MPI,... MODULE...`

Building takes about a quarter of the processor time of all tests, and tests with MPI programs leave much of it unused.
A test module names what is worth it in a function `build_ahead`, which calls what the fixtures call; these then find
everything built. What fails here is built once more by the test that needs it, which reports the failure.
"""

import importlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from traceback import print_exc

from nearfield import mpi
from nearfield.mpi import Installation


def builds(inst: Installation, programs: Path, modules: Iterable[str]) -> Iterator[Callable[[], object]]:
    """Yields what builds: the engine, then what each module names."""
    yield lambda: mpi.build_target(inst)
    for module in modules:
        yield lambda module=module: importlib.import_module(module).build_ahead(inst, programs)


def main(programs: str, names: str, *modules: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the compilers end with it
    sys.path.append(str(Path(__file__).parents[1] / "mpi"))
    for name in names.split(","):
        for build in builds(mpi.choose_mpi(name), Path(programs), modules):
            try:
                build()
            except Exception:
                print_exc()


if __name__ == "__main__":
    main(*sys.argv[1:])
