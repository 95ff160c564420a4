"""Judges whether a curve agrees with a paper. All claims have the same tolerance: a number is reproduced if ours is
within a quarter of it, since the papers' are rounded or read off figures; two numbers are the same within 5 %, and one
is more than the other from 1 % on, which no figure shows. Gains, which are shares of a time, are compared in points of
that time; since 5 points are more than many a gain, two of them are the same only if they also are within a quarter of
the larger one, as a paper's number would have to be, or within 1 point. A judge also describes our numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nearfield.reproduce.curves import Points

NEAR = 0.25  # relative to a paper's number
SAME = 0.05  # relative, but absolute for gains and for differences of counts per line
MORE = 0.01


@dataclass(frozen=True)
class Asked:
    """The input of a judge. `write` formats numbers of the curve, `write_x` those of its parameter."""

    curve: Points
    than: Points | None
    number: tuple[float, float] | None  # the paper's, as a range
    at: tuple[float, float] | None
    steps: tuple[float, ...]
    is_difference: bool  # the curve's numbers are gains or differences, and 0 is the middle
    write: Callable[[float], str]
    write_x: Callable[[float], str]
    alternatives: tuple[Points, ...] = ()  # the curve is the highest of these
    is_gain: bool = False
    is_count: bool = False  # a difference of plain counts, which is compared relatively

    @property
    def in_points(self) -> bool:
        """Returns whether numbers are compared by subtraction."""
        return self.is_difference and not self.is_count


@dataclass(frozen=True)
class Found:
    """A judgement with our numbers in words."""

    holds: bool
    ours: str


Over = Literal["every", "some", "both"]


@dataclass(frozen=True)
class Judge:
    """A function that judges, and its inputs. `over` says over which points it holds: over every one, so that one point
    alone can refute it; over some, so that one point alone can make it hold; or both, where one point can do either."""

    judge: Callable[[Asked], Found]
    over: Over = "every"
    of_number: bool = False
    of_two: bool = False  # may be given a second curve


def near(value: float, number: tuple[float, float]) -> bool:
    """Returns whether the value is within the tolerance of the number, or of the range."""
    low, high = number
    return low - NEAR * abs(low) <= value <= high + NEAR * abs(high)


# ---- numbers


def _extreme(asked: Asked, best: Callable[..., float]) -> Found:
    """Holds if the highest or lowest number is the paper's, and lies where the paper has it."""
    assert asked.number
    x = best(asked.curve, key=lambda at: asked.curve[at])
    there = asked.at is None or asked.at[0] <= x <= asked.at[1]
    return Found(near(asked.curve[x], asked.number) and there, f"{asked.write(asked.curve[x])} at {asked.write_x(x)}")


def _peaks(asked: Asked) -> Found:
    """Holds if the highest number is more than nothing and lies where the paper has its own."""
    x = max(asked.curve, key=lambda at: asked.curve[at])
    there = asked.at is None or asked.at[0] <= x <= asked.at[1]
    return Found(asked.curve[x] > MORE and there, f"{asked.write(asked.curve[x])} at {asked.write_x(x)}")


def _everywhere(asked: Asked) -> Found:
    number = asked.number
    assert number
    return _all_numbers(asked, lambda y: near(y, number))


def _bound(asked: Asked, best: Callable[..., float], sign: int) -> Found:
    """Holds if the highest number is not below (sign 1) or not above (sign -1) the paper's by more than the
    tolerance."""
    assert asked.number
    x = best(asked.curve, key=lambda at: asked.curve[at])
    limit = asked.number[0] if sign > 0 else asked.number[1]
    there = asked.at is None or asked.at[0] <= x <= asked.at[1]
    holds = sign * (asked.curve[x] - limit) >= -NEAR * abs(limit)
    return Found(holds and there, f"{asked.write(asked.curve[x])} at {asked.write_x(x)}")


# ---- shapes


def _compared(asked: Asked) -> dict[float, float]:
    """Returns by how much the curve exceeds the other one (without it 1, or 0 for differences): relatively, or in
    points."""
    than = asked.than or dict.fromkeys(asked.curve, 0.0 if asked.is_difference else 1.0)
    pairs = {x: (y, than[x]) for x, y in asked.curve.items() if x in than}
    if asked.in_points:
        return {x: y - other for x, (y, other) in pairs.items()}
    return {x: (y - other) / abs(other) if other else math.copysign(math.inf, y) if y else 0.0
            for x, (y, other) in pairs.items()}  # fmt: skip


def _tolerance(asked: Asked, *gains: float) -> float:
    """Returns by how much two numbers may differ that count as the same; for gains it depends on how large they are."""
    if not asked.is_gain:
        return SAME
    return max(MORE, min(SAME, NEAR * max(map(abs, gains))))


def _same(asked: Asked) -> Found:
    """Holds if the curve is as high as the other one everywhere."""
    than = asked.than or {}
    found = {x: abs(by) <= _tolerance(asked, asked.curve[x], than.get(x, 0.0)) for x, by in _compared(asked).items()}
    return _told_compared(asked, list(found.values()))


def _all_compared(asked: Asked, holds: Callable[[float], bool]) -> Found:
    return _told_compared(asked, [holds(by) for by in _compared(asked).values()])


def _told_compared(asked: Asked, hold: list[bool]) -> Found:
    text = _range(asked) + (f" against {_range_of(asked, asked.than)}" if asked.than else "")
    return Found(bool(hold) and all(hold), f"{text}; at {sum(hold)} of {len(hold)}")


