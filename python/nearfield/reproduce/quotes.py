"""Replaces {NAME} in the texts of claims by numbers from records, so that no text states a number that was not
simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from nearfield.reproduce.curves import Points, Records
from nearfield.reproduce.evidence_data import number_kind_of
from nearfield.reproduce.schema import Quote
from nearfield.reproduce.writers import WRITERS

QUOTE_PATTERN = re.compile(r"\{(\w+)\}")


def quote_names_in(text: str) -> list[str]:
    """Returns the names NAME of all {NAME} in the text."""
    return QUOTE_PATTERN.findall(text)


def fill_in_quotes(
    text: str, quotes: Mapping[str, Quote], points: Callable[[Quote], Points], records: Records
) -> str:  # fmt: skip
    """Returns the text with {NAME} replaced by numbers; "" if a record of one number is missing."""
    found = {name: _quoted_text(quotes[name], points(quotes[name]), records) for name in quote_names_in(text)}
    if not all(found.values()):
        return ""
    return QUOTE_PATTERN.sub(lambda match: found[match[1]], text)


def _quoted_text(quote: Quote, curve: Points, records: Records) -> str:
    chosen = [curve[x] for x in quote.points if x in curve] if quote.points else list(_values_within(quote, curve))
    if not chosen or len(chosen) < len(quote.points):
        return ""
    write = WRITERS[number_kind_of(quote, records)]
    low, high = write(max(chosen) if quote.of == "max" else min(chosen)), write(max(chosen))
    return low if low == high else f"{low} to {high}"


def _values_within(quote: Quote, curve: Points) -> Iterator[float]:
    for x, y in curve.items():
        if quote.over is None or quote.over[0] <= x <= quote.over[1]:
            yield y
