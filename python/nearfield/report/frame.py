"""The frame of all pages: one file with its style, links to its parts, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

from nearfield import __version__
from nearfield.report.markup import raw, tag, text


def framed(
    *,
    title: str,
    verb: str,
    headline: str,
    links: Iterable[tuple[str, str]],
    main: str,
    version: str = __version__,
    controls: str = "",
    style: str = "",
    scripts: str = "",
) -> str:
    """Returns a whole page. `title` is plain text, `links` are (id of a part, its name), `version` is that of the
    nearfield that made the findings, `style` adds to the style of all pages; everything else is HTML."""
    slots = {
        "title": raw(title),
        "verb": verb,
        "style": asset("style.css") + style,
        "headline": headline,
        "navigation": "".join(tag("a", text(name), href=f"#{anchor}") for anchor, name in links),
        "controls": controls,
        "main": main,
        "footer": raw(f"nearfield {version}"),
        "theme": asset("theme.js"),
        "scripts": scripts,
    }
    return fill(asset("frame.html"), slots)


def fill(template: str, slots: Mapping[str, str]) -> str:
    """Returns the template with each `{{name}}` replaced by that slot, whose text is not expanded further."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match.group(1)], template)


def asset(name: str, package: str = "nearfield.report") -> str:
    """Returns the text of a file of the package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
