"""Would the tests of tune's judgement, and those of what `rewrite` proves, notice a mistake? Each run of them is a
process of its own, with one mistake."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import injected
import pytest

UNIT = Path(__file__).parents[1] / "unit"
TESTS = [UNIT / f"test_{name}.py" for name in ("gains", "criterion", "paired")]


@pytest.mark.injected
def test_every_injected_bug_is_caught() -> None:
    last = injected.last_line_of_tests("", *TESTS)
    assert " passed" in last and "failed" not in last
    bugs = injected.bugs_of("judgement")
    for bug in bugs.values():
        compile(injected.inject(bug), bug["file"], "exec")  # what no compiler takes would prove nothing
    with ThreadPoolExecutor(2) as pool:
        ends = dict(
            zip(bugs, pool.map(lambda bug: injected.last_line_of_tests(f"judgement:{bug}", *TESTS), bugs), strict=True)
        )
    assert not {bug: end for bug, end in ends.items() if "1 failed" not in end}


@pytest.mark.injected
@pytest.mark.parametrize("file", ["proof", "rewrite_refusals"])
def test_every_hole_in_the_proof_is_caught(file: str) -> None:
    """Without a hole, do the tests that it names pass (tests/unit runs them, too), and does one fail with it?"""
    bugs = injected.bugs_of(file)

    def last_line(name: str) -> str:
        bug = bugs[name]
        compile(injected.inject(bug), bug["file"], "exec")
        return injected.last_line_of_tests(f"{file}:{name}", UNIT / bug["tests"], "-k", bug["select"])

    with ThreadPoolExecutor(2) as pool:
        ends = dict(zip(bugs, pool.map(last_line, bugs), strict=True))
    assert not {bug: end for bug, end in ends.items() if "1 failed" not in end}
