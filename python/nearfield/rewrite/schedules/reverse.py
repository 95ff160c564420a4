"""Reverse (S0, listing 3, OPT2): as late receive, but rows are gone through backwards, so that those which are sent
have just been read."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Transformation, empty


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: all that may come first, backwards, the exchange, what needs it."""
    if not empty(parts.free) and not empty(parts.after):
        words = "all that does not need the received data, backwards, then the exchange, then what needs them"
        yield Order(
            (Phase(parts.before), Phase(parts.free, reverse=True), *parts.exchange(), Phase(parts.after)), words
        )


SPEC = Transformation(
    "reverse", "sends and receives while both data are in the cache, by going through rows backwards", orders
)
