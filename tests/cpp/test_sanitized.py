"""Do the C++ tests pass under sanitizers, too?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import TESTS, build

# What a program of many cases runs here: the sanitizers make it five times slower, and look at its code, not at cases.
ARGUMENTS = {"collective_protocol": ["short"]}


@pytest.mark.parametrize("name", TESTS)
def test_sanitized(name: str, programs: Path) -> None:
    """Does the program find no mistake, leak no memory and shift no bits away?"""
    command = [build(f"test_{name}", programs), *ARGUMENTS.get(name, [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
