"""What a note consists of. All of it is plain data, which the renderers write in their own ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["note", "warning", "error"]  # SARIF's and compilers' words


@dataclass(frozen=True)
class Rule:
    """Why there is a note of this kind: the same for all notes that it gives."""

    id: str  # cold-send
    summary: str  # "A message is sent long after its data were written"
    explanation: str  # sentences for a person who wants to know more
    source: str = ""  # the paper and section that it comes from
    help_uri: str = ""


@dataclass(frozen=True)
class Place:
    """A line of source, or a place in a program without lines. The file is a path as the debugging information or the
    user gave it, or that of the program."""

    file: str
    line: int  # from 1; 0: the file as a whole, or the offset
    column: int = 0  # from 1; 0: the whole line
    function: str = ""
    offset: int = 0  # in a program or library whose lines are not known; 0: there is none


@dataclass(frozen=True)
class Related:
    """Another line that the note speaks of, and what is there."""

    place: Place
    message: str


@dataclass(frozen=True)
class Loss:
    """Time that is lost, all calls together, with an interval where the numbers behind it have one."""

    seconds: float
    low: float
    high: float
    share: float | None = None  # of the run's time; None if that is not known


@dataclass(frozen=True)
class Evidence:
    """A number on which the note rests."""

    name: str  # "one call, data in memory"
    value: float
    unit: str  # ns, bytes, count or share
    source: str  # where it comes from: "measured", "simulated", "counted", "observed"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Edit:
    """Replaces whole lines of a file, `first` to `last`, by a text. With `last` = `first` - 1 the text is inserted
    before line `first`."""

    file: str
    first: int
    last: int
    text: str  # whole lines, each with its line end; empty: the lines are removed


@dataclass(frozen=True)
class Fix:
    """Edits that together remove what the note is about."""

    description: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Note:
    """One finding at one line."""

    rule: Rule
    place: Place
    message: str  # what is the case, with its numbers
    advice: str = ""  # what to do
    loss: Loss | None = None
    level: Level = "note"
    evidence: tuple[Evidence, ...] = ()
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()


def ranked(notes: Iterable[Note]) -> list[Note]:
    """Returns the notes by the time that is lost, most first; those without a number come last, by their lines."""

    def key(note: Note) -> tuple[float, str, int]:
        return -note.loss.seconds if note.loss else 0.0, note.place.file, note.place.line

    return sorted(notes, key=key)
