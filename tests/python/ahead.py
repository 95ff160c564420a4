"""Builds what tests with MPI programs will ask for, while tests run that need none: `ahead.py PROGRAMS MODULE...`

Most tests use one core, and building takes about a quarter of the time of all. A module of tests names what is worth it
in a function `build_ahead`, for one MPI; it calls what the fixtures call, which then find everything made. What fails
here is made again, and told, by the test that needs it.
"""

import importlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from traceback import print_exc

from simulator_programs import build

from nearfield import mpi


def builds(programs: Path, modules: Iterable[str]) -> Iterator[Callable[[], object]]:
    """First what is needed first; last what uses all cores, since no tests may be left to run beside it."""
    yield lambda: build("replay", programs)
    for inst in mpi.discover():
        for module in modules:
            yield lambda inst=inst, module=module: importlib.import_module(module).build_ahead(inst, programs)
    for inst in mpi.discover():
        yield lambda inst=inst: mpi.program(inst)


def main(programs: str, *modules: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the compilers end with it
    for make in builds(Path(programs), modules):
        try:
            make()
        except Exception:
            print_exc()


if __name__ == "__main__":
    main(*sys.argv[1:])
