"""Do the simulator's network, ranks and policies do what their C++ tests ask?"""

import subprocess
from pathlib import Path

import pytest
from installed import ROOT, cmake

# Abandoned runs must not leak, so with sanitizers; optimised enough to run for seconds only.
PARTS = ("network", "ranks", "policies")
FLAGS = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ tests, built without MPI, Python or hwloc."""
    folder = tmp_path_factory.mktemp("simulated")
    choices = ["-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={FLAGS}"]
    for command in (
        [cmake(), "-S", str(ROOT), "-B", str(folder), *choices],
        [cmake(), "--build", str(folder), "-j2", "--target", *(f"test_{name}" for name in PARTS)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "tests" / "cpp"


@pytest.mark.timeout(900)  # compiling on a busy machine
@pytest.mark.parametrize("name", PARTS)
def test_each_part(build: Path, name: str) -> None:
    """Routes and LogGP; matching, protocols, deadlocks, determinism; which lines each policy puts where."""
    done = subprocess.run([build / f"test_{name}"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
