"""Do the C++ tests pass under sanitizers, too?"""

import subprocess
from pathlib import Path

import pytest
from simulator_programs import WITH_RANKS, WITHOUT_RANKS, build

# The programs that run under sanitizers, each with its arguments; a half of them on each turn. The program that checks
# the protocol of the collectives runs twice: it checks small samples, and it visits the states that `make test` leaves
# out.
RUNS = [pytest.param([name], id=name, marks=pytest.mark.turn(0)) for name in WITH_RANKS]
RUNS += [
    pytest.param(words.split(), id=words, marks=pytest.mark.turn(1))
    for name in WITHOUT_RANKS
    for words in ((f"{name} states", f"{name} short") if name == "collective_protocol" else (name,))
]


@pytest.mark.parametrize("run", RUNS)
def test_sanitized(run: list[str], programs: Path) -> None:
    """Does the program find no mistake, leak no memory and shift no bits away?"""
    command = [build(f"test_{run[0]}", programs), *run[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
