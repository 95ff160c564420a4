"""Renders the legend of the symbols in plots. Each symbol is drawn as in the plots."""

from __future__ import annotations

from nearfield.ui.html import tag

_OUTLINE = '<circle cx="16" cy="7" r="4" class="outline"/>'
_SYMBOLS = (
    (
        '<rect x="1" y="2" width="30" height="10" class="band"/><path d="M1 7H31" class="line"/>'
        '<circle cx="16" cy="7" r="4" class="dot"/>',
        "stable: the median, with its 95&nbsp;% interval as a band",
    ),
    (f'<path d="M1 7H31" class="line"/>{_OUTLINE}', "unstable: no band; findings use its bounds at most"),
    (
        f'<path d="M1 7H31" class="line"/>{_OUTLINE}<circle cx="16" cy="7" r="1.5" class="dot"/>',
        "the buffers were not in the requested state: no finding uses it",
    ),
)


def symbol_legend_html() -> str:
    """Returns the HTML legend of the symbols, for pages with measured times."""
    pictures = ((f'<svg width="32" height="14" aria-hidden="true">{drawn}</svg>', said) for drawn, said in _SYMBOLS)
    items = (tag("li", f"{picture} {said}") for picture, said in pictures)
    return tag("ul", "".join(items), class_="signs")
