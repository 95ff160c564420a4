"""HTML in small pieces; everything that comes from a profile is escaped here."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any


def text(value: object) -> str:
    """Escaped, and set as on paper: '3.1x' becomes '3.1\u00d7', '5 us' becomes '5\u00a0\u00b5s'."""
    escaped = html.escape(str(value))
    escaped = re.sub(r"(?<=\d)x\b(?!\d)", "\u00d7", escaped)
    escaped = re.sub(r"(?<=\d) us\b", " \u00b5s", escaped)
    return re.sub(r"(?<=\d) (?=(?:[KMGT]iB|B|ns|\u00b5s|ms|s|GB/s|MB/s|%)(?!\w))", "\u00a0", escaped)


def raw(value: object) -> str:
    """Escaped and nothing else: commands, names, paths."""
    return html.escape(str(value))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """`content` is HTML already. class_ becomes class; attributes that are None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], **attributes: object) -> str:
    """Cells are HTML already. Scrolls inside itself where the page is too narrow."""
    head = tag("tr", "".join(tag("th", cell, scope="col") for cell in header))
    body = "".join(tag("tr", "".join(tag("td", cell) for cell in row)) for row in rows)
    inner = tag("table", (tag("thead", head) if any(header) else "") + tag("tbody", body), **attributes)
    return tag("div", inner, class_="scroll")


def folded(title: str, content: str, **attributes: object) -> str:
    """HTML that unfolds below its title; nothing if there is no content."""
    return tag("details", tag("summary", text(title)) + content, **attributes) if content else ""


def embedded_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")
