"""Judges whether a curve agrees with a paper's statement, with the same tolerances for all claims. A number is
reproduced if the simulated one deviates by at most a quarter, since papers round numbers or show them in figures. Two
numbers are equal if they differ by at most 5 %. A number is higher than another if it exceeds it by more than 1 %; no
figure shows less. A word of degree in the paper, such as "slightly", changes these thresholds (adverbs.py).

Gains, which are fractions of a time, are compared in percentage points. Since many gains are smaller than 5 points, two
gains are equal only if they also differ by at most a quarter of the larger one, or by at most 1 point. A judge also
formats the judged numbers as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nearfield.reproduce.adverbs import DEFAULT_DEGREE, MIN_DIFFERENCE, SAME_TOLERANCE, Degree
from nearfield.reproduce.curves import Points

NUMBER_TOLERANCE = 0.25  # maximum relative deviation from the paper's number


@dataclass(frozen=True)
class JudgeInput:
    """The input of a judge function. `format_number` formats values of the curve, and `format_x` values of its
    parameter."""

    curve: Points
    other_curve: Points | None
    paper_number: tuple[float, float] | None  # the paper's number, as a range
    position_range: tuple[float, float] | None
    step_positions: tuple[float, ...]
    is_difference: bool  # numbers are gains or differences, for which 0 means equal
    format_number: Callable[[float], str]
    format_x: Callable[[float], str]
    alternative_curves: tuple[Points, ...] = ()  # curves of which `curve` is the pointwise maximum
    is_gain: bool = False
    is_count: bool = False  # numbers are differences of counts, which are compared relatively
    degree: Degree = DEFAULT_DEGREE  # thresholds, depending on the paper's words of degree

    @property
    def has_absolute_tolerance(self) -> bool:
        """Returns whether numbers are compared by their difference (True) or by their ratio (False)."""
        return self.is_difference and not self.is_count


@dataclass(frozen=True)
class JudgeResult:
    """A judgement: whether the statement holds, and the judged numbers as text. `holds` is None if the numbers do not
    decide it."""

    holds: bool | None
    numbers_text: str


Quantifier = Literal["every", "some", "both"]
DegreeKind = Literal["difference", "equality", ""]


@dataclass(frozen=True)
class Judge:
    """A judge function and the inputs that it needs. `quantifier` says what a single point of the curve can decide:
    "every" if the statement must hold at every point, so that one point can refute it; "some" if one point can prove
    it; "both" if one point can do either."""

    judge: Callable[[JudgeInput], JudgeResult]
    quantifier: Quantifier = "every"
    needs_number: bool = False
    can_compare_curves: bool = False  # whether it can compare the curve with a second one
    degree_kind: DegreeKind = ""  # kind of the words of degree that change the thresholds (adverbs.py)


def is_near_number(value: float, paper_number: tuple[float, float]) -> bool:
    """Returns whether the value is within the tolerance of the paper's number, given as a range."""
    low, high = paper_number
    return low - NUMBER_TOLERANCE * abs(low) <= value <= high + NUMBER_TOLERANCE * abs(high)


# ---- judges that compare with the paper's number


def _judge_extreme(data: JudgeInput, find_extreme: Callable[..., float]) -> JudgeResult:
    """Holds if the maximum (or minimum) is near the paper's number, and lies at the paper's position."""
    assert data.paper_number
    x = find_extreme(data.curve, key=lambda at: data.curve[at])
    in_place = data.position_range is None or data.position_range[0] <= x <= data.position_range[1]
    return JudgeResult(
        is_near_number(data.curve[x], data.paper_number) and in_place,
        f"{data.format_number(data.curve[x])} at {data.format_x(x)}",
    )


def _judge_peak_position(data: JudgeInput) -> JudgeResult:
    """Holds if the maximum is positive and lies at the paper's position."""
    x = max(data.curve, key=lambda at: data.curve[at])
    in_place = data.position_range is None or data.position_range[0] <= x <= data.position_range[1]
    return JudgeResult(
        data.curve[x] > data.degree.min_difference and in_place,
        f"{data.format_number(data.curve[x])} at {data.format_x(x)}",
    )


