"""The halo library: right cells in every grid by every protocol, clear errors in trouble, nothing left behind."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from halo_programs import ROOT, built
from tuning import in_process
from two_nodes import NODES, TwoNodes

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.mpi.launch import launch_command
from nearfield.plan import CostModel, costs_file_text, default_model

CORES = os.cpu_count() or 1
LOST, LATE, MEMORY, ORDER = 3, 4, 2, 6


def build_ahead(inst: Installation, programs: Path) -> None:
    for name in ("halo_check", "halo_faults", "halo_serial"):
        built(inst, name, programs)


@pytest.fixture
def check(installation: Installation, programs: Path) -> Path:
    return built(installation, "halo_check", programs)


@pytest.fixture
def faults(installation: Installation, programs: Path) -> Path:
    return built(installation, "halo_faults", programs)


def waits_busily(inst: Installation) -> bool:
    """Ranks of this MPI do not yield while they wait, so that more of them than cores crawl."""
    return inst.family == "mpich"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_ghost_cell_is_right(installation: Installation, check: Path, ranks: int) -> None:
    """Random grids of one to three dimensions, any periodic sides, uneven and empty parts, halos of 0 to 3 cells,
    several fields, by every protocol, arrays of the caller's and the reverse exchange, too: is every ghost cell as its
    owner has it?"""
    crowded = ranks > CORES and waits_busily(installation)
    if crowded and ranks == 8:
        pytest.skip("8 ranks that wait busily on so few cores take minutes")
    seed = str(ranks + 10 * mpi.find_usable_mpis().index(installation))  # every MPI draws other grids
    cases = "12" if ranks <= CORES else "6" if ranks < 8 else "3"
    arguments = [seed, "1", "in-place"] if crowded else [seed, cases]
    done = mpi.run(installation, [str(check), *arguments], ranks, oversubscribe=ranks > CORES, timeout_s=90)
    assert done.exit_code == 0 and "ok" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


def test_ghost_cells_are_right_between_nodes_of_mpich(installation: Installation, check: Path) -> None:
    """Two ranks that MPICH says are on two nodes (cliques) and four on two: do cells cross by MPI, and rightly?"""
    if installation.family != "mpich":
        pytest.skip("only MPICH can be told that one node is two")
    env = {"MPIR_CVAR_NUM_CLIQUES": "2"}
    for ranks, cases in ((2, "12"), (4, "1")):
        arguments = [str(check), "7", cases] + (["in-place"] if ranks > CORES else [])
        done = mpi.run(installation, arguments, ranks, oversubscribe=ranks > CORES, timeout_s=90, env=env)
        assert done.exit_code == 0 and "ok" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    faults = built(installation, "halo_faults", check.parents[1])
    done = mpi.run(installation, [str(faults), "explain"], 2, timeout_s=60, env=env)
    assert "0 read in place, 0 on the node by copy, 1 by MPI" in done.stdout, done.stdout


def test_ghost_cells_are_right_between_two_hosts(installation: Installation, check: Path, nodes: TwoNodes) -> None:
    """On two hosts of their own names, two ranks each, is all right, too?"""
    if waits_busily(installation):
        pytest.skip("four ranks that wait busily on two cores; its cliques are tested above")
    command, env = launch_command(
        installation, [str(check), "3", "2", "in-place"], 4, hosts=[(node, 2) for node in NODES], oversubscribe=True
    )
    done = subprocess.run(
        nodes.on(NODES[0], command), env={**env, **nodes.env}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


def test_corners_that_ranks_share_are_right_between_nodes(
    installation: Installation, programs: Path, request: pytest.FixtureRequest
) -> None:
    """2 x 2 ranks on two nodes, a box stencil: the ranks of a node share ghost cells that both receive from the other
    node. Is every own and every ghost cell of every step as on one rank?"""
    program = [str(built(installation, "halo_serial", programs))]
    if installation.family == "mpich":
        done = mpi.run(installation, program, 4, oversubscribe=True, timeout_s=90, env={"MPIR_CVAR_NUM_CLIQUES": "2"})
        assert done.exit_code == 0 and done.stdout == "ok\n", done.stdout[-2000:] + done.stderr[-2000:]
        return
    nodes: TwoNodes = request.getfixturevalue("nodes")
    command, env = launch_command(installation, program, 4, hosts=[(node, 2) for node in NODES], oversubscribe=True)
    there = nodes.on(NODES[0], command)
    ended = subprocess.run(there, env={**env, **nodes.env}, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and ended.stdout == "ok\n", ended.stdout[-2000:] + ended.stderr[-2000:]


def test_neighbours_are_read_in_place(installation: Installation, faults: Path) -> None:
    """Does a rank find its neighbour's cells where its own ghost cells would be, and does the grid say so, and on what
    pages?"""
    done = mpi.run(installation, [str(faults), "explain"], 2, timeout_s=60)
    assert "read 1 of 1" in done.stdout, done.stdout + done.stderr
    assert "neighbours: 1 read in place, 0 on the node by copy, 0 by MPI" in done.stdout
    pages = re.search(
        r"8\.\d MiB in .*, (huge pages.*|4 KiB pages: .*); mapped by huge pages here: ([\d.]+) MiB", done.stdout
    )
    assert pages, done.stdout
    alone = int(re.search(r"; (\d+) % of its pages are one rank's alone", done.stdout)[1])  # type: ignore[index]
    assert alone == 80 if float(pages[2]) > 4 else 99 <= alone <= 100, done.stdout
    if "huge pages (collapsed)" in pages[1]:
        assert float(pages[2]) > 4, done.stdout


@pytest.mark.families
def test_cpus_are_those_that_ranks_may_use(installation: Installation, faults: Path) -> None:
    """Two ranks on one CPU of several, and on two: is it said that they are more than CPUs, and only then?"""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    for mine, crowded in (("$cpu", False), (str(cpus[0]), True)):
        rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
        argv = ["sh", "-c", f"cpu={cpus[0]}; [ {rank} = 0 ] || cpu={cpus[1]}; taskset -c {mine} {faults} explain"]
        done = mpi.run(installation, argv, 2, timeout_s=60)
        assert "read 1 of 1" in done.stdout, done.stdout + done.stderr
        assert ("more ranks than CPUs here, 2 on 1: " in done.stdout) == crowded, done.stdout


@pytest.mark.parametrize("protocol", ["in-place", "window"])
def test_pages_across_a_border_are_touched_by_who_has_more_of_them(
    installation: Installation, faults: Path, protocol: str
) -> None:
    """First touch decides the NUMA node. Two ranks, borders at many places of a page: has the rank with the larger
    share of that page touched it, and the other one not?"""
    done = mpi.run(installation, [str(faults), "touch", protocol], 2, timeout_s=60)
    said = f"{done.stdout}{done}"
    cases = [tuple(map(int, line.split()[1:])) for line in said.splitlines() if line.startswith("border ")]
    clear = [case for case in cases if abs(case[0] - 2048) > 256]  # a part begins a little before its first cell
    assert {before > 2048 for before, _, _ in clear} == {True, False}, said
    assert all((first, second) == ((1, 0) if before > 2048 else (0, 1)) for before, first, second in clear), said


def arrays_go(inst: Installation, faults: Path, costs: Path) -> str:
    """Returns what two ranks print that exchange arrays by these costs, and then the whole result of the launch."""
    done = mpi.run(inst, [str(faults), "arrays"], 2, timeout_s=60, env={"NEARFIELD_HALO_COSTS": str(costs)})
    return f"{done.stdout}{done}"


def test_costs_decide_how_arrays_go(installation: Installation, faults: Path, tmp_path: Path) -> None:
    """By a file of costs that only rank 0 gets: does a machine whose messages cost nearly nothing send them, one
    whose copies do stage them, and does the grid say where the costs are from and predict by them?"""
    for wanted, latency_ns, copy_ns_per_byte in (("persistent", 0, 1), ("staged", 1e6, 1e-5)):
        known = default_model()
        assert known.costs.in_place
        known.costs.in_place.latency_ns = 3e6 if wanted == "persistent" else 0
        known.costs.same_node.latency_ns, known.costs.same_node.ns_per_byte = latency_ns, 1e-5
        known.costs.copy_ns_per_byte = copy_ns_per_byte
        file = tmp_path / wanted
        file.write_text(costs_file_text(CostModel(known.costs, f"a made-up machine for {wanted}")))
        said = arrays_go(installation, faults, file)
        assert f"arrays go by {wanted}\ngrid of" in said, said
        assert f"costs of a made-up machine for {wanted}\n" in said, said
        assert (" 2 x 1 30" in said) == (wanted == "persistent"), said


@pytest.mark.families
def test_costs_that_cannot_be_read_are_an_error(installation: Installation, faults: Path, tmp_path: Path) -> None:
    """Are a missing file, an empty one, and one with a wrong line named with a remedy, and ignored on no rank?"""
    empty, wrong = tmp_path / "empty", tmp_path / "wrong"
    empty.write_text("")
    wrong.write_text(costs_file_text(default_model()).replace("copy_ns_per_byte ", "copy_ns_per_byte x"))
    for file, text in (
        (tmp_path / "none", "none cannot be read: No such file"),
        (empty, "empty, after line 0: "),
        (wrong, "wrong, line 20: copy_ns_per_byte: 'x"),
    ):
        said = arrays_go(installation, faults, file)
        assert said.startswith("code 1: ") and text in said and "--costs PROFILE" in said, said


@pytest.mark.families
def test_more_than_two_gibibytes_arrive(installation: Installation, programs: Path) -> None:
    """A row longer than an MPI call can count, and than the kernel copies in one: has all of it come?"""
    large_row(installation, programs, "sendrecv")


@pytest.mark.parametrize("protocol", ["neighborhood", "single-copy"])
def test_more_than_two_gibibytes_arrive_by(installations: list[Installation], programs: Path, protocol: str) -> None:
    """Do they also arrive by the other protocols?"""
    large_row(installations[0], programs, protocol)


def large_row(installation: Installation, programs: Path, protocol: str) -> None:
    free = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    if not free or int(free[1]) < 10 << 20:
        pytest.skip("needs 10 GiB of memory")
    program = built(installation, "halo_large", programs)
    done = mpi.run(installation, [str(program), protocol], 2, timeout_s=120)
    if "processes may not read each other's memory" in done.stdout:
        pytest.skip(done.stdout)
    assert done.stdout == "ok\n", done.stdout + done.stderr[-2000:]


@pytest.mark.families
def test_a_late_neighbour_is_an_error(installation: Installation, faults: Path) -> None:
    """Does waiting end at the limit, naming the rank that did not come?"""
    done = mpi.run(installation, [str(faults), "late"], 2, timeout_s=60)
    assert f"code {LATE}: rank 1 " in done.stdout and "within 0.5 s" in done.stdout, done.stdout + done.stderr


@pytest.mark.families
def test_a_dead_neighbour_is_an_error(installation: Installation, faults: Path, tmp_path: Path) -> None:
    """A rank is killed, behind a shell so that the launcher does not end the others at once: does its neighbour notice,
    long before the limit of 600 s?"""
    release = tmp_path / "told"

    def end(stream: str, line: str) -> None:
        if line.startswith("code"):
            release.touch()

    argv = ["sh", "-c", f"{faults} die; until [ -e {release} ]; do sleep 0.05; done"]
    done = mpi.run(installation, argv, 2, timeout_s=30, on_line=end)
    assert f"code {LOST}: rank 1 " in done.stdout and "has died" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("protocol", ["in-place", "persistent"])
@pytest.mark.families
def test_too_much_memory_is_an_error(installation: Installation, faults: Path, protocol: str) -> None:
    """Is a field of 8 PiB refused with the memory that there is, before anything is touched?"""
    done = mpi.run(installation, [str(faults), "huge", protocol], 2, timeout_s=60)
    assert f"code {MEMORY}: " in done.stdout and "a field needs" in done.stdout, done.stdout + done.stderr


@pytest.mark.families
def test_a_phase_out_of_order_is_an_error(installation: Installation, faults: Path) -> None:
    """Is a second start in a row an error that says so?"""
    done = mpi.run(installation, [str(faults), "order"], 2, timeout_s=60)
    assert f"code {ORDER}: start was called twice" in done.stdout, done.stdout + done.stderr


@pytest.mark.families
def test_reading_too_early_is_found(installation: Installation, faults: Path) -> None:
    """With NEARFIELD_HALO_CHECK: does using a neighbour's cell between start and finish end the program, naming it?"""
    done = mpi.run(installation, [str(faults), "early"], 2, timeout_s=60)
    assert done.exit_code != 0
    assert "is a neighbour's, and was used between start and finish" in done.stderr, done.stderr


