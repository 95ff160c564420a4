"""Shows the progress of `reproduce --live`: an estimate before the start, then launch by launch."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

from nearfield.base.units import counted
from nearfield.measure.live.launch import Ending, Job
from nearfield.reproduce.live.measure import Launch, Watcher
from nearfield.ui.progress import Standing, WorkBar


class LaunchBar(WorkBar, Watcher):
    """A progress bar that scales the estimate for the remaining launches by actual over estimated time so far."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, self.standing)
        self._to_do: list[Launch] = []
        self._done_s = self._took_s = 0.0
        self._began = time.monotonic()
        self._share, self._what = 0.0, "starting"

    def say(self, text: str) -> None:
        self._console.print(escape(text))

    def launches(self, launches: list[Launch], kept: int) -> None:
        self._to_do, self._done_s, self._took_s = launches, 0.0, 0.0  # the first launch may have built the engine
        finished = f", {kept} more are there already" if kept else ""
        minutes = max(1, round(sum(one.seconds for one in launches) / 60))
        about = f": about {counted(minutes, 'minute')} on a quiet machine" if launches else ""
        self._console.print(f"measuring {counted(len(launches), 'launch', 'launches')} here{finished}{about}")
        if launches:
            self.start()

    def start_launch(self, launch: Launch) -> None:
        self._began, self._share = time.monotonic(), 0.0
        self._what = launch.folder.name

    def progress(self, job: Job, scenario: str, share: float) -> None:
        names = list(job.budgets)
        self._share = (names.index(scenario) + share) / len(names)

    def end(self, job: Job, ending: Ending) -> None:
        if ending.state == "failed":
            self._console.print(f"[yellow]launch failed[/yellow] ({self._what}): {escape(ending.reason or '')}")

    def launch_done(self, launch: Launch) -> None:
        self._done_s += launch.seconds
        self._took_s += time.monotonic() - self._began
        self._share = 0.0

    def standing(self) -> Standing | None:
        total_s = sum(one.seconds for one in self._to_do)
        if not total_s:
            return None
        now_s = next((one.seconds for one in self._to_do if one.folder.name == self._what), 0.0) * self._share
        done_s = min(total_s, self._done_s + now_s)
        pace = self._took_s / self._done_s if self._done_s else 1.0
        return Standing(self._what, done_s / total_s, pace * (total_s - done_s))
