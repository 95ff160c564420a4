"""Are rules that hold only while the cores are where they were refused, or doubted, as soon as they are not?"""

from pathlib import Path
from typing import Any

import pytest
from tuning import rules_for, write

from nearfield import mpi
from nearfield.apply import distance_check
from nearfield.apply.cached_plan import cached_launch_plan
from nearfield.apply.distance_check import RecordedLatency, find_changed_latencies
from nearfield.rules.gains import is_same_distance
from nearfield.rules.schema import RuleTable

INST = mpi.Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Yields where to set the core-to-core latency; without one, it must not be measured."""
    taken: dict[str, float] = {}
    monkeypatch.setattr(distance_check._native, "flag_ns", lambda a, b: taken["ns"])
    return taken


@pytest.mark.parametrize("then", [12.0, 30.0, 37.0, 60.0, 130.0, 150.0, 400.0])
def test_the_borders_are_those_of_tuning(then: float) -> None:
    """Is what counts as equally far apart the same where rules are applied as where they are found?"""
    recorded = RecordedLatency.from_latency("0-1", then)
    for step in range(-40, 41):
        other = then * 1.1**step
        at_a_border = any(abs(other / border - 1) < 2e-3 for border in (recorded.min_ns, recorded.max_ns))
        assert at_a_border or (recorded.min_ns <= other <= recorded.max_ns) == is_same_distance(other, then)


@pytest.mark.parametrize(("ns", "words"), [(300.0, "300 ns now, and was 60"), (15.0, "15 ns now, and was 60")])
def test_cores_that_moved_are_reported(now: dict[str, float], ns: float, words: str) -> None:
    """In either direction, and in any of several pairs?"""
    now["ns"] = ns
    why, warnings = find_changed_latencies(
        [RecordedLatency.from_latency("0-1", ns), RecordedLatency.from_latency("2-3", 60.0)]
    )
    assert words in why and "cores 2-3" in why and not warnings


@pytest.mark.parametrize(("then", "ns"), [(0.0, 50.0), (60.0, 0.0)])
def test_what_is_not_known_is_never_passed_over(now: dict[str, float], then: float, ns: float) -> None:
    """Where the rules do not say how far apart the cores were, or that cannot be measured, is there a warning?"""
    now["ns"] = ns
    why, [warning] = find_changed_latencies([RecordedLatency.from_latency("0-1", then)])
    assert not why and "not known" in warning


@pytest.mark.parametrize(
    ("parameters", "force", "refused"),
    [
        ({"eager_limit": 32768}, False, True),
        ({"eager_limit": 32768}, True, False),
        ({"eager_limit": 32768, "shared_heap": "on"}, False, False),
        ({}, False, False),
    ],
)
def test_only_rules_without_the_heap_need_consent(
    now: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    parameters: dict[str, Any],
    force: bool,
    refused: bool,
) -> None:
    """Is a run the baseline, with the reason, only where the distance matters and nothing in the run looks at it, at
    both requests?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    launcher = tmp_path / "mpirun"
    launcher.write_text('#!/bin/sh\necho "mpirun (Open MPI) 5.0.11"\n')
    launcher.chmod(0o755)
    made = rules_for(INST, "ob1 / sm", parameters)
    rule = RuleTable(**{**made.rule[0].model_dump(), "c2c_latency_ns": 60.0})
    file = write(tmp_path, made.model_copy(update={"rule": [rule]}))
    if refused:
        now["ns"] = 500.0
    for _ in range(2):
        got = cached_launch_plan([str(launcher)], file, force, None)
        assert bool(got.warnings) == (refused or not parameters)  # rules that set nothing say so
        assert bool(got.environment) == (bool(parameters) and not refused)