@pytest.mark.families
def test_nothing_is_left_after_a_kill(installation: Installation, faults: Path) -> None:
    """Ranks with fields are killed with -9: is /dev/shm as before, and was there never a file of ours that others could
    open?"""
    before = {p.name for p in Path("/dev/shm").iterdir()}
    command, env = launch_command(installation, [str(faults), "hold"], 2)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout
    while "ready" not in process.stdout.readline():
        assert process.poll() is None
    ours = [p for p in Path("/dev/shm").iterdir() if p.name.startswith("nearfield")]
    subprocess.run(["pkill", "-9", "-f", str(faults)])
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    left = {p.name for p in Path("/dev/shm").iterdir()} - before
    assert not ours and not [name for name in left if name.startswith("nearfield")]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_small_shared_memory_is_an_error_and_never_a_signal(installation: Installation, faults: Path) -> None:
    """/dev/shm of 32 MiB, little as in containers: does a window fail with a clear error, and the library's own
    memory not need it?"""
    if installation.family == "intel":
        pytest.skip("Intel MPI itself needs more shared memory than that to start")
    for protocol, wanted in (("window", "but /dev/shm has"), ("in-place", "read 1 of 1")):
        command, env = launch_command(installation, [], 2)
        small = "mount -t tmpfs -o size=32m tmpfs /dev/shm && exec " + " ".join(
            [*command, str(faults), "write", protocol]
        )
        there = ["unshare", "-m", "sh", "-c", small]
        done = subprocess.run(there, env=env, capture_output=True, text=True, timeout=60)
        assert wanted in done.stdout, protocol + done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="process namespaces need root")
