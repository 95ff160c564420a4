"""Does a probe with a budget end in time, by sharing the time among its launches, and does it say when the time is
short?"""

import signal
import threading
import time

import pytest

from nearfield.measure import interrupt
from nearfield.measure.live.launch import LaunchResult
from nearfield.measure.live.limit import TimeLimit


def test_no_budget_is_no_limit() -> None:
    limit = TimeLimit(None)
    limit.subtract_launch(LaunchResult("complete", duration_s=1e6))
    assert limit.budget_s_of_next_launch(3) is None


def test_launches_of_a_round_share_what_is_left() -> None:
    """Does only the measuring of the first launch count, and of later ones also the start?"""
    limit = TimeLimit(60.0)
    assert limit.budget_s_of_next_launch(2) == 30
    limit.subtract_launch(LaunchResult("complete", duration_s=25.0, measuring_s=20.0))
    assert limit.budget_s_of_next_launch(1) == 60 - 20 - 5
    limit.subtract_launch(LaunchResult("complete", duration_s=15.0, measuring_s=10.0))
    assert limit.budget_s_of_next_launch(2) == (40 - 15 - 5) / 2


def test_something_is_measured_however_short_the_time() -> None:
    """Is something measured, or --resume --budget would never end, and is no launch begun for nothing?"""
    limit = TimeLimit(0.01)
    assert limit.budget_s_of_next_launch(2) == 0.005
    limit.subtract_launch(LaunchResult("stopped", duration_s=4.0, measuring_s=0.02))
    assert limit.budget_s_of_next_launch(1) == 0


@pytest.mark.parametrize("failed", [LaunchResult("failed", "killed", duration_s=70.0), LaunchResult("stopped")])
def test_a_launch_that_failed_has_used_the_time(failed: LaunchResult) -> None:
    limit = TimeLimit(60.0)
    limit.subtract_launch(failed)
    assert limit.budget_s_of_next_launch(1) == (0 if failed.duration_s else pytest.approx(60, abs=0.1))


# ---- Ctrl-C


@pytest.mark.parametrize(
    "numbers", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGTERM], [signal.SIGQUIT]]
)
def test_ranks_that_do_not_react_are_ended(monkeypatch: pytest.MonkeyPatch, numbers: list[signal.Signals]) -> None:
    """Are they ended after a while after one request, and at once after two or by SIGQUIT?"""
    monkeypatch.setattr(interrupt, "GRACE_PERIOD_S", 0.2 if len(numbers) == 1 else 60)
    prompts: list[bool] = []
    with interrupt.InterruptGuard(lambda: prompts.append(True) or True) as taken:
        for number in numbers:
            threading.Timer(0.1, signal.pthread_kill, [threading.main_thread().ident, number]).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            # Short sleeps: Python misses a signal that comes just before a sleep begins until that sleep is over.
            taken.run(lambda: [time.sleep(0.05) for _ in range(600)])
    assert time.monotonic() - begin < 20
    assert taken.signal_number in numbers
    if len(numbers) == 1:
        assert bool(prompts) == (signal.SIGQUIT not in numbers)


def test_a_second_signal_may_come_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it comes while the first one is handled, before the timer of the patience runs: are all handlers put back?"""

    class Interrupted(threading.Timer):
        def start(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(interrupt, "Timer", Interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupt.InterruptGuard(lambda: True) as taken:
        taken.run(lambda: signal.raise_signal(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is before
