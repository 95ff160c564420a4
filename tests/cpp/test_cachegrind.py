"""Are the simulated caches' misses those that Valgrind's cachegrind counts, on a real program's accesses?

tests/programs/walks.c is traced once, by lackey; tests/cpp/replay.cpp feeds the trace to the simulated memory, and says
how the two are made alike. Both must have seen the same program: references are compared as well as misses.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from simulator_programs import ROOT, build
from traces import machine_of

from nearfield.simulate import Memory
from nearfield.simulate.source import TraceSource
from nearfield.simulate.trace import TraceRun, TraceSelection

VALGRIND = shutil.which("valgrind")
# Nothing but the program itself, at fixed addresses; -O0 so that it does what it says.
COMPILE = ["-O0", "-static", "-nostdlib", "-no-pie", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none"]
COMPILE += ["-fno-asynchronous-unwind-tables", "-fno-toplevel-reorder"]
pytestmark = [
    pytest.mark.turn(1),
    pytest.mark.skipif(VALGRIND is None, reason="valgrind is missing (Debian: apt install valgrind)"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="walks.c has x86-64's entry and exit"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="walks.c needs GNU's compiler and assembler"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Path:
    """A folder with the program, its trace, and what replays it."""
    folder = tmp_path_factory.mktemp("cachegrind")
    source = ROOT / "tests" / "programs" / "walks.c"
    subprocess.run(["gcc", *COMPILE, "-o", folder / "walks", source], check=True)
    trace = [VALGRIND, "--tool=lackey", "--trace-mem=yes", f"--log-file={folder / 'trace'}", folder / "walks"]
    subprocess.run(trace, check=True, timeout=600)
    (folder / "replay").symlink_to(build("replay", programs))
    return folder


def cachegrind(folder: Path, nearest: str, last: str) -> dict[str, int]:
    """References and misses by cachegrind's own names, as its output file has them."""
    out = folder / "cachegrind.out"
    command = [VALGRIND, "--tool=cachegrind", "--cache-sim=yes", f"--I1={nearest}", f"--D1={nearest}", f"--LL={last}"]
    command += [f"--cachegrind-out-file={out}", folder / "walks"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    fields = dict(line.split(": ", 1) for line in out.read_text().splitlines() if ": " in line)
    names, values = fields["events"].split(), fields["summary"].split()
    return dict(zip(names, map(int, values), strict=True))


def simulated(folder: Path, nearest: str, last: str, *options: str) -> dict[str, int]:
    with (folder / "trace").open() as trace:
        command = [folder / "replay", nearest, last, *options]
        result = subprocess.run(command, stdin=trace, check=True, capture_output=True, text=True, timeout=600)
    return {name: int(value) for name, value in (line.split() for line in result.stdout.splitlines())}


@pytest.mark.parametrize(
    ("nearest", "last"),
    [
        pytest.param("1024,2,64", "8192,4,64", id="small"),
        pytest.param("2048,1,32", "16384,8,128", id="longer-lines-further-out"),
        pytest.param("4096,64,64", "12288,3,64", id="fully-associative-and-3-ways"),
    ],
)
def test_misses_are_cachegrinds(folder, nearest, last):
    """Do all misses agree, instructions' and data's, when the last cache is too small for the program?"""
    expected = cachegrind(folder, nearest, last)
    assert all(expected.values())
    assert expected["DLmr"] > 2000
    assert simulated(folder, nearest, last, "--stores-as-loads") == expected
    # The contents of the last cache do not matter to the nearest ones.
    stored = simulated(folder, nearest, last)
    assert {n: v for n, v in stored.items() if "L" not in n} == {n: v for n, v in expected.items() if "L" not in n}


def test_a_trace_by_the_command_has_cachegrinds_misses(folder):
    """Are they as many when `nearfield simulate trace` reads the trace by itself?"""
    nearest = (4096, 2, 64)
    expected = cachegrind(folder, "4096,2,64", "1048576,16,64")
    run = TraceRun(Memory(machine_of(folder, nearest)), TraceSelection())
    with TraceSource(str(folder / "trace")) as source:
        run.run(source)
    assert run.memory.counts.levels[0].misses == expected["D1mr"] + expected["D1mw"]
    assert (run.native_accesses.loads, run.native_accesses.instructions) == (expected["Dr"], expected["Ir"])


def test_stores_are_cachegrinds(folder):
    """Do all misses agree with stores as stores, when the last cache keeps everything once it is there?"""
    nearest, last = "2048,4,64", "1048576,16,64"
    expected = cachegrind(folder, nearest, last)
    assert simulated(folder, nearest, last) == expected
