"""Programs built for an MPI, on first use, into the cache; with the real MPIs of this machine."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import mpi_program
import pytest
from mpi_program import TARGET

from nearfield import mpi
from nearfield.base.errors import MpiError
from nearfield.mpi import Installation, build
from nearfield.mpi.compiler import find_first_error
from nearfield.mpi.families import FAMILIES


@pytest.fixture(scope="session")
def project(programs: Path) -> Path:
    return mpi_program.project_of("trial.cpp", programs)


@pytest.fixture
def cache(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the cache of the tests' programs, for a test that leaves it whole."""
    monkeypatch.setenv("NEARFIELD_CACHE", str(programs / "cache"))


@pytest.fixture
def scratch_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that a test may spoil."""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("damage", ["truncate", "remove", "note", "mode"])
def test_damaged_cache_entry_is_built_again(
    damage: str, installations: list[Installation], project: Path, cache: None
) -> None:
    """Is an executable that is not the one that was built replaced, instead of run?"""
    inst = installations[0]
    exe = mpi.build_target(inst, TARGET, source=project)
    match damage:
        case "truncate":
            os.truncate(exe, 100)
        case "remove":
            exe.unlink()
        case "note":
            (exe.parent / "build.json").write_text("{")
        case "mode":
            exe.chmod(0o644)
    assert not mpi.is_built(inst, TARGET, source=project)
    assert mpi.build_target(inst, TARGET, source=project) == exe
    assert exe.stat().st_size > 1000 and os.access(exe, os.X_OK)


@pytest.mark.slow
def test_changed_source_is_another_build(
    installations: list[Installation], tmp_path: Path, scratch_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does an edit of the sources lead to a new executable, and the edit undone back to the old one? Does who waits see
    how far it is?"""
    inst = installations[0]
    monkeypatch.setattr(build, "LOG_INTERVAL_S", 0.05)
    said: list[str] = []
    folder = mpi_program.write_project(tmp_path / "project", "int main() { return 0; }")
    first = mpi.build_target(inst, TARGET, said.append, folder)
    assert {"still building: CMake looks at the compiler", "still building: compiling 1 of 2"} & set(said)
    mpi_program.write_project(folder, "int main() { return 1; }")
    assert mpi.build_target(inst, TARGET, source=folder) != first
    mpi_program.write_project(folder, "int main() { return 0; }")
    assert mpi.is_built(inst, TARGET, source=folder)


@pytest.mark.slow
def test_moved_source_is_another_build(installations: list[Installation], tmp_path: Path, scratch_cache: Path) -> None:
    """If a new version has the sources of an executable in another folder, is it the new one that is returned, although
    the build tree still has the old one?"""
    folder = mpi_program.write_project(tmp_path / "project", "int main() { return 1; }")
    assert subprocess.run([mpi.build_target(installations[0], TARGET, source=folder)]).returncode == 1
    listed = folder / "CMakeLists.txt"
    moved = folder / "src" / "moved"
    moved.mkdir()
    project, target = listed.read_text().split("add_executable", 1)
    (moved / "CMakeLists.txt").write_text("add_executable" + target.replace("src/", "../"))
    listed.write_text(project + "add_subdirectory(src/moved)\n")
    (folder / "src/trial.cpp").write_text("int main() { return 2; }")
    assert subprocess.run([mpi.build_target(installations[0], TARGET, source=folder)]).returncode == 2


def test_failed_build_says_the_first_error(
    installations: list[Installation], tmp_path: Path, scratch_cache: Path
) -> None:
    """Does a person see the compiler's first error, and find the whole log?"""
    source = "#include <mpi.h>\nint main() {\n  first_mistake();\n  second_mistake();\n}\n"
    folder = mpi_program.write_project(tmp_path / "project", source)
    with pytest.raises(MpiError) as error:
        mpi.build_target(installations[0], TARGET, source=folder)
    assert re.search(r"trial\.cpp:3:\d+: error:.*first_mistake", error.value.message)
    log = Path(error.value.remedy.rsplit(" ", 1)[1])
    assert "second_mistake" in log.read_text()


def test_missing_compiler_is_named(
    installation: Installation, project: Path, scratch_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is the compiler that is not there named, with what to install?"""
    monkeypatch.setenv(FAMILIES[installation.family].compiler_variable, "no-such-g++")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(MpiError) as error:
        mpi.build_target(installation, TARGET, source=project)
    assert "'no-such-g++'" in error.value.message
    assert "apt install g++" in error.value.remedy


def test_unwritable_cache_is_named(
    installations: list[Installation], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does an error of the file system name the cache and the way out?"""
    monkeypatch.setenv("NEARFIELD_CACHE", "/proc/nearfield")
    with pytest.raises(MpiError, match="/proc/nearfield") as error:
        mpi.build_target(installations[0], TARGET, source=project)
    assert "NEARFIELD_CACHE" in error.value.remedy


def test_the_lock_of_a_killed_build_counts_no_more(tmp_path: Path) -> None:
    """While another process builds, is that said at once? And does its lock end with it, however it ends?"""
    file = tmp_path / "x.lock"
    script = f"import time; from filelock import FileLock; lock = FileLock({str(file)!r}); lock.acquire(); "
    command = [sys.executable, "-c", f"{script}print(1, flush=True); time.sleep(100)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline()
        with build._hold_lock(file, other.kill):
            assert other.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_simultaneous_builds_make_one(installations: list[Installation], project: Path, scratch_cache: Path) -> None:
    """When three processes ask at once, does one build, and do all get it?"""
    code = (
        "import sys; from pathlib import Path; from nearfield import mpi\n"
        "print(mpi.build_target(mpi.choose_mpi(sys.argv[1]), sys.argv[2], print, Path(sys.argv[3])))"
    )
    command = [sys.executable, "-c", code, installations[0].name, TARGET, str(project)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert all(child.returncode == 0 for child in children)
    assert sum("building" in text for text in said) == 1
    assert len({text.splitlines()[-1] for text in said}) == 1


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            "$ cmake\nfoo.cpp:1:2: fatal error: mpi.h: No such file or directory\nx.cpp:2: error: b\n",
            "mpi.h: No such",
        ),
        (
            "[1/2] ld\n/usr/bin/ld: cannot find -lmpi: No such file\ncollect2: error: ld returned 1\n",
            "cannot find -lmpi",
        ),
        (
            "CMake Error at CMakeLists.txt:3 (project):\n  CMAKE_CXX_COMPILER:\n\n    x\n\n  is no path\n",
            "CXX_COMP",
        ),
        ("nothing that looks like one\n", "nothing that"),
    ],
)
def test_first_error_of_recorded_logs(log: str, error: str) -> None:
    """Is the first thing that went wrong picked from logs of compilers, linkers and CMake?"""
    assert error in find_first_error(log)
