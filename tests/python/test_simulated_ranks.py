"""Do the simulator's network, ranks and policies do what their C++ tests ask?"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tomlkit
from simulator_programs import CPP, FLAGS, ROOT, build

PARTS = ["network", "ranks", "policies", "scenarios", "collectives", "applications"]
OF_PROGRAMS = ["stream", "datatypes", "matching", "replay", "windows"]  # that were observed


@pytest.mark.parametrize("name", [*PARTS, *OF_PROGRAMS])
def test_each_part(programs: Path, name: str) -> None:
    """Routes and LogGP; matching, protocols, deadlocks, determinism; which lines each policy puts where; what scenarios
    count; what collectives give, and how long they take; what applications do. Is a stream read as it was written, and
    does a cluster do what it says, on any number of threads?"""
    test = build(f"test_{name}", programs)
    done = subprocess.run([test], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mistakes_in_windows_are_found(programs: Path, tmp_path: Path) -> None:
    """Does the test of windows notice each mistake in them, and do shorter windows change no digit?"""
    program = build("test_windows", programs)
    objects = program.parents[2]
    libraries = [objects / "src" / folder / f"libnearfield_{name}.a" for folder, name in (
        ("sim", "sim"), ("sim", "memory"), ("sim", "routes"), ("scenario", "scenario"), ("base", "base"))]  # fmt: skip
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    own = next((objects / "tests").rglob("test_windows.cpp.o"))
    right = (ROOT / "src" / "sim" / "windows.cpp").read_text()
    changes = tomlkit.parse((ROOT / "tests" / "injected_bugs" / "windows.toml").read_text()).unwrap()

    def changed(change: dict[str, str]) -> Path:
        assert right.count(change["old"]) == 1, change["name"]
        source, made = tmp_path / "windows.cpp", tmp_path / "test"
        source.write_text(right.replace(change["old"], change["new"]))
        files = [f"-I{ROOT / 'src'}", f"-I{CPP}", source, own, *libraries]
        subprocess.run([compiler, "-std=c++20", "-pthread", *FLAGS.split(), "-o", made, *files], check=True)
        return made

    def run(test: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([test, *arguments], capture_output=True, text=True, timeout=100, check=False)

    for change in changes["bug"]:
        assert run(changed(change)).returncode != 0, change["name"]
    digits = run(program, "digits").stdout
    assert len(digits.split()) > 1000
    for change in changes["harmless"]:
        assert run(changed(change), "digits").stdout == digits, change["name"]
