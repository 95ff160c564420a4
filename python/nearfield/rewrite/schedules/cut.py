"""Cut messages (S0, section IV-C, claim S0.10): the pieces of a long message are sent as soon as they are made, and
used as they arrive, with computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import (
    Event,
    Order,
    Parts,
    Phase,
    Step,
    Strips,
    Transformation,
    empty,
    executed,
    without,
)  # fmt: skip
from nearfield.rewrite.schedules.strip_mine import assigned


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: the rest of what must come first, then the pieces begin, each after what makes it, then what needs no
    message, then the pieces complete, each before what needs it, then the rest; or only one side piece by piece."""
    if not empty(parts.between):
        return
    for making, using in ((True, True), (True, False), (False, True)):
        before, after = assigned(parts, making=making, using=using)
        if (making and not any(before.values())) or (using and not any(after.values())):
            continue
        begin: list[Step] = []
        complete: list[Step] = []
        for number in parts.calls:
            if number in before:
                begin.append(Strips(number, before=before[number], completes=False))
                complete.append(Strips(number, after=after[number], begins=False))
            else:
                begin.append(Event(number))
        strips = executed(*before.values(), *after.values())
        first, free, last = (Phase(without(some, strips)) for some in (parts.before, parts.free, parts.after))
        words = "pieces are sent" + " as they are made" * making + ", then all that does not need them"
        words += (
            ", then pieces are used as they arrive, then the rest" if using else ", then pieces complete, then the rest"
        )
        yield Order((first, *begin, free, *complete, last), words)


SPEC = Transformation(
    "cut", "cuts a long message into pieces, which travel while others are made or used", orders, cuts=True
)
