"""What tests of MPI programs share. Their programs are built while other tests run, on what these leave of the
processors."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import build_ahead
import pytest
from observed import trace_of_ring
from selected_mpis import selected_installations

FEW = 40  # tests that build what they need by themselves


@pytest.fixture(scope="session", autouse=True)
def built_ahead(request: pytest.FixtureRequest, programs: Path) -> Iterator[None]:
    """Begins to build, one MPI after the other as tests run, what the modules of the selected tests name in their
    function `build_ahead`; if several processes run the tests, the first of them does. A test that comes first waits
    for the lock of the build. A few tests by themselves build what they need."""
    if len(request.session.items) < FEW or os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        yield
        return
    modules = {item.module.__name__ for item in request.session.items if hasattr(item.module, "build_ahead")}
    names = ",".join(inst.name for inst in selected_installations(request.config))
    command = ["nice", "-n", "19", sys.executable, build_ahead.__file__, programs, names, *sorted(modules)]
    with (programs / "ahead.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Path:
    """Returns the trace of a program on four ranks, which tests must leave as it is."""
    return trace_of_ring(tmp_path_factory.mktemp("ring"), programs, 4)
