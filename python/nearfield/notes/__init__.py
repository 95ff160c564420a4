"""Notes on source code: a note says what a command found at a source line, how much time this costs, and how to fix it.

`note` defines notes, `text` formats them like messages of a compiler, `plain` converts them for --json, and `sarif` for
editors and CI."""

from nearfield.notes.note import (
    Evidence,
    Fix,
    LineEdit,
    LostTime,
    Note,
    NoteRule,
    RelatedPlace,
    SourcePlace,
    rank_by_loss,
)
from nearfield.notes.plain import notes_as_dicts
from nearfield.notes.sarif import notes_as_sarif
from nearfield.notes.text import note_text, notes_as_text

__all__ = [
    "Evidence",
    "Fix",
    "LineEdit",
    "LostTime",
    "Note",
    "NoteRule",
    "RelatedPlace",
    "SourcePlace",
    "note_text",
    "notes_as_dicts",
    "notes_as_sarif",
    "notes_as_text",
    "rank_by_loss",
]
