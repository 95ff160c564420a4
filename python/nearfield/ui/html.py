"""Builds HTML pages from small pieces, which escape all text that comes from a profile. A page is a single file with
its style, links to its parts, and light and dark colours."""

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


def escape_html(value: object) -> str:
    """Returns escaped text without typographic changes, for commands, names and paths."""
    return html.escape(str(value))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Returns an HTML element with `content`, which must be HTML. The attribute `class_` becomes class; attributes that
    are None are omitted."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], **attributes: object) -> str:
    """Returns an HTML table; cells must be HTML. The table scrolls if the page is too narrow."""
    head = tag("tr", "".join(tag("th", cell, scope="col") for cell in header))
    body = "".join(tag("tr", "".join(tag("td", cell) for cell in row)) for row in rows)
    inner = tag("table", (tag("thead", head) if any(header) else "") + tag("tbody", body), **attributes)
    return tag("div", inner, class_="scroll")


def folded_html(title: str, content: str, **attributes: object) -> str:
    """Returns a collapsible element with `content` below its title; '' if `content` is empty."""
    return tag("details", tag("summary", text(title)) + content, **attributes) if content else ""


def embedded_json(value: Any) -> str:
    """Returns JSON for a script element, escaped so that it cannot close the element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")


def framed_page(
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
    """Returns a complete HTML page. `title` is plain text; `links` are pairs (id of a part, name); `version` is the
    nearfield version that made the findings; `style` is CSS added to the common style; all other arguments are HTML."""
    slots = {
        "title": escape_html(title),
        "verb": verb,
        "style": read_asset("style.css") + style,
        "headline": headline,
        "navigation": "".join(tag("a", text(name), href=f"#{anchor}") for anchor, name in links),
        "controls": controls,
        "main": main,
        "footer": escape_html(f"nearfield {version}"),
        "theme": read_asset("theme.js"),
        "scripts": scripts,
    }
    return fill_template(read_asset("frame.html"), slots)


def write_page(path: Path, page: str) -> Path:
    """Writes an HTML page atomically and returns its path. Raises ProfileError if the file cannot be written."""
    atomic_write(path, page, "Give another place with -o FILE.")
    return path


def fill_template(template: str, slots: Mapping[str, str]) -> str:
    """Replaces each `{{name}}` in the template by the slot of that name. The inserted text is not expanded again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match.group(1)], template)


def read_asset(name: str, package: str = "nearfield.report") -> str:
    """Returns the text of a resource file of the package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
