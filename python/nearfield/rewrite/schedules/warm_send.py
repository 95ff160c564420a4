"""Warm send (S0, listing 2, OPT1): what touches the data to be sent is done just before the exchange."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Transformation, common, empty, united, without


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: the rows that are sent, the exchange, the rest; and if loops stand before the exchange, the rows that are
    sent last among these."""
    warm = common(parts.free, parts.warm)
    if not empty(warm):
        rest = united(without(parts.free, warm), parts.after)
        words = "what reads the data to be sent, then the exchange, then the rest"
        yield Order((Phase(parts.before), Phase(warm), *parts.exchange(), Phase(rest)), words)
    if not empty(parts.before) and not empty(parts.free):
        words = "what makes the data to be sent comes last before the exchange"
        yield Order((Phase(parts.free), Phase(parts.before), *parts.exchange(), Phase(parts.after)), words)


SPEC = Transformation("warm-send", "sends while the data are in the cache, after the loops that touch them", orders)
