"""Judges whether a curve agrees with a paper. All claims have the same tolerance: a number is reproduced if ours is
within a quarter of it, since the papers' numbers are rounded or read off figures; two numbers are equal within 5 %, and
one exceeds the other from 1 % on, which no figure shows, unless the paper has a word of degree (adverbs.py). Gains,
which are shares of a time, are compared in percentage points. Since 5 points are more than many gains, two gains are
equal only if they are also within a quarter of the larger one, like a paper's number, or within 1 point. A judge also
describes our numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nearfield.reproduce.adverbs import MIN_DIFFERENCE, PLAIN_DEGREE, SAME_TOLERANCE, Degree
from nearfield.reproduce.curves import Points

NUMBER_TOLERANCE = 0.25  # relative to the paper's number


@dataclass(frozen=True)
class JudgeInput:
    """The input of a judge. `write` formats numbers of the curve, `write_x` those of its parameter."""

    curve: Points
    than: Points | None
    number: tuple[float, float] | None  # the paper's number, as a range
    at: tuple[float, float] | None
    steps: tuple[float, ...]
    is_difference: bool  # the numbers are gains or differences, so that 0 means equal
    write: Callable[[float], str]
    write_x: Callable[[float], str]
    alternatives: tuple[Points, ...] = ()  # the curve is the maximum of these
    is_gain: bool = False
    is_count: bool = False  # a difference of plain counts, which is compared relatively
    degree: Degree = PLAIN_DEGREE  # the thresholds, by the paper's words

    @property
    def in_points(self) -> bool:
        """Returns whether numbers are compared by subtraction."""
        return self.is_difference and not self.is_count


@dataclass(frozen=True)
class JudgeResult:
    """A judgement, and our numbers in words."""

    holds: bool
    ours: str


Over = Literal["every", "some", "both"]
Kind = Literal["difference", "equality", ""]


@dataclass(frozen=True)
class Judge:
    """A judge function and its inputs. `over`: "every" if it must hold at every point, so that one point can refute it;
    "some" if one point is enough; "both" if one point can do either."""

    judge: Callable[[JudgeInput], JudgeResult]
    over: Over = "every"
    of_number: bool = False
    of_two: bool = False  # may have a second curve
    kind: Kind = ""  # whose words of degree change its thresholds


def is_near_number(value: float, number: tuple[float, float]) -> bool:
    """Returns whether the value is within the tolerance of the number, or of the range."""
    low, high = number
    return low - NUMBER_TOLERANCE * abs(low) <= value <= high + NUMBER_TOLERANCE * abs(high)


# ---- numbers


def _extreme_is_near(data: JudgeInput, best: Callable[..., float]) -> JudgeResult:
    """Holds if the maximum or minimum is the paper's, and at the paper's position."""
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
    number = data.number
    assert number
    return _all_numbers(data, lambda y: is_near_number(y, number))


def _keeps_bound(data: JudgeInput, best: Callable[..., float], sign: int) -> JudgeResult:
    """Holds if the extreme is not below (sign 1) or not above (sign -1) the paper's number by more than the
    tolerance."""
    assert data.number
    x = best(data.curve, key=lambda at: data.curve[at])
    limit = data.number[0] if sign > 0 else data.number[1]
    in_place = data.at is None or data.at[0] <= x <= data.at[1]
    holds = sign * (data.curve[x] - limit) >= -NUMBER_TOLERANCE * abs(limit)
    return JudgeResult(holds and in_place, f"{data.write(data.curve[x])} at {data.write_x(x)}")


# ---- shapes


def _excess_over_other(data: JudgeInput) -> dict[float, float]:
    """Returns by how much the curve exceeds the other one (by default 1, or 0 for differences): relatively, or in
    points."""
    than = data.than or dict.fromkeys(data.curve, 0.0 if data.is_difference else 1.0)
    pairs = {x: (y, than[x]) for x, y in data.curve.items() if x in than}
    if data.in_points:
        return {x: y - other for x, (y, other) in pairs.items()}
    return {x: (y - other) / abs(other) if other else math.copysign(math.inf, y) if y else 0.0
            for x, (y, other) in pairs.items()}  # fmt: skip


def _max_equal_difference(data: JudgeInput, *gains: float) -> float:
    """Returns the maximum difference of equal numbers; for gains it depends on their size."""
    if not data.is_gain:
        return data.degree.same
    return max(data.degree.nothing, min(data.degree.same, NUMBER_TOLERANCE * max(map(abs, gains))))


def _is_same_everywhere(data: JudgeInput) -> JudgeResult:
    """Holds if the curve equals the other one everywhere."""
    than = data.than or {}
    found = {
        x: abs(by) <= _max_equal_difference(data, data.curve[x], than.get(x, 0.0))
        for x, by in _excess_over_other(data).items()
    }
    return _format_comparison(data, list(found.values()))


def _compare_all(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    """Holds if `holds` accepts the excess at every point."""
    return _format_comparison(data, [holds(by) for by in _excess_over_other(data).values()])


def _format_comparison(data: JudgeInput, hold: list[bool]) -> JudgeResult:
    text = _curve_range_text(data) + (f" against {_range_text(data, data.than)}" if data.than else "")
    return JudgeResult(bool(hold) and all(hold), f"{text}; at {sum(hold)} of {len(hold)}")


def _all_numbers(data: JudgeInput, holds: Callable[[float], bool]) -> JudgeResult:
    return JudgeResult(all(map(holds, data.curve.values())), _curve_range_text(data))


def _is_positive_somewhere(data: JudgeInput) -> JudgeResult:
    return JudgeResult(any(y > data.degree.more for y in data.curve.values()), _curve_range_text(data))


def _has_all_alternatives(data: JudgeInput) -> JudgeResult:
    """Holds if all alternatives have records at the same sizes."""
    in_place = [set(one) == set(data.curve) for one in data.alternatives]
    return JudgeResult(
        bool(in_place) and all(in_place),
        f"{sum(in_place)} of {len(in_place)} at {len(data.curve)} sizes, {_curve_range_text(data)}",
    )


def _has_higher_maximum(data: JudgeInput) -> JudgeResult:
    """Holds if the maximum of one curve exceeds the maximum of the other, at any parameter."""
    own, other = max(data.curve.values()), max((data.than or {}).values(), default=float("inf"))
    least = data.degree.more
    more = own - other > least if data.in_points else own > other * (1 + least)
    return JudgeResult(more, f"{data.write(own)} against {data.write(other)}")


def _is_monotonic(data: JudgeInput, sign: int) -> JudgeResult:
    """Holds if the numbers grow (or fall) from first to last, and no step has the opposite direction."""
    ys = [sign * y for y in data.curve.values()]
    # Shares and differences are compared in points: a step back of less than the tolerance is ignored.
    scale = 1.0 if data.in_points else max(abs(y) for y in ys) or 1.0
    back = (MIN_DIFFERENCE if data.in_points else SAME_TOLERANCE) * scale
    least = data.degree.more if data.in_points else max(SAME_TOLERANCE, data.degree.more)
    steady = all(after >= before - back for before, after in zip(ys, ys[1:], strict=False))
    ours = f"{data.write(sign * ys[0])} to {data.write(sign * ys[-1])}"
    return JudgeResult(len(ys) > 1 and steady and ys[-1] - ys[0] > least * scale, ours)


def _is_flat(data: JudgeInput) -> JudgeResult:
    """Holds if no number differs from the middle by more than equal numbers may. For differences of counts, some must
    be above 0: a saving of nothing is not a constant saving."""
    ys = list(data.curve.values())
    if data.is_count and max(ys) <= 0:
        return JudgeResult(False, _curve_range_text(data))
    widest = min(ys) + 2 * _max_equal_difference(data, *ys) if data.in_points else min(ys) * (1 + data.degree.same) ** 2
    return JudgeResult(len(ys) > 1 and max(ys) <= widest, _curve_range_text(data))


def _lies_between_ends(data: JudgeInput) -> JudgeResult:
    """Holds if the numbers between the first and the last lie between these two, inclusive."""
    first, *inner, last = data.curve.values()
    low, high = min(first, last), max(first, last)
    room = _max_equal_difference(data, low, high) * (1.0 if data.in_points else max(abs(low), abs(high)))
    holds = bool(inner) and all(low - room <= y <= high + room for y in inner)
    text = ", ".join(data.write(y) for y in inner)
    return JudgeResult(holds, f"{text} between {data.write(first)} and {data.write(last)}")


def _has_steps(data: JudgeInput) -> JudgeResult:
    """Holds if the curve jumps by a quarter of itself at each of the sizes, from the previous size; a gain by at least
    a point, since figures show nothing smaller."""
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
    # Bounds: the paper says "more than" or "at most", and any number beyond agrees with it.
    "at-least": Judge(lambda data: _keeps_bound(data, max, 1), "some", of_number=True),
    "at-most": Judge(lambda data: _keeps_bound(data, max, -1), of_number=True),
    "same": Judge(_is_same_everywhere, of_two=True, kind="equality"),
    "more": Judge(lambda data: _compare_all(data, lambda by: by > data.degree.more), of_two=True, kind="difference"),
    "less": Judge(lambda data: _compare_all(data, lambda by: by < -data.degree.more), of_two=True, kind="difference"),
    "no-more": Judge(lambda data: _compare_all(data, lambda by: by <= data.degree.nothing), of_two=True,
                     kind="equality"),
    "higher": Judge(_has_higher_maximum, "both", of_two=True, kind="difference"),
    "given": Judge(_has_all_alternatives),
    # One or more per line, or per counted item: a line in several caches counts repeatedly.
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
