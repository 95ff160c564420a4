"""Builds the C++ test programs of the simulator; those that are built alike in one folder, so that it is built once."""

import subprocess
from pathlib import Path

from installed import cmake

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"
# Abandoned runs must not leak, and no bits be shifted away; enough optimisation for seconds of running.
SANITIZED = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
FAST = "-O2"


def build(target: str, programs: Path, flags: str) -> Path:
    """Builds one of tests/cpp's programs by the project's own CMake, and returns it."""
    folder = programs / ("sanitized" if flags == SANITIZED else "fast")
    choices = ["-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}"]
    for command in (["-S", ROOT, "-B", folder, *choices], ["--build", folder, "--target", target, "-j2"]):
        done = subprocess.run([cmake(), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "tests" / "cpp" / target
