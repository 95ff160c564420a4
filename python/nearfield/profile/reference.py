"""Makes the tables of docs/profile.md from the schema, so that they cannot disagree with it.

python -m nearfield.profile.reference docs/profile.md    rewrites the tables between the markers of that file
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nearfield.errors import UsageError
from nearfield.profile.records import CORE, REQUIRED, VERDICT, VERDICT_SUMMARY
from nearfield.profile.schema import Machine, Run
from nearfield.profile.table import Table

_MARKED = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewrite(text: str, tables: Mapping[str, Callable[[], str]] | None = None) -> str:
    """Returns `text` with a fresh table between each '<!-- generated: NAME -->' and '<!-- end -->'. Raises UsageError
    for a NAME that `tables` (by default this module's) lacks."""
    known = TABLES if tables is None else tables

    def fresh(match: re.Match[str]) -> str:
        if match.group(2) not in known:
            raise UsageError(f"there is no table '{match.group(2)}'", f"There are {', '.join(known)}.")
        return f"{match.group(1)}{known[match.group(2)]()}{match.group(3)}"

    return _MARKED.sub(fresh, text)


def column_table() -> str:
    """Returns the table of the records' columns."""
    rows = [(name, dtype.__name__, _null(name), summary) for name, (dtype, summary) in CORE.items()]
    rows.append(("(parameters)", "Int64 or String", "yes", "one column each; null where it does not apply"))
    rows.append((VERDICT, "String", "yes", VERDICT_SUMMARY))
    return markdown(("column", "type", "may be null", "what it says"), rows)


def key_table(model: type[Table]) -> str:
    """Returns the table of a file's keys."""
    return markdown(("key", "type", "required", "what it says"), _keys(model, ""))


TABLES: dict[str, Callable[[], str]] = {
    "records.parquet": column_table,
    "machine.toml": lambda: key_table(Machine),
    "run.toml": lambda: key_table(Run),
}


def _keys(model: type[BaseModel], prefix: str) -> list[tuple[str, str, str, str]]:
    """Returns the rows depth first, in the order of the schema."""
    rows = []
    for name, info in model.model_fields.items():
        inner = inner_table(info)
        repeated = get_origin(info.annotation) is list and inner is not None
        key = f"{prefix}{name}" + ("[]" if repeated else "")
        rows.append((key, _type_name(info), "yes" if info.is_required() else "no", info.description or ""))
        if inner is not None:
            rows += _keys(inner, f"{key}.")
    return rows


def inner_table(info: FieldInfo) -> type[BaseModel] | None:
    """Returns the table that the field holds, alone or in a list; None if it holds none."""
    candidates = [info.annotation, *get_args(info.annotation)]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _type_name(info: FieldInfo) -> str:
    if inner_table(info) is not None:
        return "tables" if get_origin(info.annotation) is list else "table"
    return plain_name(info.annotation)


def plain_name(annotation: Any) -> str:
    """Returns a type's name in the docs: int, float, string, boolean, time, some words, or a list or table of these."""
    origin, arguments = get_origin(annotation), [a for a in get_args(annotation) if a is not type(None)]
    if origin is Literal:
        return " or ".join(str(a) if isinstance(a, int) else f'"{a}"' for a in arguments)
    if origin is list:
        return f"list of {plain_name(arguments[0])}"
    if origin is dict:
        return f"table of {plain_name(arguments[1])}"
    if arguments:
        return plain_name(arguments[0])
    name = str(annotation.__name__)
    return {"str": "string", "bool": "boolean", "AwareDatetime": "time"}.get(name, name)


def _null(name: str) -> str:
    return "no" if name in REQUIRED else "yes"


def markdown(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns a table in Markdown, whose first column is code."""
    lines = [header, ("---",) * len(header), *((f"`{row[0]}`", *row[1:]) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(rewrite(page.read_text(encoding="utf-8")), encoding="utf-8")
