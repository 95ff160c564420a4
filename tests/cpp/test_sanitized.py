"""Do the C++ tests pass under sanitizers, too?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import TESTS, build

# The arguments of programs. This one runs a small sample of its cases, because sanitizers make it five times slower,
# and the cases that are left out run the same code.
ARGUMENTS = {"collective_protocol": ["short"]}


@pytest.mark.parametrize("name", TESTS)
def test_sanitized(name: str, programs: Path) -> None:
    """Does the program find no mistake, leak no memory and shift no bits away?"""
    command = [build(f"test_{name}", programs), *ARGUMENTS.get(name, [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
