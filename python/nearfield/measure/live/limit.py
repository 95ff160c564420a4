"""Divides the time limit of a probe among its launches, so that the probe meets the limit on a busy machine, too."""

from __future__ import annotations

from nearfield.measure.live.launch import LaunchResult

MIN_MEASURING_S = 0.2  # minimum measuring time of a launch


class TimeLimit:
    """The remaining time of a probe. The start-up of the first launch does not count, so that every limit leaves time
    to measure. The start-up of each later launch counts, and is expected to take as long as the last one."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = self._left_s = seconds
        self._launching_s = 0.0

    def seconds_for_next(self, launches: int) -> float | None:
        """Returns the seconds for which the next of `launches` remaining launches may measure. Returns None without a
        limit, and 0 if too little time is left for a launch."""
        if self._left_s is None:
            return None
        seconds = (self._left_s - self._launching_s) / launches
        return seconds if seconds >= MIN_MEASURING_S or not self._launching_s else 0.0

    def subtract(self, ending: LaunchResult) -> None:
        """Subtracts the duration of a launch from the remaining time."""
        if self._left_s is None:
            return
        is_first = not self._launching_s
        self._launching_s = max(ending.seconds - ending.measuring_s, 1e-3)
        self._left_s -= ending.measuring_s if is_first and ending.measuring_s else ending.seconds
