"""Is a launch that is slow left alone, and one that is dead ended, on a quiet machine and on a busy one?"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nearfield.base.cpu_load import ThreadOversubscription
from nearfield.measure.live.watcher import MAX_SILENCE_S, LaunchProgress, OutputWatcher


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def signs(clock: Clock, threads: int = 2) -> LaunchProgress:
    """Returns the signs of a launch on two cores for which `threads` threads run or wait."""
    return LaunchProgress({"pingpong": 10.0, "stride": 10.0}, ThreadOversubscription(lambda: threads, cores=2), clock)


def ends_after(watched: LaunchProgress, clock: Clock) -> float:
    """Returns the seconds of silence after which the launch counts as dead."""
    begin = clock.now
    while not watched.is_hung():
        clock.now += 1.0
        assert clock.now - begin < 10_000, "it is never found dead"
    return clock.now - begin


def test_a_launch_that_writes_may_take_as_long_as_it_needs() -> None:
    """Does growth of the output keep a launch alive, however long it takes in all?"""
    clock = Clock()
    watched = signs(clock)
    for _ in range(200):
        clock.now += 0.9 * MAX_SILENCE_S
        assert not watched.is_hung()
        watched.record_output()
    assert ends_after(watched, clock) == pytest.approx(MAX_SILENCE_S, abs=1.5)


@pytest.mark.parametrize(("threads", "times"), [(1, 1.0), (2, 1.0), (8, 4.0)])
def test_patience_grows_with_the_threads_that_want_the_cores(threads: int, times: float) -> None:
    """Is a silent launch of two ranks beside six spinning programs waited for four times as long?"""
    clock = Clock()
    assert ends_after(signs(clock, threads), clock) == pytest.approx(times * MAX_SILENCE_S, abs=1.5)


def test_patience_grows_with_the_measured_pace() -> None:
    """If what is done took five times as long as planned, is silence allowed five times as long?"""
    clock = Clock()
    watched = signs(clock)
    watched.record_progress("pingpong", 0.0)
    clock.now = 50.0
    watched.record_output()
    watched.record_progress("pingpong", 1.0)
    assert watched.slowdown() == pytest.approx(5.0)
    assert ends_after(watched, clock) == pytest.approx(5 * MAX_SILENCE_S, abs=1.5)


def test_silence_is_reported_with_the_reason() -> None:
    """Does the sentence say for how long, how much longer than usual, and how slow the machine is?"""
    clock = Clock()
    watched = signs(clock, 8)
    ends_after(watched, clock)
    text = watched.format_silence()
    assert "no sign of life for 241 s, 4.0 times as long" in text and "4.0 times as slow as a quiet one" in text


def test_the_watcher_sees_the_output_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a file that grows a sign of life, and do its lines of progress reach the caller?"""
    output, seen = tmp_path / "out.jsonl", list[tuple[str, float]]()
    output.touch()
    with OutputWatcher(output, {"stride": 1.0}, lambda scenario, share: seen.append((scenario, share))):
        with output.open("a") as file:
            file.write('{"type":"phase","what":"timing"}\n{"type":"progress","scenario":"stride","share":0.5}\n')
        until = time.monotonic() + 30
        while not seen and time.monotonic() < until:
            time.sleep(0.02)
    assert seen == [("stride", 0.5)]
