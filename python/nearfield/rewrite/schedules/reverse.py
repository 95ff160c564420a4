"""Reverse (S0, listing 3, OPT2): as late receive, but rows and columns are gone through backwards, so that what is sent
has just been read."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Transformation, empty


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: all that may come first, backwards, the exchange, what needs it. All loops are reversed, or if that is
    not legal, only the outermost ones."""
    if empty(parts.free) or empty(parts.after):
        return
    words = "all that does not need the received data, backwards, then the exchange, then what needs them"
    deepest = max(len(nest.loops) for nest in parts.model.region.nests)
    for loops in dict.fromkeys((deepest, 1)):
        first, backward = Phase(parts.before), Phase(parts.free, reverse=loops)
        yield Order((first, backward, *parts.exchange(), Phase(parts.after)), words)


SPEC = Transformation(
    "reverse", "sends and receives while both data are in the cache, by going through rows backwards", orders
)
