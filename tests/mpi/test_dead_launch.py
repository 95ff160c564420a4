"""Is a launch that shows no sign of life ended, and said so?"""

from __future__ import annotations

import pytest

from nearfield import mpi
from nearfield.mpi import Installation


def test_a_dead_launch_is_ended(installations: list[Installation], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a real launch ended, with all its ranks, as soon as its caller finds that it is dead?"""
    looks: list[int] = []

    def is_dead() -> bool:
        looks.append(1)
        return len(looks) > 2

    monkeypatch.setattr("nearfield.mpi.process.DEAD_CHECK_INTERVAL_S", 0.05)
    done = mpi.run(installations[0], ["sleep", "600"], 2, is_dead=is_dead, timeout_s=500)
    assert done.timed_out and not done.has_succeeded and len(looks) == 3
