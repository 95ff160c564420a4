"""Finds the steps of a curve: how many pages the TLBs hold, and where a cache ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

NOISE_NS = 0.4  # differences below are no step


def fit_plateaus(curve: Mapping[int, float], max_steps: int = 2) -> list[tuple[int, float]]:
    """Returns the steps up of a curve that begins at 0: for each the last x before it and its height. The number and
    places of the steps are those with the smallest squared difference from the plateaus' medians; a step must be higher
    than NOISE_NS and a fifth of the plateau before it."""
    xs, ys = list(curve), [max(0.0, y) for y in curve.values()]
    best, best_error = [(0, len(xs))], math.inf
    for steps in range(max_steps + 1):
        for cuts in combinations(range(1, len(xs)), steps):
            parts = list(zip((0, *cuts), (*cuts, len(xs)), strict=True))
            heights = [_median(ys[a:b]) for a, b in parts]
            if any(b < a + max(NOISE_NS, 0.2 * a) for a, b in zip(heights, heights[1:], strict=False)):
                continue
            # Relative errors, since later plateaus are higher. A plateau more has to explain something.
            error = sum(
                math.log((y + 1) / (h + 1)) ** 2 for (a, b), h in zip(parts, heights, strict=True) for y in ys[a:b]
            )
            error = math.sqrt(error / len(ys)) * (1 + 0.1 * steps)
            if error < best_error:
                best, best_error = parts, error
    heights = [_median(ys[a:b]) for a, b in best]
    found = zip(best[1:], heights, heights[1:], strict=False)
    return [(xs[part[0] - 1], after - before) for part, before, after in found]


def last_below(curve: Mapping[int, float], limit: float) -> tuple[int, int] | None:
    """Returns the last x of an ascending curve before it exceeds a limit for good, and the next x; None if the curve
    ends below the limit, or begins above it."""
    xs = list(curve)
    below = [x for x in xs if curve[x] <= limit]
    if not below or below[-1] == xs[-1]:
        return None
    return below[-1], xs[xs.index(below[-1]) + 1]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
