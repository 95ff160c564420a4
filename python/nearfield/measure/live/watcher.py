"""Follows a launch by its engine's output: reports its progress, and decides whether it is still alive.

A launch may take as long as it needs while its output grows. One that has written nothing for a long time is dead: it
waits for an event that will never come. The limit depends on the current slowdown of the machine, since on a busy
machine the ranks get the cores for only part of the time, and have to wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from nearfield.base.cpu_load import ThreadOversubscription
from nearfield.measure.live.lines import ProgressLine, ScenarioEndLine, parse_line

OnProgress = Callable[[str, float], None]  # scenario, elapsed share of its time

QUIET_S = 60.0  # maximum silence of a launch on a machine that is not slowed down
# Progress lines begin like this. Other lines can be long and are not parsed while the engine measures.
_OF_PROGRESS = ('{"type":"progress"', '{"type":"scenario_end"')


class Signs:
    """The progress of one launch. `budgets` are the planned seconds of its scenarios, in their order."""

    def __init__(
        self,
        budgets: Mapping[str, float],
        crowd: ThreadOversubscription | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budgets, self._crowd, self._clock = budgets, crowd or ThreadOversubscription(), clock
        self._latest = clock()
        self._measures: float | None = None  # when the first line of progress came
        self._pace = 1.0  # ratio of the time taken to the planned time

    def see(self) -> None:
        """Records that the launch has written something."""
        self._latest = self._clock()
        self._crowd.discard_samples()

    def progress(self, scenario: str, share: float) -> None:
        """Records the progress of the launch."""
        names, now = list(self._budgets), self._clock()
        if scenario not in names:
            return
        self._measures = now if self._measures is None else self._measures
        done_s = sum(self._budgets[name] for name in names[: names.index(scenario)]) + share * self._budgets[scenario]
        if done_s >= 1.0:
            self._pace = (now - self._measures) / done_s

    def slowdown(self) -> float:
        """Returns the slowdown relative to a quiet machine; at least 1."""
        return max(1.0, self._pace, self._crowd.slowdown())

    def silent_s(self) -> float:
        """Returns the seconds since the last output."""
        return self._clock() - self._latest

    def is_dead(self) -> bool:
        """Returns whether it has been silent for too long. To be called about once per second."""
        self._crowd.sample()
        return self.silent_s() > QUIET_S * self.slowdown()

    def silence(self) -> str:
        """Returns the duration of the silence and its limit in words."""
        silent_s = self.silent_s()
        return (
            f"no sign of life for {silent_s:.0f} s, {silent_s / QUIET_S:.1f} times as long as a launch on a quiet "
            f"machine may be silent; this machine is {self.slowdown():.1f} times as slow as a quiet one"
        )


class Watcher:
    """Follows the growing output in a thread. Used as a context."""

    def __init__(self, path: Path, budgets: Mapping[str, float], on_progress: OnProgress) -> None:
        self._path, self._on_progress = path, on_progress
        self._signs = Signs(budgets)
        self.is_dead, self.silence = self._signs.is_dead, self._signs.silence
        self._done = Event()
        self._thread = Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        with suppress(OSError), self._path.open(encoding="utf-8", errors="replace") as file:
            rest = ""
            while not self._done.is_set():
                if new := file.read():
                    self._signs.see()
                *whole, rest = (rest + new).split("\n")
                for text in whole:
                    if text.startswith(_OF_PROGRESS):
                        self._pass_on(text)
                time.sleep(0.1)  # seldom, since the measuring cores may be the only ones

    def _pass_on(self, text: str) -> None:
        line = parse_line(text)
        if isinstance(line, (ProgressLine, ScenarioEndLine)):
            share = line.share if isinstance(line, ProgressLine) else 1.0
            self._signs.progress(line.scenario, share)
            self._on_progress(line.scenario, share)
