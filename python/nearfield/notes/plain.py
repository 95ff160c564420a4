"""Converts notes to plain data, for --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nearfield.notes.note import Note


def notes_as_dicts(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Returns the notes as data for JSON. A note's rule is represented by its id, and the fields of its place are at
    the top level."""
    return [_note_as_dict(note) for note in notes]


def _note_as_dict(note: Note) -> dict[str, Any]:
    """Returns one note as data for JSON."""
    fields = asdict(note)
    return {"rule": note.rule.id, **fields.pop("place"), **{k: v for k, v in fields.items() if k != "rule"}}
