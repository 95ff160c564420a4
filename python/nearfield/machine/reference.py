"""Makes the table of docs/machine.md from the schema, so that the two cannot disagree.

python -m nearfield.machine.reference docs/machine.md    rewrites the table between the markers of that file
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

from pydantic import BaseModel

from nearfield.machine.quantity import Sourced
from nearfield.machine.schema import DescribedMachine, needed_where
from nearfield.profile.reference import inner_table, markdown, plain_name, rewrite

LEFT_OUT = ("communication",)  # docs/halo.md describes plans
_WORDS = {"float": "number", "int": "whole number"}


def key_table() -> str:
    """Returns the table of docs/machine.md."""
    return markdown(("key", "value", "required", "what it says"), list(_keys(DescribedMachine, "")))


TABLES = {"machine": key_table}


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yields the rows depth first, in the order of the schema. The text explains the keys of a sourced value once."""
    for name, info in model.model_fields.items():
        inner = inner_table(info)
        repeated = get_origin(info.annotation) is list and inner is not None
        key = f"{prefix}{name}" + ("[]" if repeated else "")
        required = "yes" if info.is_required() else needed_where(info) or "no"
        if inner is None:
            yield key, plain_name(info.annotation), required, info.description or ""
        elif issubclass(inner, Sourced):
            kind = plain_name(inner.model_fields["value"].annotation)
            yield key, _WORDS.get(kind, kind.replace("int", "whole numbers")), required, info.description or ""
        else:
            yield key, "tables" if repeated else "table", required, info.description or ""
            if name not in LEFT_OUT:
                yield from _keys(inner, f"{key}.")


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(rewrite(page.read_text(encoding="utf-8"), TABLES), encoding="utf-8")
