"""Judges whether a curve agrees with a paper. All claims have the same tolerance: a number is reproduced if ours is
within a quarter of it, since the papers' are rounded or read off figures; two numbers are the same within 5 %, and one
is more than the other from 1 % on, which no figure shows. A judge also describes our numbers in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearfield.reproduce.curves import Points

NEAR = 0.25  # relative to a paper's number
SAME = 0.05  # relative, but absolute for shares and counts per line
MORE = 0.01


@dataclass(frozen=True)
class Asked:
    """The input of a judge. `write` formats numbers of the curve, `write_x` those of its parameter."""

    curve: Points
    than: Points | None
    number: tuple[float, float] | None  # the paper's, as a range
    at: tuple[float, float] | None
    steps: tuple[float, ...]
    is_difference: bool  # the curve's numbers are shares or differences, and 0 is the middle
    write: Callable[[float], str]
    write_x: Callable[[float], str]
    alternatives: tuple[Points, ...] = ()  # the curve is the highest of these


@dataclass(frozen=True)
class Found:
    """A judgement with our numbers in words."""

    holds: bool
    ours: str


@dataclass(frozen=True)
class Judge:
    """A function that judges, and its inputs."""

    judge: Callable[[Asked], Found]
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
    """Returns by how much the curve exceeds the other one (or 1), relatively; for differences (or 0) absolutely."""
    if asked.is_difference:
        than = asked.than or dict.fromkeys(asked.curve, 0.0)
        return {x: y - than[x] for x, y in asked.curve.items() if x in than}
    than = asked.than or dict.fromkeys(asked.curve, 1.0)
    return {x: (y - than[x]) / than[x] if than[x] else (0.0 if y == 0 else float("inf"))
            for x, y in asked.curve.items() if x in than}  # fmt: skip


def _all_compared(asked: Asked, holds: Callable[[float], bool]) -> Found:
    found = _compared(asked)
    good = sum(map(holds, found.values()))
    text = _range(asked) + (f" against {_range_of(asked, asked.than)}" if asked.than else "")
    return Found(bool(found) and good == len(found), f"{text}; at {good} of {len(found)}")


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
    more = own - other > MORE if asked.is_difference else own > other * (1 + MORE)
    return Found(more, f"{asked.write(own)} against {asked.write(other)}")


def _monotonic(asked: Asked, sign: int) -> Found:
    """Holds if the numbers grow (or fall) from first to last, and no step goes the other way."""
    ys = [sign * y for y in asked.curve.values()]
    # Shares and differences are compared in points, as everywhere: a step back of one is no step.
    scale = MORE / SAME if asked.is_difference else max(abs(y) for y in ys) or 1.0
    steady = all(after >= before - SAME * scale for before, after in zip(ys, ys[1:], strict=False))
    ours = f"{asked.write(sign * ys[0])} to {asked.write(sign * ys[-1])}"
    return Found(len(ys) > 1 and steady and ys[-1] - ys[0] > SAME * scale, ours)


def _flat(asked: Asked) -> Found:
    """Holds if no number is farther from the middle than what counts as the same."""
    ys = list(asked.curve.values())
    widest = min(ys) + 2 * SAME if asked.is_difference else min(ys) * (1 + SAME) ** 2
    return Found(len(ys) > 1 and max(ys) <= widest, _range(asked))


def _steps(asked: Asked) -> Found:
    """Holds if the curve jumps by a quarter of itself at each of the sizes, from the size before."""
    xs = list(asked.curve)
    told, holds = [], True
    for step in asked.steps:
        before = max((x for x in xs if x < step), default=None)
        after = min((x for x in xs if x >= step), default=None)
        if before is None or after is None:
            return Found(False, f"nothing on both sides of {asked.write_x(step)}")
        low, high = asked.curve[before], asked.curve[after]
        holds &= abs(high - low) >= NEAR * max(abs(high), abs(low))
        told.append(f"{asked.write(low)} to {asked.write(high)} at {asked.write_x(step)}")
    return Found(holds and bool(told), ", ".join(told))


def _range(asked: Asked) -> str:
    return _range_of(asked, asked.curve)


def _range_of(asked: Asked, curve: Points) -> str:
    low, high = asked.write(min(curve.values())), asked.write(max(curve.values()))
    return low if low == high else f"{low} to {high}"


JUDGES = {
    "highest": Judge(lambda asked: _extreme(asked, max), of_number=True),
    "lowest": Judge(lambda asked: _extreme(asked, min), of_number=True),
    "peaks": Judge(_peaks),
    "everywhere": Judge(_everywhere, of_number=True),
    # Bounds: the paper says "more than", or "at most", and whatever is beyond the number agrees with it.
    "at-least": Judge(lambda asked: _bound(asked, max, 1), of_number=True),
    "at-most": Judge(lambda asked: _bound(asked, max, -1), of_number=True),
    "same": Judge(lambda asked: _all_compared(asked, lambda by: abs(by) <= SAME), of_two=True),
    "more": Judge(lambda asked: _all_compared(asked, lambda by: by > MORE), of_two=True),
    "less": Judge(lambda asked: _all_compared(asked, lambda by: by < -MORE), of_two=True),
    "no-more": Judge(lambda asked: _all_compared(asked, lambda by: by <= MORE), of_two=True),
    "higher": Judge(_higher, of_two=True),
    "given": Judge(_given),
    # One or more for each line, or for each thing that is counted: a line that is in several caches counts repeatedly.
    "all": Judge(lambda asked: _all_numbers(asked, lambda y: y >= 1 - SAME)),
    "none": Judge(lambda asked: _all_numbers(asked, lambda y: abs(y) <= MORE)),
    "some": Judge(lambda asked: Found(any(y > MORE for y in asked.curve.values()), _range(asked))),
    "never": Judge(lambda asked: _all_numbers(asked, lambda y: y <= MORE)),  # more than nothing
    "grows": Judge(lambda asked: _monotonic(asked, 1)),
    "falls": Judge(lambda asked: _monotonic(asked, -1)),
    "flat": Judge(_flat),
    "steps": Judge(_steps),
}
