"""Defines a chart: it has options (buttons above it), and one plotly figure for each choice among them.

Colours are names of style.css (`@s1`, `@ink`, with opacity `@s1:0.15`); report.js substitutes the values of the theme,
so that one figure serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Figure = dict[str, Any]
PLACE = "place"  # the option that one selector sets for the whole page


@dataclass(frozen=True)
class Variant:
    """A figure; `choice` maps every option of the chart to a value."""

    choice: dict[str, str]
    figure: Figure


@dataclass(frozen=True)
class Chart:
    """A chart; `id` is unique on the page and names the saved files."""

    id: str
    title: str
    caption: str
    variants: list[Variant] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns the chart's data for the page; the points of its curves are for other tables (table.py)."""
        return {
            "id": self.id,
            "title": self.title,
            "options": options(v.choice for v in self.variants),
            "variants": [{"choice": v.choice, **v.figure, "data": _plain(v.figure["data"])} for v in self.variants],
        }


def _plain(traces: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in trace.items() if key != "points"} for trace in traces]


def options(choices: Iterable[dict[str, str]]) -> dict[str, list[str]]:
    """Returns option -> its values, in the order of their first appearance."""
    found: dict[str, list[str]] = {}
    for choice in choices:
        for name, value in choice.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return found
