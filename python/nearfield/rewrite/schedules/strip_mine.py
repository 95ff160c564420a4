"""Strip mining of messages (S0, section IV-C): a loop over strips of a long message, in each of which its data are
made, exchanged and used while the caches hold them."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import (
    Order,
    Parts,
    Phase,
    Pieces,
    Step,
    Strips,
    Transformation,
    common,
    empty,
    executed,
    united,
    without,
)  # fmt: skip


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: the rest of what must come first, then for each strip what makes or reads the data to be sent, the
    exchange, and what needs the received data, then the rest; or only one side strip by strip."""
    for making, using in ((True, True), (True, False), (False, True)):
        before, after = assigned(parts, making=making, using=using)
        if (making and not any(before.values())) or (using and not any(after.values())):
            continue
        steps: list[Step] = []
        for step in parts.exchange():
            if isinstance(step, Phase) or step.call not in before:
                steps.append(step)
            else:
                steps.append(Strips(step.call, before[step.call], after[step.call]))
        strips = executed(*before.values(), *after.values())
        last = without(united(parts.free, parts.after), strips)
        steps = [Phase(without(parts.before, strips)), *steps, Phase(last)]
        words = [
            "for each strip, " + ", ".join(
                [*["what makes or reads the data to be sent"] * making, "the exchange", *["what needs it"] * using]
            ),
            *(["then the rest"] if not empty(last) else []),
        ]  # fmt: skip
        yield Order(tuple(steps), ", ".join(words))


def assigned(parts: Parts, *, making: bool, using: bool) -> tuple[dict[int, Pieces], dict[int, Pieces]]:
    """Returns by call what is executed before and after each of its pieces. What several calls need comes before the
    first of them, and what needs several comes after the last."""
    numbers = [number for number, _ in parts.model.cut]
    before: dict[int, Pieces] = {number: {} for number in numbers}
    after: dict[int, Pieces] = {number: {} for number in numbers}
    left = united(parts.before, common(parts.free, parts.warm))
    for number in numbers if making else []:
        before[number] = parts.producing(number, left)
        left = without(left, executed(before[number]))
    left = parts.after
    for number in reversed(numbers) if using else []:
        after[number] = parts.using(number, left)
        left = without(left, executed(after[number]))
    return before, after


SPEC = Transformation(
    "strip-mine", "makes, exchanges and uses a long message strip by strip, in the caches", orders, cuts=True
)
