"""Builds the C++ test programs of the simulator, with sanitizers: abandoned runs must not leak, and what the memory
does with its bits must be defined. All in one folder, so that the simulator is built once."""

import subprocess
from pathlib import Path

from installed import cmake

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"
# Enough optimisation for seconds of running.
FLAGS = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"


def build(target: str, folder: Path) -> Path:
    """Builds one of tests/cpp's programs by the project's own CMake, and returns it."""
    choices = ["-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={FLAGS}"]
    for command in (["-S", ROOT, "-B", folder, *choices], ["--build", folder, "--target", target, "-j2"]):
        done = subprocess.run([cmake(), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "tests" / "cpp" / target
