"""Do the C++ tests pass under sanitizers, too?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import TESTS, build

# The programs that run under sanitizers, each with its arguments. The program that checks the protocol of the
# collectives runs twice: it checks small samples, and it visits the states that `make test` leaves out.
RUNS = [[name] for name in TESTS if name != "collective_protocol"]
RUNS += [["collective_protocol", "states"], ["collective_protocol", "short"]]


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_sanitized(run: list[str], programs: Path) -> None:
    """Does the program find no mistake, leak no memory and shift no bits away?"""
    command = [build(f"test_{run[0]}", programs), *run[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
