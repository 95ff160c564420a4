"""How the time that the user gave is shared among launches, so that a probe keeps it on a busy machine, too."""

from __future__ import annotations

from nearfield.probe.launch import Ending

SHORTEST_S = 0.2  # of measuring, for which a launch is begun


class TimeLimit:
    """Of the first launch only what it measures counts: something is measured however short the time is. Of later ones
    their start counts, too, and is expected to take as long as the last one's."""

    def __init__(self, seconds: float | None) -> None:
        self._left_s = seconds
        self._launching_s = 0.0

    def share(self, launches: int) -> float | None:
        """Seconds of measuring for the first of so many launches that are next; None without a limit, 0 if a launch is
        not worth its start any more."""
        if self._left_s is None:
            return None
        seconds = (self._left_s - self._launching_s) / launches
        return seconds if seconds >= SHORTEST_S or not self._launching_s else 0.0

    def spend(self, ending: Ending) -> None:
        if self._left_s is None:
            return
        is_first = not self._launching_s
        self._launching_s = max(ending.seconds - ending.measuring_s, 1e-3)
        self._left_s -= ending.measuring_s if is_first and ending.measuring_s else ending.seconds
