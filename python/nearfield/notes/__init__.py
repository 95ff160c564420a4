"""Notes on source code: what a command found at a source line, how much time it costs, and how to fix it.

`note` defines a note, `text` prints notes like a compiler, `sarif` writes them for editors and CI."""

from nearfield.notes.note import Edit, Evidence, Fix, Loss, Note, Place, Related, Rule, ranked
from nearfield.notes.plain import as_dict
from nearfield.notes.sarif import as_sarif
from nearfield.notes.text import as_text, note_text

__all__ = [
    "Edit",
    "Evidence",
    "Fix",
    "Loss",
    "Note",
    "Place",
    "Related",
    "Rule",
    "as_dict",
    "as_sarif",
    "as_text",
    "note_text",
    "ranked",
]
