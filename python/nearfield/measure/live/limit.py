"""Divides the time limit of a probe among its launches, so that the probe meets the limit even on a busy machine."""

from __future__ import annotations

from nearfield.measure.live.launch import LaunchResult

MIN_MEASURING_S = 0.2  # minimum measuring time of a launch


class TimeLimit:
    """The remaining time of a probe. The start-up of the first launch does not count, so that every limit leaves time
    to measure. The start-up of each later launch counts; its expected duration is that of the previous launch."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = self._remaining_s = limit_s
        self._launch_overhead_s = 0.0

    def budget_s_of_next_launch(self, num_remaining_launches: int) -> float | None:
        """Returns the seconds for which the next of `num_remaining_launches` remaining launches may measure. Returns
        None without a limit, and 0 if too little time is left for a launch."""
        if self._remaining_s is None:
            return None
        budget_s = (self._remaining_s - self._launch_overhead_s) / num_remaining_launches
        return budget_s if budget_s >= MIN_MEASURING_S or not self._launch_overhead_s else 0.0

    def subtract_launch(self, result: LaunchResult) -> None:
        """Subtracts the duration of a launch from the remaining time."""
        if self._remaining_s is None:
            return
        is_first = not self._launch_overhead_s
        self._launch_overhead_s = max(result.duration_s - result.measuring_s, 1e-3)
        self._remaining_s -= result.measuring_s if is_first and result.measuring_s else result.duration_s