def _judge_near_everywhere(data: JudgeInput) -> JudgeResult:
    """Holds if every point is near the paper's number."""
    number = data.paper_number
    assert number
    return _judge_all_numbers(data, lambda y: is_near_number(y, number))


def _judge_bound(data: JudgeInput, find_extreme: Callable[..., float], bound_sign: int) -> JudgeResult:
    """Holds if the extreme keeps the paper's bound within the tolerance. With `bound_sign` 1, the number is a lower
    bound; with -1, an upper bound."""
    assert data.paper_number
    x = find_extreme(data.curve, key=lambda at: data.curve[at])
    limit = data.paper_number[0] if bound_sign > 0 else data.paper_number[1]
    in_place = data.position_range is None or data.position_range[0] <= x <= data.position_range[1]
    holds = bound_sign * (data.curve[x] - limit) >= -NUMBER_TOLERANCE * abs(limit)
    return JudgeResult(holds and in_place, f"{data.format_number(data.curve[x])} at {data.format_x(x)}")


def _judge_mean_between_bounds(data: JudgeInput) -> JudgeResult:
    """Judges the mean of all points, of which the curve and the other curve give two bounds. Holds if both means are
    near the paper's number, does not if the number is outside of the bounds, and is undecided if it is between them."""
    assert data.paper_number
    means = sorted(
        sum(points.values()) / len(points) for points in (data.curve, data.other_curve or data.curve) if points
    )
    text = f"mean of {data.format_number(means[0])} to {data.format_number(means[-1])}"
    if all(is_near_number(mean, data.paper_number) for mean in means):
        return JudgeResult(True, text)
    low, high = data.paper_number
    tolerance = NUMBER_TOLERANCE
    is_outside = means[-1] < low - tolerance * abs(low) or means[0] > high + tolerance * abs(high)
    return JudgeResult(False, text) if is_outside else JudgeResult(None, f"cannot tell: {text}")


# ---- judges of a curve's shape


def _excess_over_other_curve(data: JudgeInput) -> dict[float, float]:
    """Returns x -> excess of the curve over the other curve, relative or in percentage points. Without another curve,
    the curve is compared with the constant 1, or with 0 if its numbers are differences."""
    other_curve = data.other_curve or dict.fromkeys(data.curve, 0.0 if data.is_difference else 1.0)
    pairs = {x: (y, other_curve[x]) for x, y in data.curve.items() if x in other_curve}
    if data.has_absolute_tolerance:
        return {x: y - other for x, (y, other) in pairs.items()}
    return {x: (y - other) / abs(other) if other else math.copysign(math.inf, y) if y else 0.0
            for x, (y, other) in pairs.items()}  # fmt: skip


def _max_equal_difference(data: JudgeInput, *gains: float) -> float:
    """Returns the maximum difference of numbers that count as equal. For gains, this limit depends on their size."""
    if not data.is_gain:
        return data.degree.max_equal_difference
    return max(
        data.degree.max_negligible, min(data.degree.max_equal_difference, NUMBER_TOLERANCE * max(map(abs, gains)))
    )


def _judge_equality(data: JudgeInput) -> JudgeResult:
    """Holds if the curve equals the other one at every point."""
    other_curve = data.other_curve or {}
    is_equal_by_x = {
        x: abs(excess) <= _max_equal_difference(data, data.curve[x], other_curve.get(x, 0.0))
        for x, excess in _excess_over_other_curve(data).items()
    }
    return _make_comparison_result(data, list(is_equal_by_x.values()))


