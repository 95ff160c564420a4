"""Builds the C++ tests under sanitizers in one folder, in two groups, whose shared parts are built once."""

import os
import subprocess
from pathlib import Path

from filelock import FileLock
from installed import cmake, ninja

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"
TESTS = sorted(file.stem.removeprefix("test_") for file in CPP.glob("test_*.cpp"))
# The tests that need no simulated ranks, whose programs are built in a third of the time; and the others.
_OF_MEMORY = ["memory_oracle", "memory_prefetching", "memory_tiers", "memory_timing", "memory_variants"]
_OF_COLLECTIVES = ["collective_protocol", "collective_selection"]
WITHOUT_RANKS = ["advise", *_OF_COLLECTIVES, *_OF_MEMORY, "node_watch", "pair_rules", "places", "statistics", "stream"]
_OTHER_TARGETS = [*(f"test_{name}" for name in WITHOUT_RANKS), "replay"]
WITH_RANKS = [name for name in TESTS if name not in WITHOUT_RANKS]
# Abandoned runs must not leak, and no bits be shifted away. All checks that compilers know take four times as long:
# NEARFIELD_TEST_FLAGS="-O1 -fsanitize=address,undefined" make test-sanitized
FLAGS = os.environ.get("NEARFIELD_TEST_FLAGS", "-O1 -fsanitize=leak,shift -fno-sanitize-recover=shift")


def build(target: str, programs: Path) -> Path:
    """Returns one of tests/cpp's programs; the first call for a group of them builds it by the project's own CMake."""
    folder = programs / "simulator"
    has_ranks = target.removeprefix("test_") in WITH_RANKS
    with FileLock(f"{folder}.lock"):
        if not (built := folder / f"built-{has_ranks}").exists():
            _build_group(folder, [f"test_{name}" for name in WITH_RANKS] if has_ranks else _OTHER_TARGETS)
            built.touch()
    return folder / "tests" / "cpp" / target


def _build_group(folder: Path, targets: list[str]) -> None:
    choices = [*ninja(), "-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={FLAGS}"]
    for command in (["-S", ROOT, "-B", folder, *choices], ["--build", folder, "-j2", "--target", *targets]):
        done = subprocess.run([cmake(), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
