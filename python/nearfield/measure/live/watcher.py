"""Watches the output file of a launch: reports progress, and decides whether the launch is still alive.

A launch may take any time as long as its output grows. If a launch has written nothing for too long, it counts as hung.
The limit is multiplied by the machine's current slowdown, because the ranks of a busy machine get only part of the
cores' time and wait for each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from nearfield.base.cpu_load import ThreadOversubscription
from nearfield.measure.live.lines import ProgressLine, ScenarioEndLine, parse_line

OnScenarioProgress = Callable[[str, float], None]  # called with a scenario and the elapsed share of its time

MAX_SILENCE_S = 60.0  # maximum time without output on a quiet machine
# Beginnings of progress lines. Other lines may be long, and parsing them would disturb the measurement.
_PROGRESS_LINE_STARTS = ('{"type":"progress"', '{"type":"scenario_end"')


class LaunchProgress:
    """The progress of one launch and the time of its last output. `budget_s_by_scenario` maps its scenarios, in order,
    to their planned seconds."""

    def __init__(
        self,
        budget_s_by_scenario: Mapping[str, float],
        oversubscription: ThreadOversubscription | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget_s_by_scenario, self._oversubscription, self._clock = (
            budget_s_by_scenario,
            oversubscription or ThreadOversubscription(),
            clock,
        )
        self._last_output_time = clock()
        self._first_progress_time: float | None = None  # time of the first progress line
        self._elapsed_to_planned_ratio = 1.0  # ratio of elapsed to planned time

    def record_output(self) -> None:
        """Records that the output has grown."""
        self._last_output_time = self._clock()
        self._oversubscription.discard_samples()

    def record_progress(self, scenario: str, share: float) -> None:
        """Records the elapsed share of a scenario, and updates the ratio of elapsed to planned time."""
        names, now = list(self._budget_s_by_scenario), self._clock()
        if scenario not in names:
            return
        self._first_progress_time = now if self._first_progress_time is None else self._first_progress_time
        done_s = (
            sum(self._budget_s_by_scenario[name] for name in names[: names.index(scenario)])
            + share * self._budget_s_by_scenario[scenario]
        )
        if done_s >= 1.0:
            self._elapsed_to_planned_ratio = (now - self._first_progress_time) / done_s

    def slowdown(self) -> float:
        """Returns the machine's slowdown relative to a quiet machine, at least 1: the ratio of elapsed to planned time,
        or the oversubscription of the cores if that is larger."""
        return max(1.0, self._elapsed_to_planned_ratio, self._oversubscription.slowdown())

    def silent_s(self) -> float:
        """Returns the seconds since the output last grew."""
        return self._clock() - self._last_output_time

    def is_hung(self) -> bool:
        """Returns whether the output has not grown for too long. Must be called about once per second, since each call
        samples the load of the machine."""
        self._oversubscription.take_sample()
        return self.silent_s() > MAX_SILENCE_S * self.slowdown()

    def format_silence(self) -> str:
        """Returns a human-readable text on how long the output has not grown, and on the limit."""
        silent_s = self.silent_s()
        return (
            f"no sign of life for {silent_s:.0f} s, {silent_s / MAX_SILENCE_S:.1f} times as long as a launch on a "
            f"quiet machine may be silent; this machine is {self.slowdown():.1f} times as slow as a quiet one"
        )


class OutputWatcher:
    """Follows the growing output file in a thread while entered as a context."""

    def __init__(self, path: Path, budgets: Mapping[str, float], on_progress: OnScenarioProgress) -> None:
        self._path, self._on_progress = path, on_progress
        self._launch_progress = LaunchProgress(budgets)
        self.is_hung, self.format_silence = self._launch_progress.is_hung, self._launch_progress.format_silence
        self._stop_event = Event()
        self._thread = Thread(target=self._follow_output, daemon=True)

    def __enter__(self) -> OutputWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self._thread.join()

    def _follow_output(self) -> None:
        with suppress(OSError), self._path.open(encoding="utf-8", errors="replace") as file:
            rest = ""
            while not self._stop_event.is_set():
                if new := file.read():
                    self._launch_progress.record_output()
                *whole, rest = (rest + new).split("\n")
                for text in whole:
                    if text.startswith(_PROGRESS_LINE_STARTS):
                        self._report_line(text)
                time.sleep(0.1)  # infrequent, because this thread may have to share a core with a rank

    def _report_line(self, text: str) -> None:
        line = parse_line(text)
        if isinstance(line, (ProgressLine, ScenarioEndLine)):
            share = line.share if isinstance(line, ProgressLine) else 1.0
            self._launch_progress.record_progress(line.scenario, share)
            self._on_progress(line.scenario, share)
