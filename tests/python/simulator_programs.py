"""Builds the C++ test programs that need the simulator."""

import subprocess
from pathlib import Path

from installed import cmake

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests" / "cpp"


def build(target: str, folder: Path) -> Path:
    """Builds one of tests/cpp's programs by the project's own CMake, and returns it."""
    configure = ["-S", ROOT, "-B", folder, "-DNEARFIELD_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([cmake(), *configure], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake(), "--build", folder, "--target", target, "-j2"], check=True, stdout=subprocess.DEVNULL)
    return folder / "tests" / "cpp" / target
