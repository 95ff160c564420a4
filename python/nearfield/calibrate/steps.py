"""Finds steps of latency curves, from which the number of entries of a TLB and the size of a cache follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

MIN_STEP_NS = 0.4  # minimum height of a step


def fit_plateaus(curve: Mapping[int, float], max_steps: int = 2) -> list[tuple[int, float]]:
    """Fits at most `max_steps` + 1 plateaus to a curve that begins at 0. Returns for each step up the last x before the
    step and the height of the step. Number and positions of the steps minimise the squared logarithmic deviation from
    the plateaus' medians, with a penalty per step. A step must exceed MIN_STEP_NS and a fifth of the plateau before
    it."""
    xs, ys = list(curve), [max(0.0, y) for y in curve.values()]
    best, best_error = [(0, len(xs))], math.inf
    for steps in range(max_steps + 1):
        for cuts in combinations(range(1, len(xs)), steps):
            parts = list(zip((0, *cuts), (*cuts, len(xs)), strict=True))
            heights = [_median(ys[a:b]) for a, b in parts]
            if any(b < a + max(MIN_STEP_NS, 0.2 * a) for a, b in zip(heights, heights[1:], strict=False)):
                continue
            # Relative errors, since later plateaus are higher. The penalty avoids plateaus that explain little.
            error = sum(
                math.log((y + 1) / (h + 1)) ** 2 for (a, b), h in zip(parts, heights, strict=True) for y in ys[a:b]
            )
            error = math.sqrt(error / len(ys)) * (1 + 0.1 * steps)
            if error < best_error:
                best, best_error = parts, error
    heights = [_median(ys[a:b]) for a, b in best]
    steps_up = zip(best[1:], heights, heights[1:], strict=False)
    return [(xs[part[0] - 1], after - before) for part, before, after in steps_up]


def find_last_below(curve: Mapping[int, float], limit: float) -> tuple[int, int] | None:
    """Returns the last x at which an ascending curve is at most `limit`, and the x after it; None if the curve is
    always below the limit or always above it."""
    xs = list(curve)
    below = [x for x in xs if curve[x] <= limit]
    if not below or below[-1] == xs[-1]:
        return None
    return below[-1], xs[xs.index(below[-1]) + 1]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
