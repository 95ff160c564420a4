"""The tables of docs/reference/*.md, made from the schemas, so that they cannot disagree with them.

python tests/support/doc_tables.py    rewrites the tables between the markers of these pages
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nearfield.doctor.messages import messages
from nearfield.machine.described import DescribedMachine
from nearfield.machine.quantity import SourcedFact
from nearfield.machine.schema import requirement_of
from nearfield.profile.records import REQUIRED_COLUMNS, STANDARD_COLUMNS, VERDICT_COLUMN, VERDICT_SUMMARY
from nearfield.profile.schema import Machine, Run
from nearfield.report.data import FindingsTable

DOCS = Path(__file__).parents[2] / "docs/reference"
PAGES = ("profile.md", "machine.md", "findings.md", "messages.md")
LEFT_OUT = ("communication",)  # docs/how-to/machine.md describes it
_WORDS = {"float": "number", "int": "whole number"}
_MARKED = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewrite(text: str) -> str:
    """`text` with a fresh table between each '<!-- generated: NAME -->' and '<!-- end -->'."""
    return _MARKED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[3]}", text)


def column_table() -> str:
    """Returns the table of the records' columns."""
    rows = [
        (name, kind, "no" if name in REQUIRED_COLUMNS else "yes", meaning)
        for name, (kind, meaning) in STANDARD_COLUMNS.items()
    ]
    rows.append(("(parameters)", "Int64, Float64 or String", "yes", "one column each; null where it does not apply"))
    rows.append((VERDICT_COLUMN, "String", "yes", VERDICT_SUMMARY))
    return markdown(("column", "type", "may be null", "what it says"), rows)


def key_table(model: type[BaseModel]) -> str:
    """Returns the table of a file's keys."""
    return markdown(("key", "type", "required", "what it says"), list(_keys(model, "")))


def machine_table() -> str:
    """Returns the table of the keys of described machines."""
    return markdown(("key", "value", "required", "what it says"), list(_machine_keys(DescribedMachine, "")))


def message_table() -> str:
    """Returns the table of the messages that `nearfield doctor --message` explains."""
    rows = [
        (one.quote.replace("|", "\\|"), one.printed_by, one.cause, one.remedy, _source_links(one.sources))
        for one in messages()
    ]
    return markdown(("message", "printed by", "cause", "what to do", "threads"), rows)


def _source_links(sources: Sequence[str]) -> str:
    """Returns links with the names of threads, such as `ompi#4948`; what is no URL stays as it is."""
    names = (re.sub(r"https://github\.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)", r"\1#\2", source) for source in sources)
    pairs = zip(names, sources, strict=True)
    return ", ".join(f"[{name}]({source})" if source.startswith("https:") else f"`{source}`" for name, source in pairs)


TABLES: dict[str, Callable[[], str]] = {
    "records.parquet": column_table,
    "machine.toml": lambda: key_table(Machine),
    "run.toml": lambda: key_table(Run),
    "machine": machine_table,
    "findings": lambda: key_table(FindingsTable),
    "messages": message_table,
}


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Returns the rows depth first, in the order of the schema."""
    for name, info in model.model_fields.items():
        inner, key = inner_table(info), _key(prefix, name, info)
        kind = _table_words(info) if inner else plain_name(info.annotation)
        yield key, kind, "yes" if info.is_required() else "no", info.description or ""
        if inner is not None:
            yield from _keys(inner, f"{key}.")


def _machine_keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Returns the table of a described machine; what a sourced value consists of is stated once, in the text."""
    for name, info in model.model_fields.items():
        inner, key = inner_table(info), _key(prefix, name, info)
        required = "yes" if info.is_required() else requirement_of(info) or "no"
        if inner is None:
            yield key, plain_name(info.annotation), required, info.description or ""
        elif issubclass(inner, SourcedFact):
            kind = plain_name(inner.model_fields["value"].annotation)
            yield key, _WORDS.get(kind, kind.replace("int", "whole numbers")), required, info.description or ""
        else:
            yield key, _table_words(info), required, info.description or ""
            if name not in LEFT_OUT:
                yield from _machine_keys(inner, f"{key}.")


def _key(prefix: str, name: str, info: FieldInfo) -> str:
    repeated = get_origin(info.annotation) is list and inner_table(info) is not None
    return f"{prefix}{name}" + ("[]" if repeated else "")


def _table_words(info: FieldInfo) -> str:
    return "tables" if get_origin(info.annotation) is list else "table"


def inner_table(info: FieldInfo) -> type[BaseModel] | None:
    """Returns the table that the field holds, alone or in a list, or None if it holds none."""
    candidates = [info.annotation, *get_args(info.annotation)]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


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


def markdown(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns a table in Markdown, whose first column is code."""
    lines = [header, ("---",) * len(header), *((f"`{row[0]}`", *row[1:]) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        (DOCS / page).write_text(rewrite(text), encoding="utf-8")
