"""Do the stubs, which type checkers read, describe the extension module as it is?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STUBS = Path(__file__).parents[2] / "python" / "nearfield" / "_native"


def test_stubs_are_current(tmp_path: Path) -> None:
    """Do the stubs say what the extension module has? If not: make stubs."""
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "nearfield._native", "-r", "-O", str(tmp_path)],
        check=True,
    )
    fresh = {file.name: file.read_text() for file in (tmp_path / "_native").glob("*.pyi")}
    assert {file.name: file.read_text() for file in STUBS.glob("*.pyi")} == fresh
