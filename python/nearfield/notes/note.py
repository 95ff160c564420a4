"""Defines a note as plain data, which the renderers format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["note", "warning", "error"]  # SARIF's and compilers' words


@dataclass(frozen=True)
class Rule:
    """The kind of a note, common to all notes of that kind."""

    id: str  # for example cold-send
    summary: str  # for example "A message is sent long after its data were written"
    explanation: str  # sentences with details
    source: str = ""  # the paper and section
    help_uri: str = ""


@dataclass(frozen=True)
class Place:
    """A source line, or a location in a program without line information. The file is the path given by the debugging
    information or the user, or that of the program."""

    file: str
    line: int  # from 1; 0: the file as a whole, or the offset
    column: int = 0  # from 1; 0: the whole line
    function: str = ""
    offset: int = 0  # in a program or library without line information; 0: none


@dataclass(frozen=True)
class Related:
    """Another line that the note mentions, and its description."""

    place: Place
    message: str


@dataclass(frozen=True)
class Loss:
    """Lost time, summed over all calls, with an interval if its inputs have one."""

    seconds: float
    low: float
    high: float
    share: float | None = None  # of the run's time; None if unknown


@dataclass(frozen=True)
class Evidence:
    """A number that supports the note."""

    name: str  # for example "one call, data in memory"
    value: float
    unit: str  # ns, bytes, count or share
    source: str  # the origin: "measured", "simulated", "counted", "observed"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Edit:
    """Replaces whole lines of a file, `first` to `last`, by a text. With `last` = `first` - 1 the text is inserted
    before line `first`."""

    file: str
    first: int
    last: int
    text: str  # whole lines, each with its line end; empty: removes the lines


@dataclass(frozen=True)
class Fix:
    """Edits that together fix the issue of the note."""

    description: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Note:
    """One finding at one line."""

    rule: Rule
    place: Place
    message: str  # the finding, with its numbers
    advice: str = ""  # what to do
    loss: Loss | None = None
    level: Level = "note"
    evidence: tuple[Evidence, ...] = ()
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()


def ranked(notes: Iterable[Note]) -> list[Note]:
    """Returns the notes by lost time, most first; those without a number come last, by line."""

    def key(note: Note) -> tuple[float, str, int]:
        return -note.loss.seconds if note.loss else 0.0, note.place.file, note.place.line

    return sorted(notes, key=key)
