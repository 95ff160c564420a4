"""Would the C++ tests of the estimators notice a mistake in one?"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tomlkit

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "base" / "statistics.cpp"
BUGS = tomlkit.parse((ROOT / "tests" / "injected_bugs" / "statistics.toml").read_text()).unwrap()["bug"]


COMPILE = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++20", "-O0", f"-I{ROOT / 'src'}"]


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the C++ tests, compiled, and what the estimators include, compiled ahead."""
    made, folder = tmp_path_factory.mktemp("tests"), ROOT / "tests" / "cpp"
    includes = [line for line in SOURCE.read_text().splitlines() if line.startswith("#include")]
    (made / "ahead.hpp").write_text("\n".join(includes) + "\n")
    options = [f"-I{folder}", f'-DSAMPLES="{folder / "samples"}"', "-c", str(folder / "test_statistics.cpp")]
    subprocess.run([*COMPILE, *options], check=True, cwd=made)
    subprocess.run([*COMPILE, "-x", "c++-header", "ahead.hpp", "-o", "ahead.hpp.gch"], check=True, cwd=made)
    return made


def build_and_run(source: str, tests: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The C++ tests with this text as statistics.cpp."""
    folder.mkdir(parents=True)
    (folder / "statistics.cpp").write_text(source)
    options = ["-include", tests / "ahead.hpp", "-o", "test", "statistics.cpp", tests / "test_statistics.o"]
    subprocess.run([*COMPILE, *options], check=True, cwd=folder)
    return subprocess.run([folder / "test"], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.injected
def test_every_injected_bug_is_caught(tests: Path, tmp_path: Path) -> None:
    """Would the C++ tests notice a mistake in an estimator? (A test that cannot fail proves nothing.)"""
    right = SOURCE.read_text()

    def survives(numbered: tuple[int, dict]) -> str | None:
        number, bug = numbered
        assert right.count(bug["old"]) == 1, f"'{bug['name']}' no longer fits statistics.cpp"
        try:
            result = build_and_run(right.replace(bug["old"], bug["new"]), tests, tmp_path / str(number))
        except subprocess.TimeoutExpired:
            return None
        return bug["name"] if result.returncode == 0 else None

    with ThreadPoolExecutor(2) as pool:
        survivors = [name for name in pool.map(survives, enumerate(BUGS)) if name]
    assert not survivors
