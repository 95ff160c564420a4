"""Formats notes like messages of a compiler: place, severity, message and rule on one line, with details below."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nearfield.base.units import format_ns
from nearfield.notes.note import LostTime, Note, SourcePlace


def notes_as_text(notes: Sequence[Note]) -> str:
    """Returns all notes as text, in the given order; '' if there are none."""
    return "\n".join(note_text(note) for note in notes)


def note_text(note: Note) -> str:
    """Returns one note as lines of text, without a line end after the last."""
    lines = [f"{place_text(note.place)}: {note.level}: {note.message} [{note.rule.id}]"]
    lines += [f"{place_text(other.place)}: note: {other.message}" for other in note.related]
    details = {
        "lost": loss_text(note.loss) if note.loss else "",
        "do": note.advice,
        "rule": f"{note.rule.summary}. {note.rule.source}".strip(),
    }
    lines += [f"    {name}: {text}" for name, text in details.items() if text]
    return "\n".join(lines)


def place_text(place: SourcePlace) -> str:
    """Returns the place of a note as 'src/a.c:12:3', with a path relative to the current folder if the file lies below
    it. Without a source line, returns '/lib/libsolver.so.3+0x7bc163 (solve)'."""
    if place.offset and not place.line:
        return f"{shorten_path(place.file)}+{place.offset:#x}" + (f" ({place.function})" if place.function else "")
    numbers = [str(number) for number in (place.line, place.column) if number]
    return ":".join([shorten_path(place.file), *numbers])


def loss_text(loss: LostTime) -> str:
    """Returns lost time as '3.10 ms (2.90 ms to 3.30 ms), 2.3 % of the run'."""
    text, low, high = (format_ns(seconds * 1e9) for seconds in (loss.seconds, loss.low, loss.high))
    if (low, high) != (text, text):
        text += f" ({low} to {high})"
    return text if loss.share is None else f"{text}, {loss.share * 100:.2g} % of the run"


def shorten_path(file: str) -> str:
    """Returns a path relative to the current folder if the file lies below it, otherwise the path itself."""
    path = Path(os.path.normpath(file))
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