def _all_numbers(asked: Asked, holds: Callable[[float], bool]) -> Found:
    return Found(all(map(holds, asked.curve.values())), _range(asked))


def _given(asked: Asked) -> Found:
    """Holds if each alternative has records at the same sizes."""
    there = [set(one) == set(asked.curve) for one in asked.alternatives]
    return Found(
        bool(there) and all(there), f"{sum(there)} of {len(there)} at {len(asked.curve)} sizes, {_range(asked)}"
    )


def _higher(asked: Asked) -> Found:
    """Holds if the highest number of one curve exceeds the highest of the other, at any parameter."""
    own, other = max(asked.curve.values()), max((asked.than or {}).values(), default=float("inf"))
    more = own - other > MORE if asked.in_points else own > other * (1 + MORE)
    return Found(more, f"{asked.write(own)} against {asked.write(other)}")


def _monotonic(asked: Asked, sign: int) -> Found:
    """Holds if the numbers grow (or fall) from first to last, and no step goes the other way."""
    ys = [sign * y for y in asked.curve.values()]
    # Shares and differences are compared in points, as everywhere: a step back of one is no step.
    scale = MORE / SAME if asked.in_points else max(abs(y) for y in ys) or 1.0
    steady = all(after >= before - SAME * scale for before, after in zip(ys, ys[1:], strict=False))
    ours = f"{asked.write(sign * ys[0])} to {asked.write(sign * ys[-1])}"
    return Found(len(ys) > 1 and steady and ys[-1] - ys[0] > SAME * scale, ours)


def _flat(asked: Asked) -> Found:
    """Holds if no number is farther from the middle than what counts as the same. Of differences of counts some must be
    above 0: what is not spared at all is not spared steadily."""
    ys = list(asked.curve.values())
    if asked.is_count and max(ys) <= 0:
        return Found(False, _range(asked))
    widest = min(ys) + 2 * _tolerance(asked, *ys) if asked.in_points else min(ys) * (1 + SAME) ** 2
    return Found(len(ys) > 1 and max(ys) <= widest, _range(asked))


def _between(asked: Asked) -> Found:
    """Holds if the numbers between the first and the last lie between these two, which may be the same."""
    first, *inner, last = asked.curve.values()
    low, high = min(first, last), max(first, last)
    room = _tolerance(asked, low, high) * (1.0 if asked.in_points else max(abs(low), abs(high)))
    holds = bool(inner) and all(low - room <= y <= high + room for y in inner)
    told = ", ".join(asked.write(y) for y in inner)
    return Found(holds, f"{told} between {asked.write(first)} and {asked.write(last)}")


def _steps(asked: Asked) -> Found:
    """Holds if the curve jumps by a quarter of itself at each of the sizes, from the size before; a gain by a point at
    least, since figures do not show less."""
    xs = list(asked.curve)
    told, holds = [], True
    for step in asked.steps:
        before = max((x for x in xs if x < step), default=None)
        after = min((x for x in xs if x >= step), default=None)
        if before is None or after is None:
            return Found(False, f"nothing on both sides of {asked.write_x(step)}")
        low, high = asked.curve[before], asked.curve[after]
        least = MORE if asked.is_gain else 0.0
        holds &= abs(high - low) >= max(least, NEAR * max(abs(high), abs(low)))
        told.append(f"{asked.write(low)} to {asked.write(high)} at {asked.write_x(step)}")
    return Found(holds and bool(told), ", ".join(told))


def _range(asked: Asked) -> str:
    return _range_of(asked, asked.curve)


def _range_of(asked: Asked, curve: Points) -> str:
    low, high = asked.write(min(curve.values())), asked.write(max(curve.values()))
    return low if low == high else f"{low} to {high}"


JUDGES = {
    "highest": Judge(lambda asked: _extreme(asked, max), "both", of_number=True),
    "lowest": Judge(lambda asked: _extreme(asked, min), "both", of_number=True),
    "peaks": Judge(_peaks, "both"),
    "everywhere": Judge(_everywhere, of_number=True),
    # Bounds: the paper says "more than", or "at most", and whatever is beyond the number agrees with it.
    "at-least": Judge(lambda asked: _bound(asked, max, 1), "some", of_number=True),
    "at-most": Judge(lambda asked: _bound(asked, max, -1), of_number=True),
    "same": Judge(_same, of_two=True),
    "more": Judge(lambda asked: _all_compared(asked, lambda by: by > MORE), of_two=True),
    "less": Judge(lambda asked: _all_compared(asked, lambda by: by < -MORE), of_two=True),
    "no-more": Judge(lambda asked: _all_compared(asked, lambda by: by <= MORE), of_two=True),
    "higher": Judge(_higher, "both", of_two=True),
    "given": Judge(_given),
    # One or more for each line, or for each thing that is counted: a line that is in several caches counts repeatedly.
    "all": Judge(lambda asked: _all_numbers(asked, lambda y: y >= 1 - SAME)),
    "none": Judge(lambda asked: _all_numbers(asked, lambda y: abs(y) <= MORE)),
    "some": Judge(lambda asked: Found(any(y > MORE for y in asked.curve.values()), _range(asked)), "some"),
    "never": Judge(lambda asked: _all_numbers(asked, lambda y: y <= MORE)),  # more than nothing
    "grows": Judge(lambda asked: _monotonic(asked, 1)),
    "falls": Judge(lambda asked: _monotonic(asked, -1)),
    "flat": Judge(_flat),
    "between": Judge(_between),
    "steps": Judge(_steps, "both"),
}
