"""Late receive: all that does not need the received data is done before the exchange, and what needs them at once
after it."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Transformation, empty, united


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: all that may come first, the exchange, what needs it."""
    if not empty(parts.free) and not empty(parts.after):
        words = "all that does not need the received data, then the exchange, then what needs them, at once"
        yield Order((Phase(united(parts.before, parts.free)), *parts.exchange(), Phase(parts.after)), words)


SPEC = Transformation("late-receive", "receives just before the received data are used", orders)