def test_ranks_that_cannot_open_each_others_files_share_a_named_one(installation: Installation, faults: Path) -> None:
    """Each rank in a process namespace of its own, as in containers: do they meet through /dev/shm, in a file that is
    unlinked at once?"""
    if installation.family == "openmpi":
        pytest.skip("Open MPI itself cannot: it tells ranks apart by process number")
    before = {p.name for p in Path("/dev/shm").iterdir()}
    argv = ["unshare", "--pid", "--fork", "--mount-proc", str(faults), "explain"]
    done = mpi.run(installation, argv, 2, timeout_s=60)
    assert "read 1 of 1" in done.stdout and "an unlinked file of /dev/shm" in done.stdout, done.stdout + done.stderr
    assert {p.name for p in Path("/dev/shm").iterdir()} <= before


_GRID = ("--rows", "33", "--columns", "40", "--sweeps", "3", "--check")
_PROGRAMS = {
    "cxx": (["-std=c++20"], "tests/programs/halo_faults.cpp", ["explain"], "read 1 of 1"),
    "cc": ([], "examples/gauss_seidel.c", _GRID, "check: 0 cells differ"),
}


@pytest.mark.families
@pytest.mark.parametrize("language", _PROGRAMS)
def test_flags_are_all_that_a_compiler_needs(installation: Installation, language: str, tmp_path: Path) -> None:
    """Does a program in C++ and in C build, as the help says, with what `nearfield halo --flags` prints, and run?
    (Fortran: test_install.py)"""
    standard, source, arguments, expected = _PROGRAMS[language]
    whole = in_process("halo", "--mpi", installation.name).out
    compiler = installation.compiler.with_name(installation.compiler.name.replace("cxx", language))
    flags = in_process("halo", "--mpi", installation.name, "--flags").out.split()
    assert shlex.join([str(installation.compiler), "-std=c++20", "app.cpp", *flags]) in whole
    env = {**os.environ, **installation.env, **compiler_environment(installation)}
    subprocess.run([compiler, *standard, ROOT / source, *flags, "-lm", "-o", "app"], check=True, env=env, cwd=tmp_path)
    done = mpi.run(installation, [str(tmp_path / "app"), *arguments], 2, timeout_s=60)
    assert expected in done.stdout, done.stdout + done.stderr


@pytest.mark.families
def test_an_older_standard_is_reported(installation: Installation, tmp_path: Path) -> None:
    """Does a C++17 compiler say that the header wants C++20, and not templates' errors?"""
    source = tmp_path / "app.cpp"
    source.write_text('#include "nearfield/halo.hpp"\n')
    env = {**os.environ, **installation.env, **compiler_environment(installation)}
    command = [installation.compiler, "-std=c++17", "-fsyntax-only", "-Wfatal-errors", f"-I{ROOT / 'include'}", source]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode != 0 and "needs C++20: compile with -std=c++20" in done.stderr


@pytest.mark.parametrize("broken", [False, True])
def test_signals_have_no_race(tmp_path: Path, broken: bool) -> None:
    """Ranks as threads under ThreadSanitizer: do the signals order all reads and writes of cells? And would it notice
    if they did not?"""
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    program = tmp_path / "race"
    command = ["g++", "-std=c++20", "-O1", "-fsanitize=thread", f"-I{ROOT / 'src'}", *(["-DBROKEN"] if broken else [])]
    subprocess.run([*command, str(ROOT / "tests/cpp/signals_race.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert ("data race" in done.stderr) == broken, done.stderr
    assert broken or done.stdout == "ok\n"
