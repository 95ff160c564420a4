"""Does the shim give each pair of ranks its own single-copy threshold under MPICH, and otherwise stay out of the way?

tests/programs/single_copies.cpp sends messages in all ways from rank 0 to the others and prints which of them were
copied by the kernel from process to process. Distances are given by NEARFIELD_PAIR_CLASSES, or computed from a made-up
/sys, so that this needs no particular machine.
"""

import functools
import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import mpi_program
import pytest

from nearfield import mpi
from nearfield.mpi import FinishedLaunch, Installation
from nearfield.mpi.compiler import compiler_environment

SHIM = "libnearfield_mpich.so"
SOURCE = Path(__file__).parents[2] / "src"
CORES = sorted(os.sched_getaffinity(0))
SIZES = [1000, 12000, 20000, 50000, 200000]
# Between sides, MPICH 5.0 itself copies nothing singly to the remote rank whose number is the sender's own (0).
WAYS = ["send", "ssend", "isend", "persistent", "sendrecv", "replace", "startall", "reversed", "rotated"]
CLASSES = "0-1:shared-l3;0-2:same-node"


# ---- distances


@dataclass(frozen=True)
class Machine:
    """A made-up /sys: what every CPU shares, as the kernel writes it."""

    folder: Path

    def cpu(self, number: int, *, core: str, package: str, l2: str = "", l3: str = "", old: bool = False) -> None:
        home = self.folder / f"devices/system/cpu/cpu{number}"
        names = ("thread_siblings_list", "core_siblings_list") if old else ("core_cpus_list", "package_cpus_list")
        self._write(home / "topology" / names[0], core)
        self._write(home / "topology" / names[1], package)
        caches = [("1", "Data", core), ("1", "Instruction", core), ("2", "Unified", l2), ("3", "Unified", l3)]
        # An instruction cache that all share: it must not make anybody near.
        caches += [("2", "Instruction", package)]
        for index, (level, kind, cpus) in enumerate(caches):
            if cpus:
                for name, value in (("level", level), ("type", kind), ("shared_cpu_list", cpus)):
                    self._write(home / f"cache/index{index}" / name, value)

    def node(self, number: int, cpus: str) -> None:
        self._write(self.folder / f"devices/system/node/node{number}/cpulist", cpus)

    def _write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


def two_sockets(folder: Path, *, old: bool = False) -> Machine:
    """Two sockets of 8 cores with two hardware threads (n and n + 16); an L2 for two cores, an L3 for four, a NUMA node
    for four in the first socket (two L3s there: nodes 0 and 1) and one node for the whole second socket."""
    machine = Machine(folder)
    for cpu in range(32):
        core = cpu % 16
        pair, quad, eight = core // 2 * 2, core // 4 * 4, core // 8 * 8
        both = lambda first, n: f"{first}-{first + n - 1},{first + 16}-{first + 16 + n - 1}"  # noqa: E731
        machine.cpu(
            cpu, core=f"{core},{core + 16}", package=both(eight, 8), l2=both(pair, 2), l3=both(quad, 4), old=old
        )
    machine.node(0, "0-3,16-19")
    machine.node(1, "4-7,20-23")
    machine.node(2, "8-15,24-31")
    (folder / "devices/system/cpu/cpufreq").mkdir()  # a folder beside them that is no CPU
    return machine


@pytest.fixture(scope="session")
def distance_of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim's distance function as a program: ROOT CPUS CPUS."""
    program = tmp_path_factory.mktemp("distance") / "distance_of"
    sources = [str(mpi_program.PROGRAMS / "distance_of.cpp"), str(SOURCE / "preload/mpich/distance.cpp")]
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", f"-I{SOURCE}"]
    subprocess.run([*command, *sources, "-o", str(program)], check=True)
    return program


def distance(program: Path, machine: Machine, a: str, b: str) -> str:
    command = [str(program), str(machine.folder), a, b]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("old", [False, True], ids=["kernel-6", "kernel-4"])
@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        ("0", "16", "same-core"),
        ("3", "3", "same-core"),  # oversubscribed
        ("0", "1", "shared-l2"),
        ("16", "1", "shared-l2"),
        ("0", "2", "shared-l3"),
        ("0,16", "3,19", "shared-l3"),  # bound to cores, not to hardware threads
        ("8", "12", "same-numa"),
        ("0", "4", "same-package"),
        ("0", "8", "same-node"),
        ("0-3", "1", "shared-l3"),  # as far as the first may move
        ("0-7", "0", "same-package"),
        ("0-31", "0-31", "same-node"),
        ("", "0", "same-node"),
        ("0", "99", "same-node"),
    ],
)
def test_distance_is_the_nearest_class_that_covers_both(
    distance_of: Path, tmp_path: Path, a: str, b: str, name: str, old: bool
) -> None:
    """On a machine of two sockets with SMT, an L2 for two cores and an L3 for four, is every class distinguished?"""
    assert distance(distance_of, two_sockets(tmp_path, old=old), a, b) == name


