"""Makes HTML in small pieces; everything from a profile is escaped here."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any


def text(value: object) -> str:
    """Returns escaped text with the signs of print: '3.1x' becomes '3.1\u00d7', '5 us' becomes '5\u00a0\u00b5s'."""
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


def embedded_json(value: Any) -> str:
    """Returns JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")
