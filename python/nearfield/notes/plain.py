"""Notes as plain data, for --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nearfield.notes.note import Note


def as_dict(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Returns the notes for JSON; a note's rule is its id, its place is flattened."""
    return [_plain(note) for note in notes]


def _plain(note: Note) -> dict[str, Any]:
    fields = asdict(note)
    return {"rule": note.rule.id, **fields.pop("place"), **{k: v for k, v in fields.items() if k != "rule"}}