def test_one_numa_node_over_two_sockets_makes_no_pair_near(distance_of: Path, tmp_path: Path) -> None:
    """With NUMA switched off in the firmware, is a pair across the link still same-node?"""
    machine = Machine(tmp_path)
    for cpu in range(4):
        machine.cpu(cpu, core=str(cpu), package="0-1" if cpu < 2 else "2-3")
    machine.node(0, "0-3")
    assert distance(distance_of, machine, "0", "1") == "same-numa"
    assert distance(distance_of, machine, "1", "2") == "same-node"


def test_a_machine_that_tells_nothing_has_one_class(distance_of: Path, tmp_path: Path) -> None:
    """Without any description, are all pairs same-node?"""
    assert distance(distance_of, Machine(tmp_path), "0", "0") == "same-node"


# ---- the shim under MPIs


def has_thresholds(inst: Installation) -> bool:
    return inst.family == "mpich" and tuple(map(int, inst.version.split(".")[:2])) >= (4, 3)


def build_ahead(inst: Installation, programs: Path) -> None:
    if has_thresholds(inst):
        mpi.build_target(inst, SHIM)
        mpi_program.built(inst, "single_copies.cpp", programs)


@pytest.fixture(scope="session")
def mpich(installations: list[Installation]) -> Installation:
    """An MPICH that has thresholds to set."""
    for inst in filter(has_thresholds, installations):
        return inst
    pytest.skip("no MPICH of 4.3 or later here")


@pytest.fixture
def shim(mpich: Installation) -> Path:
    return mpi.build_target(mpich, SHIM)


@pytest.fixture
def program(mpich: Installation, programs: Path) -> Path:
    return mpi_program.built(mpich, "single_copies.cpp", programs)


def run(inst: Installation, program: Path, shim: Path, rules: str, *words: str, **env: str) -> FinishedLaunch:
    """Three ranks, with the shim preloaded into the launcher too. Empty `rules`: none."""
    env = {"LD_PRELOAD": str(shim), "NEARFIELD_PAIR_CLASSES": CLASSES, "NEARFIELD_PAIR_RULES": rules, **env}
    done = mpi.run(inst, [str(program), *words], 3, oversubscribe=len(CORES) < 3, timeout_s=30, env=env)
    assert done.has_succeeded, done.stdout + done.stderr
    return done


def singly(done: FinishedLaunch) -> dict[tuple[str, int], list[int]]:
    """(way, receiver) -> sizes that were copied by the kernel."""
    sizes: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in done.stdout.splitlines():
        way, size, to, calls = line.split()
        sizes[way, int(to)] |= {int(size)} if int(calls) else set()
    return {key: sorted(copied) for key, copied in sizes.items()}


@functools.cache
def stock_copies(inst: Installation, program: Path, shim: Path, *words: str) -> dict[tuple[str, int], list[int]]:
    return singly(run(inst, program, shim, "", *words))


def spoken(done: FinishedLaunch) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("nearfield:")]


@pytest.mark.parametrize("near", ["16384", "131072", "never"])
def test_each_pair_follows_a_separate_threshold(mpich: Installation, program: Path, shim: Path, near: str) -> None:
    """In every way of sending, is a message copied singly from exactly its own pair's threshold on?"""
    limits = {1: 1 << 30 if near == "never" else int(near), 2: 30000}
    done = run(mpich, program, shim, f"shared-l3:single_copy_from={near};same-node:single_copy_from=30000")
    copied = singly(done)
    for way in WAYS:
        for to, limit in limits.items():
            assert copied[way, to] == [size for size in SIZES if size >= limit], (way, to)
    assert copied["inter", 1] == [size for size in SIZES if size >= limits[1]]
    assert not spoken(done)


