"""A chart with options (buttons above it), and one plotly figure for each choice of the options.

Colours are names from style.css (`@s1`, `@ink`, with opacity `@s1:0.15`). report.js substitutes the theme's values, so
that one figure serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Figure = dict[str, Any]
PLACE_OPTION = "place"  # option for the pair of cores, which one selector sets for all charts of a page


@dataclass(frozen=True)
class ChartVariant:
    """The plot that a chart shows for one combination of its options' values. `choice` maps every option to its
    value."""

    choice: dict[str, str]
    figure: Figure


@dataclass(frozen=True)
class Chart:
    """A chart of the page. `id` is unique on the page and is the name of saved files."""

    id: str
    title: str
    caption: str
    variants: list[ChartVariant] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns the chart as JSON data for the page. Omits the `points` of traces, which only CSV tables (table.py)
        need."""
        return {
            "id": self.id,
            "title": self.title,
            "options": collect_options(v.choice for v in self.variants),
            "variants": [
                {"choice": v.choice, **v.figure, "data": _without_points(v.figure["data"])} for v in self.variants
            ],
        }


def _without_points(traces: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in trace.items() if key != "points"} for trace in traces]


def collect_options(choices: Iterable[dict[str, str]]) -> dict[str, list[str]]:
    """Returns each option with all its values, in order of first appearance."""
    values_by_option: dict[str, list[str]] = {}
    for choice in choices:
        for name, value in choice.items():
            if value not in values_by_option.setdefault(name, []):
                values_by_option[name].append(value)
    return values_by_option
