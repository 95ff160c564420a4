"""Judges whether a curve agrees with a paper, with the same tolerances for all claims. A number is reproduced if ours
is within a quarter of the paper's, since papers round numbers or show them in figures. Two numbers are equal within 5
%; one exceeds the other from 1 % on, which no figure can show. A word of degree in the paper changes these thresholds
(adverbs.py).

Gains, which are shares of a time, are compared in percentage points. Since many gains are smaller than 5 points, two
gains are equal only if they are also within a quarter of the larger one, or within 1 point. A judge also describes our
numbers as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nearfield.reproduce.adverbs import MIN_DIFFERENCE, PLAIN_DEGREE, SAME_TOLERANCE, Degree
from nearfield.reproduce.curves import Points

NUMBER_TOLERANCE = 0.25  # maximum relative deviation from the paper's number


@dataclass(frozen=True)
class JudgeInput:
    """The input of a judge. `write` formats numbers of the curve, `write_x` values of its parameter."""

    curve: Points
    than: Points | None
    number: tuple[float, float] | None  # the paper's number, as a range
    at: tuple[float, float] | None
    steps: tuple[float, ...]
    is_difference: bool  # numbers are gains or differences, for which 0 means equal
    write: Callable[[float], str]
    write_x: Callable[[float], str]
    alternatives: tuple[Points, ...] = ()  # the curve is the maximum of these
    is_gain: bool = False
    is_count: bool = False  # numbers are differences of counts, which are compared relatively
    degree: Degree = PLAIN_DEGREE  # the thresholds that follow from the paper's words

    @property
    def in_points(self) -> bool:
        """Returns whether numbers are compared by their difference and not by their ratio."""
        return self.is_difference and not self.is_count


@dataclass(frozen=True)
class JudgeResult:
    """A judgement: `holds` says whether the statement holds, and `ours` has our numbers as text."""

    holds: bool
    ours: str


Over = Literal["every", "some", "both"]
Kind = Literal["difference", "equality", ""]


@dataclass(frozen=True)
class Judge:
    """A judge function and the inputs that it needs. `over` is "every" if the statement must hold at every point, so
    that one point can refute it; "some" if one point can prove it; "both" if one point can do either."""

    judge: Callable[[JudgeInput], JudgeResult]
    over: Over = "every"
    of_number: bool = False
    of_two: bool = False  # may compare with a second curve
    kind: Kind = ""  # which words of degree change the judge's thresholds


def is_near_number(value: float, number: tuple[float, float]) -> bool:
    """Returns whether the value is within the tolerance of the paper's number, given as a range."""
    low, high = number
    return low - NUMBER_TOLERANCE * abs(low) <= value <= high + NUMBER_TOLERANCE * abs(high)


# ---- judges that compare with the paper's number


def _extreme_is_near(data: JudgeInput, best: Callable[..., float]) -> JudgeResult:
    """Holds if the maximum or minimum is near the paper's number, and at the paper's position."""
    assert data.number
    x = best(data.curve, key=lambda at: data.curve[at])
    in_place = data.at is None or data.at[0] <= x <= data.at[1]
    return JudgeResult(
        is_near_number(data.curve[x], data.number) and in_place, f"{data.write(data.curve[x])} at {data.write_x(x)}"
    )


def _peaks_at_position(data: JudgeInput) -> JudgeResult:
    """Holds if the maximum is positive and at the paper's position."""
    x = max(data.curve, key=lambda at: data.curve[at])
    in_place = data.at is None or data.at[0] <= x <= data.at[1]
    return JudgeResult(
        data.curve[x] > data.degree.more and in_place, f"{data.write(data.curve[x])} at {data.write_x(x)}"
    )


def _is_near_everywhere(data: JudgeInput) -> JudgeResult:
    """Holds if every point is near the paper's number."""
    number = data.number
    assert number
    return _all_numbers(data, lambda y: is_near_number(y, number))


def _keeps_bound(data: JudgeInput, best: Callable[..., float], sign: int) -> JudgeResult:
    """Holds if the maximum (or minimum) does not fall below (`sign` 1) or exceed (`sign` -1) the paper's number by more
    than the tolerance."""
    assert data.number
    x = best(data.curve, key=lambda at: data.curve[at])
    limit = data.number[0] if sign > 0 else data.number[1]
    in_place = data.at is None or data.at[0] <= x <= data.at[1]
    holds = sign * (data.curve[x] - limit) >= -NUMBER_TOLERANCE * abs(limit)
    return JudgeResult(holds and in_place, f"{data.write(data.curve[x])} at {data.write_x(x)}")


