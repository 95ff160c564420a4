"""Builds the C++ tests under sanitizers in one folder, so that shared parts are built once."""

import os
import subprocess
from pathlib import Path

from filelock import FileLock
from installed import cmake, ninja

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"
TESTS = sorted(file.stem.removeprefix("test_") for file in CPP.glob("test_*.cpp"))
# Abandoned runs must not leak, and no bits be shifted away. All checks that compilers know take four times as long:
# NEARFIELD_TEST_FLAGS="-O1 -fsanitize=address,undefined" make test-sanitized
FLAGS = os.environ.get("NEARFIELD_TEST_FLAGS", "-O1 -fsanitize=leak,shift -fno-sanitize-recover=shift")


def build(target: str, programs: Path) -> Path:
    """Returns one of tests/cpp's programs; the first call builds all of them by the project's own CMake."""
    folder = programs / "simulator"
    with FileLock(f"{folder}.lock"):
        if not (built := folder / "built").exists():
            _build_all(folder)
            built.touch()
    return folder / "tests" / "cpp" / target


def _build_all(folder: Path) -> None:
    choices = [*ninja(), "-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={FLAGS}"]
    targets = [*(f"test_{name}" for name in TESTS), "replay"]
    for command in (["-S", ROOT, "-B", folder, *choices], ["--build", folder, "-j2", "--target", *targets]):
        done = subprocess.run([cmake(), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
