"""What several unit tests share."""

from pathlib import Path

import pytest
from tune_machine import Machine, patched_machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """Returns the machine that `nearfield tune` finds."""
    return patched_machine(monkeypatch, tmp_path)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirms without a pause, on cores that nobody else uses."""
    monkeypatch.setattr("nearfield.tune.confirm.time.sleep", lambda seconds: None)
    monkeypatch.setattr("nearfield.tune.tuning.measure_cpu_utilization", lambda: dict.fromkeys(range(1024), (0.0, 0.0)))