# ---- judges of a curve's shape


def _excess_over_other(data: JudgeInput) -> dict[float, float]:
    """Returns x -> excess of the curve over the other one, relative or in points. Without another curve, that is the
    constant 1, or 0 for differences."""
    than = data.than or dict.fromkeys(data.curve, 0.0 if data.is_difference else 1.0)
    pairs = {x: (y, than[x]) for x, y in data.curve.items() if x in than}
    if data.in_points:
        return {x: y - other for x, (y, other) in pairs.items()}
    return {x: (y - other) / abs(other) if other else math.copysign(math.inf, y) if y else 0.0
            for x, (y, other) in pairs.items()}  # fmt: skip


def _max_equal_difference(data: JudgeInput, *gains: float) -> float:
    """Returns the maximum difference of equal numbers; for gains, the limit depends on their size."""
    if not data.is_gain:
        return data.degree.same
    return max(data.degree.nothing, min(data.degree.same, NUMBER_TOLERANCE * max(map(abs, gains))))


def _is_same_everywhere(data: JudgeInput) -> JudgeResult:
    """Holds if the curve equals the other one at every point."""
    than = data.than or {}
    found = {
        x: abs(by) <= _max_equal_difference(data, data.curve[x], than.get(x, 0.0))
        for x, by in _excess_over_other(data).items()
    }
    return _format_comparison(data, list(found.values()))


