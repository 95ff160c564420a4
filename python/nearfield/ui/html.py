"""Builds HTML from small pieces, which escape everything that comes from a profile. A page is one file with its style,
links to its parts, and colours for light and dark."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearfield import __version__
from nearfield.base.files import atomic_write


def text(value: object) -> str:
    """Returns escaped text with typographic signs: '3.1x' becomes '3.1\u00d7', '5 us' becomes '5\u00a0\u00b5s'."""
    escaped = html.escape(str(value))
    escaped = re.sub(r"(?<=\d)x\b(?!\d)", "\u00d7", escaped)
    escaped = re.sub(r"(?<=\d) us\b", " \u00b5s", escaped)
    return re.sub(r"(?<=\d) (?=(?:[KMGT]iB|B|ns|\u00b5s|ms|s|GB/s|MB/s|%)(?!\w))", "\u00a0", escaped)


def raw(value: object) -> str:
    """Returns escaped text without other changes, for commands, names and paths."""
    return html.escape(str(value))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Returns an element around `content`, which is HTML. class_ becomes class; attributes of None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], **attributes: object) -> str:
    """Returns a table of cells, which are HTML. It scrolls by itself if the page is too narrow."""
    head = tag("tr", "".join(tag("th", cell, scope="col") for cell in header))
    body = "".join(tag("tr", "".join(tag("td", cell) for cell in row)) for row in rows)
    inner = tag("table", (tag("thead", head) if any(header) else "") + tag("tbody", body), **attributes)
    return tag("div", inner, class_="scroll")


def folded(title: str, content: str, **attributes: object) -> str:
    """Returns content that unfolds below its title; '' if there is no content."""
    return tag("details", tag("summary", text(title)) + content, **attributes) if content else ""


def embedded_json(value: Any) -> str:
    """Returns JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")


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


def write_page(path: Path, page: str) -> Path:
    """Writes a page atomically, and returns its path. Raises ProfileError if it cannot be written."""
    atomic_write(path, page, "Give another place with -o FILE.")
    return path


def fill(template: str, slots: Mapping[str, str]) -> str:
    """Returns the template with each `{{name}}` replaced by that slot, whose text is not expanded further."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match.group(1)], template)


def asset(name: str, package: str = "nearfield.report") -> str:
    """Returns the text of a file of the package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
