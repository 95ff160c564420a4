"""Does the simulated memory do what its description says, and would its tests notice if it did not?"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tomlkit
from simulator_programs import CPP, ROOT, build

BUGS = tomlkit.parse((ROOT / "tests" / "injected_bugs" / "reference_memory.toml").read_text()).unwrap()["bug"]
COMPILE = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++20", "-O1"]
COMPILE += [f"-I{ROOT / 'src'}", f"-I{CPP}"]


def test_memory_is_as_the_reference_model(tmp_path):
    """Are counts and states those of the slow model, on random traces over random machines, and do the laws hold?"""
    program = build("test_memory_oracle", tmp_path)
    result = subprocess.run([program], capture_output=True, text=True, timeout=150, check=False)
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The comparison with the right model, without what it compares."""
    folder = tmp_path_factory.mktemp("comparison")
    names = ["test_memory_oracle", "memory_traces", "reference_memory"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: subprocess.run([*COMPILE, "-c", CPP / f"{n}.cpp"], check=True, cwd=folder), names))
    return [folder / f"{name}.o" for name in names]


def compare(comparison: list[Path], model: str, folder: Path, machines: int) -> subprocess.CompletedProcess[str]:
    """Compares the right model with this one, which gets another name to be in one program with it."""
    folder.mkdir()
    adaptor = (CPP / "reference_as_memory.cpp").read_text()
    (folder / "model.cpp").write_text("#define ReferenceMemory Other\n" + model + adaptor)
    subprocess.run([*COMPILE, "-o", "compare", "model.cpp", *comparison], check=True, cwd=folder)
    command = [folder / "compare", str(machines)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_reference_model_obeys_the_laws(comparison, tmp_path):
    """Does the model agree with itself, and do counts add up and copies exclude each other there?"""
    result = compare(comparison, (CPP / "reference_memory.cpp").read_text(), tmp_path / "right", 60)
    assert result.returncode == 0, result.stdout


def test_every_injected_bug_is_found(comparison, tmp_path):
    """Would the comparison notice a mistake in a memory? (A test that cannot fail proves nothing.)"""
    right = (CPP / "reference_memory.cpp").read_text()

    def survives(numbered: tuple[int, dict]) -> str | None:
        number, bug = numbered
        assert right.count(bug["old"]) == 1, f"'{bug['name']}' no longer fits reference_memory.cpp"
        result = compare(comparison, right.replace(bug["old"], bug["new"]), tmp_path / str(number), 60)
        return None if "not as the reference model" in result.stdout else bug["name"]

    with ThreadPoolExecutor(2) as pool:
        survivors = [name for name in pool.map(survives, enumerate(BUGS)) if name]
    assert not survivors