def _compare_all(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    """Holds if `holds` accepts the excess over the other curve at every point."""
    return _format_comparison(data, [holds(by) for by in _excess_over_other(data).values()])


def _format_comparison(data: JudgeInput, hold: list[bool]) -> JudgeResult:
    text = _curve_range_text(data) + (f" against {_range_text(data, data.than)}" if data.than else "")
    return JudgeResult(bool(hold) and all(hold), f"{text}; at {sum(hold)} of {len(hold)}")


def _all_numbers(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    return JudgeResult(all(map(holds, data.curve.values())), _curve_range_text(data))


def _is_positive_somewhere(data: JudgeInput) -> JudgeResult:
    """Holds if any point exceeds 0 by the minimum difference."""
    return JudgeResult(any(y > data.degree.more for y in data.curve.values()), _curve_range_text(data))


def _has_all_alternatives(data: JudgeInput) -> JudgeResult:
    """Holds if all alternatives of the curve have records at the same sizes."""
    in_place = [set(one) == set(data.curve) for one in data.alternatives]
    return JudgeResult(
        bool(in_place) and all(in_place),
        f"{sum(in_place)} of {len(in_place)} at {len(data.curve)} sizes, {_curve_range_text(data)}",
    )


def _has_higher_maximum(data: JudgeInput) -> JudgeResult:
    """Holds if the maximum of the curve exceeds the maximum of the other one, each at any parameter."""
    own, other = max(data.curve.values()), max((data.than or {}).values(), default=float("inf"))
    least = data.degree.more
    more = own - other > least if data.in_points else own > other * (1 + least)
    return JudgeResult(more, f"{data.write(own)} against {data.write(other)}")


def _is_monotonic(data: JudgeInput, sign: int) -> JudgeResult:
    """Holds if the numbers grow (`sign` 1) or fall (`sign` -1) from first to last, without a step in the opposite
    direction."""
    ys = [sign * y for y in data.curve.values()]
    # A step in the opposite direction is ignored if it is below the tolerance: in points, or relative to the maximum.
    scale = 1.0 if data.in_points else max(abs(y) for y in ys) or 1.0
    back = (MIN_DIFFERENCE if data.in_points else SAME_TOLERANCE) * scale
    least = data.degree.more if data.in_points else max(SAME_TOLERANCE, data.degree.more)
    steady = all(after >= before - back for before, after in zip(ys, ys[1:], strict=False))
    ours = f"{data.write(sign * ys[0])} to {data.write(sign * ys[-1])}"
    return JudgeResult(len(ys) > 1 and steady and ys[-1] - ys[0] > least * scale, ours)


def _is_flat(data: JudgeInput) -> JudgeResult:
    """Holds if no number differs from the middle of all by more than equal numbers may. For differences of counts, one
    must be above 0: saving nothing is not a constant saving."""
    ys = list(data.curve.values())
    if data.is_count and max(ys) <= 0:
        return JudgeResult(False, _curve_range_text(data))
    widest = min(ys) + 2 * _max_equal_difference(data, *ys) if data.in_points else min(ys) * (1 + data.degree.same) ** 2
    return JudgeResult(len(ys) > 1 and max(ys) <= widest, _curve_range_text(data))


def _lies_between_ends(data: JudgeInput) -> JudgeResult:
    """Holds if all inner points lie between the first and the last one, inclusive."""
    first, *inner, last = data.curve.values()
    low, high = min(first, last), max(first, last)
    room = _max_equal_difference(data, low, high) * (1.0 if data.in_points else max(abs(low), abs(high)))
    holds = bool(inner) and all(low - room <= y <= high + room for y in inner)
    text = ", ".join(data.write(y) for y in inner)
    return JudgeResult(holds, f"{text} between {data.write(first)} and {data.write(last)}")


def _has_steps(data: JudgeInput) -> JudgeResult:
    """Holds if the curve changes by at least a quarter from the previous point to each of the given sizes; a gain also
    by at least 1 point, since figures show nothing smaller."""
    xs = list(data.curve)
    text, holds = [], True
    for step in data.steps:
        before = max((x for x in xs if x < step), default=None)
        after = min((x for x in xs if x >= step), default=None)
        if before is None or after is None:
            return JudgeResult(False, f"nothing on both sides of {data.write_x(step)}")
        low, high = data.curve[before], data.curve[after]
        least = MIN_DIFFERENCE if data.is_gain else 0.0
        holds &= abs(high - low) >= max(least, NUMBER_TOLERANCE * max(abs(high), abs(low)))
        text.append(f"{data.write(low)} to {data.write(high)} at {data.write_x(step)}")
    return JudgeResult(holds and bool(text), ", ".join(text))


def _curve_range_text(data: JudgeInput) -> str:
    return _range_text(data, data.curve)


def _range_text(data: JudgeInput, curve: Points) -> str:
    low, high = data.write(min(curve.values())), data.write(max(curve.values()))
    return low if low == high else f"{low} to {high}"


JUDGES = {
    "highest": Judge(lambda data: _extreme_is_near(data, max), "both", of_number=True),
    "lowest": Judge(lambda data: _extreme_is_near(data, min), "both", of_number=True),
    "peaks": Judge(_peaks_at_position, "both", kind="difference"),
    "everywhere": Judge(_is_near_everywhere, of_number=True),
    # Bounds: the paper says "more than" or "at most", and any number beyond the bound agrees.
    "at-least": Judge(lambda data: _keeps_bound(data, max, 1), "some", of_number=True),
    "at-most": Judge(lambda data: _keeps_bound(data, max, -1), of_number=True),
    "same": Judge(_is_same_everywhere, of_two=True, kind="equality"),
    "more": Judge(lambda data: _compare_all(data, lambda by: by > data.degree.more), of_two=True, kind="difference"),
    "less": Judge(lambda data: _compare_all(data, lambda by: by < -data.degree.more), of_two=True, kind="difference"),
    "no-more": Judge(lambda data: _compare_all(data, lambda by: by <= data.degree.nothing), of_two=True,
                     kind="equality"),
    "higher": Judge(_has_higher_maximum, "both", of_two=True, kind="difference"),
    "given": Judge(_has_all_alternatives),
    # At least one per line or counted item; a line in several caches counts several times.
    "all": Judge(lambda data: _all_numbers(data, lambda y: y >= 1 - SAME_TOLERANCE)),
    "none": Judge(lambda data: _all_numbers(data, lambda y: abs(y) <= data.degree.nothing), kind="equality"),
    "some": Judge(_is_positive_somewhere, "some", kind="difference"),
    "never": Judge(lambda data: _all_numbers(data, lambda y: y <= data.degree.nothing), kind="equality"),  # above zero
    "grows": Judge(lambda data: _is_monotonic(data, 1), kind="difference"),
    "falls": Judge(lambda data: _is_monotonic(data, -1), kind="difference"),
    "flat": Judge(_is_flat, kind="equality"),
    "between": Judge(_lies_between_ends, kind="equality"),
    "steps": Judge(_has_steps, "both"),
}  # fmt: skip
