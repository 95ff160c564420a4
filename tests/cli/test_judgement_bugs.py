"""Would the tests of tune's judgement notice a mistake in it? Each run of them is a process of its own, with one
mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import injected

TESTS = [Path(__file__).parents[1] / "unit" / f"test_{name}.py" for name in ("gains", "criterion", "paired")]


def outcome(bug: str) -> str:
    """Returns the last line of the tests with a mistake; with the name "", with none."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "injected", *TESTS]
    environment = {**os.environ, "PYTHONPATH": str(Path(injected.__file__).parent), "NEARFIELD_INJECTED_BUG": bug}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [done.stderr])[-1]


def test_every_injected_bug_is_caught() -> None:
    assert " passed" in outcome("") and "failed" not in outcome("")
    bugs = injected.bugs_of("judgement")
    for bug in bugs.values():
        compile(injected.inject(bug), bug["file"], "exec")  # what no compiler takes would prove nothing
    with ThreadPoolExecutor(2) as pool:
        ends = dict(zip(bugs, pool.map(outcome, bugs), strict=True))
    assert not {bug: end for bug, end in ends.items() if "1 failed" not in end}
