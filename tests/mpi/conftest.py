"""Builds the programs of these tests on all cores, before ranks run."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import build_ahead
import pytest

from nearfield import mpi

FEW = 40


@pytest.fixture(scope="session", autouse=True)
def built_ahead(request: pytest.FixtureRequest, programs: Path) -> None:
    """Builds for each MPI what the modules of the selected tests name in their function `build_ahead`. A few tests by
    themselves build what they need."""
    if len(request.session.items) < FEW:
        return
    modules = {item.module.__name__ for item in request.session.items if hasattr(item.module, "build_ahead")}
    name = request.config.getoption("--mpi")
    chosen = [mpi.choose(name)] if name else mpi.discover()

    def build(inst: mpi.Installation) -> None:
        command = [sys.executable, build_ahead.__file__, programs, inst.name, *sorted(modules)]
        with (programs / f"ahead-{inst.name.replace('/', '-')}.log").open("w") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(build, chosen))
