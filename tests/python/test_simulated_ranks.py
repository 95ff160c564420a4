"""Do the simulator's network, ranks and policies do what their C++ tests ask?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import build

PARTS = ["network", "ranks", "policies", "scenarios", "collectives", "applications"]
OF_PROGRAMS = ["stream", "datatypes", "matching", "replay"]  # that were observed


@pytest.mark.parametrize("name", [*PARTS, *OF_PROGRAMS])
def test_each_part(programs: Path, name: str) -> None:
    """Routes and LogGP; matching, protocols, deadlocks, determinism; which lines each policy puts where; what scenarios
    count; what collectives give, and how long they take; what applications do. Is a stream read as it was written, and
    does a cluster do what it says?"""
    test = build(f"test_{name}", programs)
    done = subprocess.run([test], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