@pytest.fixture(scope="session")
def thresholds(mpich: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the program that reads and sets thresholds, with a made-up MPICH."""
    program = tmp_path_factory.mktemp("thresholds") / "thresholds"
    sources = [str(mpi_program.PROGRAMS / "thresholds.cpp"), str(SOURCE / "preload/mpich/thresholds.cpp")]
    command = [str(mpich.compiler), "-std=c++20", "-Wall", "-Wextra", f"-I{SOURCE}", *sources, "-o", str(program)]
    subprocess.run(command, check=True, env={**os.environ, **mpich.env, **compiler_environment(mpich)})
    return program


@pytest.mark.parametrize(
    ("unreadable", "said"),
    [
        ("none", ["cma 1000", "xpmem 1000", "cma 4096", "xpmem 4096"]),
        ("xpmem", ["cma 1000", "cma 4096"]),
        ("cma", ["unavailable"]),
    ],
)
def test_a_threshold_that_cannot_be_read_is_not_written(thresholds: Path, unreadable: str, said: list[str]) -> None:
    """In a made-up MPICH: is only that set which can be put back, and is every handle freed?"""
    done = subprocess.run([thresholds, unreadable], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [*said, "0 left"]


def test_a_distance_without_a_rule_stays_stock(mpich: Installation, program: Path, shim: Path) -> None:
    """Do pairs that no rule is for keep MPICH's threshold, also right after a send to one that has a rule?"""
    stock = stock_copies(mpich, program, shim)
    ruled = singly(run(mpich, program, shim, "same-node:single_copy_from=never"))
    for way in WAYS:
        assert ruled[way, 1] == stock[way, 1] != []
        assert ruled[way, 2] == []


@pytest.mark.skipif(len(CORES) < 2, reason="needs two CPUs to bind to")
def test_distances_come_from_bindings(mpich: Installation, program: Path, shim: Path, tmp_path: Path) -> None:
    """Without given classes, do bindings and the kernel's description decide?"""
    first, second = CORES[:2]
    machine = Machine(tmp_path)
    for cpu in (first, second):
        machine.cpu(cpu, core=str(cpu), package=f"{first},{second}", l3=str(cpu))
    rules = "same-core:single_copy_from=never;same-package:single_copy_from=131072"
    binder = tmp_path / "bound"  # rank 0 and 2 on one CPU, 1 on the other
    binder.write_text(f'#!/bin/sh\nexec taskset -c $([ "$PMI_RANK" = 1 ] && echo {second} || echo {first}) "$@"\n')
    binder.chmod(0o755)
    env = {"NEARFIELD_PAIR_CLASSES": "", "NEARFIELD_SYSFS": str(tmp_path)}
    copied = singly(run(mpich, binder, shim, rules, str(program), **env))
    assert copied["send", 1] == copied["isend", 1] == [200000]
    assert copied["send", 2] == copied["isend", 2] == []


@pytest.mark.parametrize(
    ("rules", "words", "env", "reason"),
    [
        ("same-node:single_copy_from=never", ["multiple"], {}, "MPI_THREAD_MULTIPLE"),
        ("same-node:single_copy_from=12q", [], {}, "not a number '12q' at character 28"),
        ("same-node:eager_limit=4096", [], {}, "unknown key 'eager_limit' at character 11"),
        (
            "same-node:single_copy_from=never",
            [],
            {"NEARFIELD_PAIR_CLASSES": "0:same-node"},
            "NEARFIELD_PAIR_CLASSES: no second rank after '0'",
        ),
    ],
)
def test_steps_aside_with_one_line(
    mpich: Installation, program: Path, shim: Path, rules: str, words: list[str], env: dict[str, str], reason: str
) -> None:
    """Where it must not or cannot act, is everything as without it, and the reason said once?"""
    done = run(mpich, program, shim, rules, *words, **env)
    (line,) = spoken(done)
    assert reason in line
    assert singly(done) == stock_copies(mpich, program, shim, *words)


@pytest.mark.turn(1)
def test_steps_aside_under_other_mpis(
    installation: Installation, mpich: Installation, shim: Path, programs: Path
) -> None:
    """Does a program of any other MPI, or of an older MPICH, run with it unharmed, and is the reason said once?"""
    if installation == mpich:
        pytest.skip("here it acts")
    program = mpi_program.built(installation, "messages.cpp", programs)
    done = run(installation, program, shim, "same-node:single_copy_from=never", "3", "200")
    assert len([line for line in done.stdout.splitlines() if line.endswith(" ok")]) == 3
    (line,) = spoken(done)
    assert "no threshold for CMA" in line or "is not MPICH" in line


def test_messages_arrive_under_rules(mpich: Installation, shim: Path, programs: Path) -> None:
    """Do all kinds of messages arrive, whole and in order, while the threshold changes from send to send?"""
    program = mpi_program.built(mpich, "messages.cpp", programs)
    stock = run(mpich, program, shim, "", "5", "500")
    ruled = run(mpich, program, shim, "shared-l3:single_copy_from=1;same-node:single_copy_from=never", "5", "500")
    assert sorted(stock.stdout.splitlines()) == sorted(ruled.stdout.splitlines())


def test_programs_without_mpi_take_no_notice(shim: Path) -> None:
    """Does a program that is none of MPI's load it without a word?"""
    env = {**os.environ, "LD_PRELOAD": str(shim)}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_shows_nothing_but_mpi_names(shim: Path) -> None:
    """Does it need nothing of libmpi to load, and offer nothing else that could stand before a program's own?"""
    needed = subprocess.run(["readelf", "-d", str(shim)], check=True, capture_output=True, text=True).stdout
    assert "mpi" not in "".join(line for line in needed.splitlines() if "NEEDED" in line)
    shown = subprocess.run(["nm", "-D", "--defined-only", str(shim)], check=True, capture_output=True, text=True).stdout
    assert {name.split("_")[0] for name in (line.split()[-1] for line in shown.splitlines())} == {"MPI", "PMPI"}
