"""Do the simulator's network, ranks and policies do what their C++ tests ask?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import build


@pytest.mark.parametrize("name", ["network", "ranks", "policies", "scenarios", "collectives", "applications"])
def test_each_part(programs: Path, name: str) -> None:
    """Routes and LogGP; matching, protocols, deadlocks, determinism; which lines each policy puts where; what scenarios
    count; what collectives give, and how long they take; what applications do."""
    test = build(f"test_{name}", programs)
    done = subprocess.run([test], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