def _judge_excess_everywhere(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    """Holds if the predicate `holds` accepts the excess over the other curve at every point."""
    return _make_comparison_result(data, [holds(excess) for excess in _excess_over_other_curve(data).values()])


def _make_comparison_result(data: JudgeInput, holds_by_point: list[bool]) -> JudgeResult:
    text = _format_curve_range(data) + (f" against {_format_range(data, data.other_curve)}" if data.other_curve else "")
    return JudgeResult(
        bool(holds_by_point) and all(holds_by_point), f"{text}; at {sum(holds_by_point)} of {len(holds_by_point)}"
    )


def _judge_all_numbers(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    return JudgeResult(all(map(holds, data.curve.values())), _format_curve_range(data))


def _judge_any_positive(data: JudgeInput) -> JudgeResult:
    """Holds if any point exceeds 0 by more than the minimum difference."""
    return JudgeResult(any(y > data.degree.min_difference for y in data.curve.values()), _format_curve_range(data))


def _judge_alternatives_complete(data: JudgeInput) -> JudgeResult:
    """Holds if all alternatives of the curve have records at the same sizes."""
    in_place = [set(one) == set(data.curve) for one in data.alternative_curves]
    return JudgeResult(
        bool(in_place) and all(in_place),
        f"{sum(in_place)} of {len(in_place)} at {len(data.curve)} sizes, {_format_curve_range(data)}",
    )


def _judge_higher_maximum(data: JudgeInput) -> JudgeResult:
    """Holds if the maximum of the curve exceeds the maximum of the other curve, wherever both lie."""
    first_maximum, second_maximum = (
        max(data.curve.values()),
        max((data.other_curve or {}).values(), default=float("inf")),
    )
    min_difference = data.degree.min_difference
    is_higher = (
        first_maximum - second_maximum > min_difference
        if data.has_absolute_tolerance
        else first_maximum > second_maximum * (1 + min_difference)
    )
    return JudgeResult(is_higher, f"{data.format_number(first_maximum)} against {data.format_number(second_maximum)}")


def _judge_monotonic(data: JudgeInput, direction: int) -> JudgeResult:
    """Holds if the numbers grow (`direction` 1) or fall (`direction` -1) from the first to the last point, without a
    step in the opposite direction."""
    ys = [direction * y for y in data.curve.values()]
    # A step in the opposite direction is ignored if it is below the tolerance, in percentage points or relative to the
    # maximum.
    scale = 1.0 if data.has_absolute_tolerance else max(abs(y) for y in ys) or 1.0
    max_step_back = (MIN_DIFFERENCE if data.has_absolute_tolerance else SAME_TOLERANCE) * scale
    min_growth = (
        data.degree.min_difference if data.has_absolute_tolerance else max(SAME_TOLERANCE, data.degree.min_difference)
    )
    is_monotonic = all(after >= before - max_step_back for before, after in zip(ys, ys[1:], strict=False))
    numbers_text = f"{data.format_number(direction * ys[0])} to {data.format_number(direction * ys[-1])}"
    return JudgeResult(len(ys) > 1 and is_monotonic and ys[-1] - ys[0] > min_growth * scale, numbers_text)


def _judge_constant(data: JudgeInput) -> JudgeResult:
    """Holds if no number differs from the middle of the range by more than equal numbers may. For differences of
    counts, at least one must be above 0, since saving nothing is not a constant saving."""
    ys = list(data.curve.values())
    if data.is_count and max(ys) <= 0:
        return JudgeResult(False, _format_curve_range(data))
    widest = (
        min(ys) + 2 * _max_equal_difference(data, *ys)
        if data.has_absolute_tolerance
        else min(ys) * (1 + data.degree.max_equal_difference) ** 2
    )
    return JudgeResult(len(ys) > 1 and max(ys) <= widest, _format_curve_range(data))


def _judge_between_ends(data: JudgeInput) -> JudgeResult:
    """Holds if all inner points lie between the first and the last one, inclusive."""
    first, *inner, last = data.curve.values()
    low, high = min(first, last), max(first, last)
    tolerance = _max_equal_difference(data, low, high) * (
        1.0 if data.has_absolute_tolerance else max(abs(low), abs(high))
    )
    holds = bool(inner) and all(low - tolerance <= y <= high + tolerance for y in inner)
    text = ", ".join(data.format_number(y) for y in inner)
    return JudgeResult(holds, f"{text} between {data.format_number(first)} and {data.format_number(last)}")


def _judge_steps(data: JudgeInput) -> JudgeResult:
    """Holds if, at each of the given sizes, the curve changes by at least a quarter from the previous point. A gain
    must also change by at least 1 percentage point, since figures show nothing smaller."""
    xs = list(data.curve)
    step_texts, holds = [], True
    for step in data.step_positions:
        x_before = max((x for x in xs if x < step), default=None)
        x_after = min((x for x in xs if x >= step), default=None)
        if x_before is None or x_after is None:
            return JudgeResult(False, f"nothing on both sides of {data.format_x(step)}")
        low, high = data.curve[x_before], data.curve[x_after]
        min_step = MIN_DIFFERENCE if data.is_gain else 0.0
        holds &= abs(high - low) >= max(min_step, NUMBER_TOLERANCE * max(abs(high), abs(low)))
        step_texts.append(f"{data.format_number(low)} to {data.format_number(high)} at {data.format_x(step)}")
    return JudgeResult(holds and bool(step_texts), ", ".join(step_texts))


def _format_curve_range(data: JudgeInput) -> str:
    return _format_range(data, data.curve)


def _format_range(data: JudgeInput, curve: Points) -> str:
    low, high = data.format_number(min(curve.values())), data.format_number(max(curve.values()))
    return low if low == high else f"{low} to {high}"


JUDGES = {
    "highest": Judge(lambda data: _judge_extreme(data, max), "both", needs_number=True),
    "lowest": Judge(lambda data: _judge_extreme(data, min), "both", needs_number=True),
    "peaks": Judge(_judge_peak_position, "both", degree_kind="difference"),
    "everywhere": Judge(_judge_near_everywhere, needs_number=True),
    # Bounds: the paper says "more than" or "at most", and any number beyond the bound agrees.
    "at-least": Judge(lambda data: _judge_bound(data, max, 1), "some", needs_number=True),
    "at-most": Judge(lambda data: _judge_bound(data, max, -1), needs_number=True),
    "mean-between": Judge(_judge_mean_between_bounds, needs_number=True, can_compare_curves=True),
    "same": Judge(_judge_equality, can_compare_curves=True, degree_kind="equality"),
    "more": Judge(lambda data: _judge_excess_everywhere(data, lambda by: by > data.degree.min_difference),
                  can_compare_curves=True, degree_kind="difference"),
    "less": Judge(lambda data: _judge_excess_everywhere(data, lambda by: by < -data.degree.min_difference),
                  can_compare_curves=True, degree_kind="difference"),
    "no-more": Judge(lambda data: _judge_excess_everywhere(data, lambda by: by <= data.degree.max_negligible),
                     can_compare_curves=True,
                     degree_kind="equality"),
    "higher": Judge(_judge_higher_maximum, "both", can_compare_curves=True, degree_kind="difference"),
    "given": Judge(_judge_alternatives_complete),
    # Every number must be at least 1 per cache line or counted item. A line in several caches counts several times.
    "all": Judge(lambda data: _judge_all_numbers(data, lambda y: y >= 1 - SAME_TOLERANCE)),
    "none": Judge(lambda data: _judge_all_numbers(data, lambda y: abs(y) <= data.degree.max_negligible),
                  degree_kind="equality"),
    "some": Judge(_judge_any_positive, "some", degree_kind="difference"),
    "never": Judge(lambda data: _judge_all_numbers(data, lambda y: y <= data.degree.max_negligible),
                   degree_kind="equality"),  # y is never above 0
    "grows": Judge(lambda data: _judge_monotonic(data, 1), degree_kind="difference"),
    "falls": Judge(lambda data: _judge_monotonic(data, -1), degree_kind="difference"),
    "flat": Judge(_judge_constant, degree_kind="equality"),
    "between": Judge(_judge_between_ends, degree_kind="equality"),
    "steps": Judge(_judge_steps, "both"),
}  # fmt: skip
