"""Replaces {NAME} in the texts of claims by numbers computed from records, so that every number in these texts was
simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from nearfield.reproduce.curves import Points, Records
from nearfield.reproduce.evidence_data import number_kind_of
from nearfield.reproduce.schema import QuotedNumber
from nearfield.reproduce.writers import NUMBER_FORMATTERS

QUOTE_PATTERN = re.compile(r"\{(\w+)\}")


def quote_names_in(text: str) -> list[str]:
    """Returns the names NAME of all {NAME} in the text."""
    return QUOTE_PATTERN.findall(text)


def fill_in_quotes(
    text: str, quotes: Mapping[str, QuotedNumber], points_of_quote: Callable[[QuotedNumber], Points], records: Records
) -> str:  # fmt: skip
    """Returns the text with every {NAME} replaced by its number; "" if a record that one of the numbers needs is
    missing."""
    text_by_name = {
        name: _format_quote(quotes[name], points_of_quote(quotes[name]), records) for name in quote_names_in(text)
    }
    if not all(text_by_name.values()):
        return ""
    return QUOTE_PATTERN.sub(lambda match: text_by_name[match[1]], text)


def _format_quote(quote: QuotedNumber, curve: Points, records: Records) -> str:
    values = [curve[x] for x in quote.points if x in curve] if quote.points else list(_values_within(quote, curve))
    if not values or len(values) < len(quote.points):
        return ""
    write = NUMBER_FORMATTERS[number_kind_of(quote, records)]
    low, high = write(max(values) if quote.of == "max" else min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def _values_within(quote: QuotedNumber, curve: Points) -> Iterator[float]:
    for x, y in curve.items():
        if quote.over is None or quote.over[0] <= x <= quote.over[1]:
            yield y
