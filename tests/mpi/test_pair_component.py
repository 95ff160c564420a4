"""Does the Open MPI component give every pair its own limits, and leave everything else as it was?

On the Open MPI 4 of the system, where its developer headers are. Ranks may be more than cores: nothing is timed.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from build_lock import build_lock

from nearfield import mpi
from nearfield.base.topology import CORE_DISTANCES, Topology
from nearfield.mpi import Installation

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "src/preload/openmpi"
RULES = ROOT / "src/preload/pair_rules/pair_rules.c"
PROGRAMS = ROOT / "tests/programs"
COMPILER = shutil.which("mpicc.openmpi")
CXX_COMPILER = shutil.which("mpicxx.openmpi")
LAUNCHER = shutil.which("mpirun.openmpi")
INFO = shutil.which("ompi_info.openmpi") or shutil.which("ompi_info")

# The module that `nearfield run` chooses: vader itself can do what the largest class asks for.
WIDE = {
    "btl_vader_eager_limit": "32768",
    "btl_vader_max_send_size": "65536",
    "btl_vader_segment_size": str(64 << 20),
}
THREE_PAIRS = "0-1:shared-l3;0-2:same-node;1-3:same-numa"
MIXED = {
    **WIDE,
    "btl_nearfield_classes": THREE_PAIRS,
    "btl_nearfield_rules": "shared-l3:eager_limit=2048,single_copy_from=50000;"
    "same-numa:eager_limit=1024,max_send_size=4096,single_copy_from=never;"
    "same-node:eager_limit=32768,single_copy_from=never",
}
ONE_CLASS = {"btl_nearfield_rules": "same-node:eager_limit=1024,max_send_size=8192"}


@functools.cache
def why_not() -> str:
    if not (COMPILER and CXX_COMPILER and LAUNCHER and INFO):
        return "no mpicc.openmpi, mpicxx.openmpi, mpirun.openmpi and ompi_info here"
    shown = subprocess.run([LAUNCHER, "--version"], capture_output=True, text=True).stdout
    if not re.search(r"(Open MPI|OpenRTE)\) 4\.", shown):
        return "mpirun.openmpi is not of Open MPI 4"
    source = "#include <opal_config.h>\n#include <opal/mca/btl/btl.h>\n"
    made = subprocess.run(
        [COMPILER, *header_flags(), "-fsyntax-only", "-x", "c", "-"], input=source, capture_output=True, text=True
    )
    return "" if made.returncode == 0 else "Open MPI's developer headers are not here"


@functools.cache
def header_flags() -> list[str]:
    folders = subprocess.run([COMPILER, "--showme:incdirs"], capture_output=True, text=True).stdout.split()
    return [f"-I{ROOT}/src", *(f"-I{folder}/openmpi" for folder in folders)]


pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not())]


def build_ahead(inst: Installation, programs: Path) -> None:
    """The component as `nearfield run` builds it (test_per_pair.py), and as tests take it."""
    if inst.family == "openmpi" and inst.version.startswith("4.") and not why_not():
        mpi.build_target(inst, mpi.COMPONENT_TARGET)
        component_in(programs)


@pytest.fixture(scope="session")
def built(programs: Path) -> Path:
    """A folder with the component and the programs."""
    return component_in(programs)


def component_in(programs: Path) -> Path:
    folder = programs / "component"
    with build_lock(folder) as is_missing:
        if is_missing:
            build_component(folder)
    return folder


def build_component(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    strict = [COMPILER, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    library = ["-shared", "-fPIC", "-fvisibility=hidden", *header_flags()]
    sources = [*sorted(COMPONENT.glob("*.c")), RULES]
    subprocess.run([*strict, *library, *sources, "-o", folder / "mca_btl_nearfield.so"], check=True, timeout=120)
    for program in ("pair_limits", "one_sided", "spawn", "starve", "threads"):
        source = PROGRAMS / f"{program}.c"
        subprocess.run([*strict, "-rdynamic", source, "-o", folder / program], check=True, timeout=60)
    messages = [CXX_COMPILER, "-std=c++20", "-O2", PROGRAMS / "messages.cpp", "-o", folder / "messages"]
    subprocess.run(messages, check=True, timeout=120)


class Runs:
    """Programs under mpirun, with or without the component."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = subprocess.run([INFO, "--path", "pkglibdir", "--parsable"], capture_output=True, text=True).stdout
        self.default = found.strip().split(":")[-1]

    def environment(self, parameters: dict[str, str], component: bool) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_MCA_btl", "OMPI_MCA_mca_base"))}
        given = {f"OMPI_MCA_{k}": v for k, v in parameters.items()}
        if component:
            given["OMPI_MCA_mca_base_component_path"] = f"{self.folder}:{self.default}"
        return {**inherited, "OMPI_MCA_mpi_yield_when_idle": "1", **given}

    def __call__(
        self,
        ranks: int,
        *command: str,
        options: tuple[str, ...] = (),
        component: bool = True,
        check: bool = True,
        **parameters: str,
    ) -> subprocess.CompletedProcess[str]:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        binding = [] if "--bind-to" in options else ["--bind-to", "none"]
        launch = ["timeout", "-k", "2", "40", LAUNCHER, *root, "--oversubscribe", *binding, *options, "-np", str(ranks)]
        done = subprocess.run(
            [*launch, str(self.folder / command[0]), *command[1:]],
            env=self.environment(parameters, component),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the lines in an order that does not depend on which rank is first."""
    return sorted(done.stdout.splitlines())


@functools.cache
def stock_messages(run: Runs, ranks: int, seed: int, count: int) -> list[str]:
    """Returns what every rank says of the random messages that it got, without the component."""
    lines = said(run(ranks, "messages", str(seed), str(count), component=False))
    assert len(lines) == ranks and all(re.fullmatch(r"rank .* digest .* ok", line) for line in lines)
    return lines


@pytest.fixture(scope="session")
def run(built: Path) -> Runs:
    return Runs(built)


def segments() -> set[str]:
    """Returns the files in shared memory now."""
    return {f.name for f in Path("/dev/shm").iterdir()}


def eager(output: str) -> dict[int, int]:
    """Peer -> the largest size that was eager."""
    return {int(peer): int(size) for peer, size in re.findall(r"peer (\d+) eager_up_to (-?\d+)", output)}


def copied(output: str) -> dict[int, set[int]]:
    """Peer -> the sizes that the kernel copied between the processes."""
    found: dict[int, set[int]] = {}
    for peer, size, calls in re.findall(r"peer (\d+) size (\d+) early \d copies (\d+)", output):
        found.setdefault(int(peer), set())
        if int(calls):
            found[int(peer)].add(int(size))
    return found


SIZES = ("8", "800", "1500", "2500", "3500", "8000", "20000", "40000", "60000", "200000")


@pytest.fixture(scope="module")
def two_classes(run: Runs) -> str:
    return run(3, "pair_limits", *SIZES, **MIXED).stdout


@pytest.fixture(scope="module")
def stock(run: Runs) -> str:
    return run(3, "pair_limits", *SIZES, component=False).stdout


def test_shows_parameters(run: Runs) -> None:
    """Does ompi_info know the component and its parameters?"""
    shown = subprocess.run(
        [INFO, "--param", "btl", "nearfield", "--level", "9", "--parsable"],
        env=run.environment({}, True),
        capture_output=True,
        text=True,
    ).stdout
    assert all(f"btl_nearfield_{name}" in shown for name in ("rules", "classes"))


def test_each_pair_has_a_separate_eager_limit(two_classes: str) -> None:
    """Is a message to rank 1 eager up to its class's limit, and one to rank 2 up to another?"""
    assert eager(two_classes) == {1: 1500, 2: 20000}


def test_each_pair_has_separate_single_copies(two_classes: str, stock: str) -> None:
    """Does the kernel copy to rank 1 from the threshold on, and to rank 2 never?"""
    if not copied(stock)[1]:
        pytest.skip("the kernel copies nothing between processes here")
    assert copied(two_classes) == {1: {60000, 200000}, 2: set()}


def test_the_distance_is_the_nearest_thing_shared(tmp_path: Path) -> None:
    """Open MPI's words for what two bindings share: tigerton, nehalem-ep, NUMA nodes in a package, and unbound."""
    expected = {
        "core+l2+l3+numa+socket": 0, "l2+numa+socket": 1, "l3+numa+socket": 2, "numa+socket": 3, "socket": 4,
        "numa": 5,  # tigerton: one memory for all packages
        "node": 5,
    }  # fmt: skip
    program = tmp_path / "distance_of_locality"
    source = [PROGRAMS / "distance_of_locality.c", COMPONENT / "locality.c"]
    flags = ["-std=gnu11", f"-I{COMPONENT}", *header_flags()]
    subprocess.run([COMPILER, *flags, *source, "-lopen-pal", "-o", program], check=True, timeout=60)
    done = subprocess.run([program, *expected], capture_output=True, text=True, timeout=20, check=True)
    assert [int(line) for line in done.stdout.splitlines()] == list(expected.values())


def test_distances_without_a_rule_are_as_stock(run: Runs, stock: str) -> None:
    """Has a class without a rule the limits of the stock transport, single copies included?"""
    rules = {"btl_nearfield_classes": "0-1:shared-l3", "btl_nearfield_rules": "shared-l3:eager_limit=1024"}
    ours = run(3, "pair_limits", *SIZES, **rules).stdout
    assert eager(ours) == {1: 800, 2: eager(stock)[2]}
    assert copied(ours)[2] == copied(stock)[2]


def test_a_class_cannot_exceed_the_transport(run: Runs, stock: str) -> None:
    """Is a limit above the stock transport's own cut down to that?"""
    ours = run(2, "pair_limits", *SIZES, btl_nearfield_rules="same-node:eager_limit=1000000").stdout
    assert eager(ours)[1] == eager(stock)[1]


# These thresholds show the distance of two ranks: each has another largest size of SIZES that is eager.
LIMITS = dict(zip(CORE_DISTANCES, (1024, 2048, 3072, 4096, 16384, 32768), strict=True))
UP_TO = dict(zip(CORE_DISTANCES, (800, 1500, 2500, 3500, 8000, 20000), strict=True))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two bound ranks need two cores")
def test_unbound_ranks_share_only_the_node(run: Runs) -> None:
    """Are ranks that are not bound of distance same-node, and bound ones of the distance that their cores have?"""
    rules = {"btl_nearfield_rules": ";".join(f"{distance}:eager_limit={n}" for distance, n in LIMITS.items()), **WIDE}
    topology = Topology.of_this_machine()
    of_cores = topology.distance(topology.cores[0][0], topology.cores[1][0])
    free = run(2, "pair_limits", *SIZES, **rules).stdout
    bound = run(2, "pair_limits", *SIZES, options=("--bind-to", "core"), **rules).stdout
    assert eager(free) == {1: UP_TO["same-node"]}
    assert eager(bound) == {1: UP_TO[of_cores]}, of_cores


@pytest.mark.parametrize(
    ("parameters", "seed"),
    [(MIXED, 1), (ONE_CLASS, 2), ({**MIXED, "btl_vader_segment_size": "4194304"}, 4)],
    ids=["classes", "one-class", "classes-in-little-memory"],
)
def test_any_messages_arrive_the_same(run: Runs, seed: int, parameters: dict[str, str]) -> None:
    """Do random messages of every way to send and receive arrive the same with the component and without?"""
    ours = run(4, "messages", str(seed), "240", **parameters)
    assert said(ours) == stock_messages(run, 4, seed, 240)


def test_a_class_is_not_starved_by_another(run: Runs) -> None:
    """Is an acknowledgement sent when another class has all fragments of the transport?"""
    rules = "shared-l3:eager_limit=2048,single_copy_from=never;same-node:eager_limit=1024,single_copy_from=never"
    segment = {"btl_vader_segment_size": str(64 << 20)}
    classes = {"btl_nearfield_classes": "0-1:shared-l3", "btl_nearfield_rules": rules}
    assert run(6, "starve", **classes, **segment).stdout == "served\n"


@pytest.mark.parametrize("osc", ["", "rdma,sm", "pt2pt,sm"], ids=["default", "rdma", "pt2pt"])
def test_one_sided_is_right(run: Runs, osc: str) -> None:
    """Do put, get, accumulate and atomics give the right results in every kind of window?"""
    options = ("--mca", "osc", osc) if osc else ()
    assert run(3, "one_sided", options=options, **MIXED).stdout == "one-sided right\n"


def test_spawn_works(run: Runs) -> None:
    """Can a program start another job, talk with it, part, and go on?"""
    assert run(2, "spawn", **MIXED).stdout == "spawned right\n"


def test_wrong_rules_are_reported_once(run: Runs) -> None:
    """Is a mistake reported in one line per node, and does the program run as without rules?"""
    done = run(3, "messages", "1", "20", btl_nearfield_rules="shard-l3:eager_limit=4096")
    mistake = "unknown distance 'shard-l3' at character 1, the nearest is shared-l3"
    assert done.stderr == f"nearfield: btl_nearfield_rules: {mistake}; no rules are used\n"
    assert said(done) == stock_messages(run, 3, 1, 20)


def test_wrong_pairs_are_reported_once(run: Runs) -> None:
    """Is a mistake in the pairs reported in one line, and does the program run stock?"""
    done = run(3, "pair_limits", "800", "3500", btl_nearfield_classes="0-1", **ONE_CLASS)
    assert re.fullmatch(r"nearfield: btl_nearfield_classes: .*; no rules are used\n", done.stderr)
    assert eager(done.stdout) == {1: 3500, 2: 3500}


def test_without_rules_nothing_is_said(run: Runs, stock: str) -> None:
    """Is a program without rules stock, in silence?"""
    done = run(3, "pair_limits", *SIZES)
    assert done.stderr == ""
    assert eager(done.stdout) == eager(stock)


def test_threads_run_stock(run: Runs) -> None:
    """Under MPI_THREAD_MULTIPLE, does it step aside with one line, and do threads get their messages?"""
    done = run(3, "threads", **MIXED)
    assert done.stderr == "nearfield: not made for MPI_THREAD_MULTIPLE; no rules are used\n"
    assert done.stdout == "threads right\n"


@pytest.mark.parametrize("btl", ["^vader", "self,tcp,nearfield", "self,vader"], ids=["excluded", "left-out", "not-us"])
def test_without_the_stock_transport(run: Runs, btl: str) -> None:
    """Does the program run without the component when vader, or the component, is not to be used?"""
    done = run(2, "messages", "1", "20", options=("--mca", "btl", btl), **MIXED)
    assert said(done) == stock_messages(run, 2, 1, 20)


def test_other_shared_memory_runs_stock(run: Runs, stock: str) -> None:
    """Where a sender cannot be recognised by the address of its message, does it step aside with one line?"""
    done = run(3, "pair_limits", *SIZES, options=("--mca", "shmem", "posix"), **ONE_CLASS)
    assert re.fullmatch(r"nearfield: vader's memory .*; no rules are used\n", done.stderr)
    assert eager(done.stdout) == eager(stock)


@pytest.mark.parametrize("mechanism", ["none", "emulated"])
def test_without_kernel_copies(run: Runs, mechanism: str) -> None:
    """Do all messages arrive the same where vader may not have the kernel copy?"""
    options = ("--mca", "btl_vader_single_copy_mechanism", mechanism)
    assert said(run(4, "messages", "1", "240", options=options, **MIXED)) == stock_messages(run, 4, 1, 240)


def test_peers_added_one_by_one(run: Runs) -> None:
    """Has every pair its limits when Open MPI meets a peer only at the first message?"""
    late = ("--mca", "mpi_add_procs_cutoff", "0")
    assert eager(run(3, "pair_limits", *SIZES, options=late, **MIXED).stdout) == {1: 1500, 2: 20000}


def ours_left(before: set[str]) -> set[str]:
    """Segments that came since and that no process maps: other programs may run here meanwhile."""
    mapped = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            mapped += maps.read_text()
        except OSError:  # ended, or not ours to read
            continue
    return {name for name in segments() - before if name not in mapped}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    before = segments()
    yield
    assert ours_left(before) == set()


def test_leaves_nothing_behind(run: Runs, nothing_left: None) -> None:
    """After a program's end, is shared memory as it was?"""
    run(4, "messages", "3", "20", **MIXED)


def test_abort_ends_it(run: Runs, nothing_left: None) -> None:
    """Does MPI_Abort end all ranks with its code, and leave nothing behind?"""
    done = run(3, "starve", check=False, **MIXED)  # refuses fewer than four ranks, with 2
    assert done.returncode == 2
    assert "served" not in done.stdout
