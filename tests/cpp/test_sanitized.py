"""Do the C++ tests pass under sanitizers, too?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import TESTS, build


@pytest.mark.parametrize("name", TESTS)
def test_sanitized(name: str, programs: Path) -> None:
    """Does the program find no mistake, leak no memory and shift no bits away?"""
    done = subprocess.run([build(f"test_{name}", programs)], capture_output=True, text=True, timeout=6000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
