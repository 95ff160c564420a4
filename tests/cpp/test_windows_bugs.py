"""Would the C++ test of the simulator's windows of time notice a mistake in them?"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tomlkit
from simulator_programs import FLAGS, ROOT, build


@pytest.mark.injected
@pytest.mark.turn(0)
def test_mistakes_in_windows_are_found(programs: Path, tmp_path: Path) -> None:
    """Does the test of windows notice each mistake in them, and do shorter windows change no digit?"""
    program = build("test_windows", programs)
    changes = tomlkit.parse((ROOT / "tests" / "injected_bugs" / "windows.toml").read_text()).unwrap()
    text = (ROOT / "src" / "sim" / "run" / "window_scheduler.cpp").read_text()
    wrong: dict[str, str] = {}
    for number, change in enumerate(changes["bug"] + changes["harmless"]):
        old = change["old"]
        assert text.count(old) == 1, change["name"]
        wrong[old] = f"(bug == {number} ? ({change['new']}) : ({wrong.get(old, old)}))"
    for old, new in wrong.items():
        text = text.replace(old, new)
    source, changed, objects = tmp_path / "window_scheduler.cpp", tmp_path / "changed", program.parents[2]
    source.write_text(f'#include <cstdlib>\nstatic const int bug = std::atoi(std::getenv("BUG"));\n{text}')
    parts = ("sim", "sim"), ("sim", "memory"), ("sim", "routes"), ("scenario", "scenario"), ("base", "base")
    libraries = [objects / "src" / folder / f"libnearfield_{name}.a" for folder, name in parts]
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    files = [source, next((objects / "tests").rglob("test_windows.cpp.o")), *libraries]
    options = ["-std=c++20", "-pthread", f"-I{ROOT / 'src'}", *FLAGS.split()]
    subprocess.run([compiler, *options, "-o", changed, *files], check=True)

    def run(test: Path, bug: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command, environment = [test, *arguments], {**os.environ, "BUG": str(bug)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=6000, check=False)

    missed = [bug["name"] for number, bug in enumerate(changes["bug"]) if run(changed, number).returncode == 0]
    assert not missed
    digits = run(program, -1, "digits").stdout
    assert len(digits.split()) > 1000
    for number in range(len(changes["bug"]), len(changes["bug"]) + len(changes["harmless"])):
        assert run(changed, number, "digits").stdout == digits
