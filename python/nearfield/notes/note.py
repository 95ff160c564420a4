"""Defines a note on a source line as data, independent of the output formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "warning", "error"]  # the severities of SARIF and of compilers


@dataclass(frozen=True)
class NoteRule:
    """The rule, such as cold-send, that a note reports a violation of, with its explanation."""

    id: str  # for example cold-send
    summary: str  # for example "A message is sent long after its data were written"
    explanation: str  # sentences with details
    source: str = ""  # the paper and its section on which the rule is based
    help_uri: str = ""


@dataclass(frozen=True)
class SourcePlace:
    """A source line, or a code offset in a program or library without line information. The file is the path given by
    the debugging information or the user, or that of the program."""

    file: str
    line: int  # from 1; 0 if the place is the whole file or a code offset
    column: int = 0  # from 1; 0 for the whole line
    function: str = ""
    offset: int = 0  # code offset in a program or library without line information; 0 if there is none


@dataclass(frozen=True)
class RelatedPlace:
    """Another source line that a note mentions, with its description."""

    place: SourcePlace
    message: str


@dataclass(frozen=True)
class LostTime:
    """The run time in s that a finding costs, summed over all calls, with the ends `low` and `high` of its confidence
    interval."""

    seconds: float
    low: float
    high: float
    share: float | None = None  # share of the run's time; None if unknown


@dataclass(frozen=True)
class Evidence:
    """A number that supports a note, and how it was obtained."""

    name: str  # for example "one call, data in memory"
    value: float
    unit: str  # ns, bytes, count or share
    source: str  # origin of the number: "measured", "simulated", "counted" or "observed"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class LineEdit:
    """An edit that replaces the lines `first` to `last` of a file by a text. If `last` is `first` - 1, the text is
    inserted before line `first`."""

    file: str
    first: int
    last: int
    text: str  # whole lines, each with its line end; empty: removes the lines


@dataclass(frozen=True)
class Fix:
    """Edits that together fix the issue of a note."""

    description: str
    edits: tuple[LineEdit, ...]


@dataclass(frozen=True)
class Note:
    """A finding of a command at one source line."""

    rule: NoteRule
    place: SourcePlace
    message: str  # the finding with its numbers, as a sentence
    advice: str = ""  # how to fix it, as sentences
    loss: LostTime | None = None
    level: Severity = "note"
    evidence: tuple[Evidence, ...] = ()
    related: tuple[RelatedPlace, ...] = ()
    fixes: tuple[Fix, ...] = ()


def rank_by_loss(notes: Iterable[Note]) -> list[Note]:
    """Returns the notes by lost time, the largest first. Notes without a loss come last, by line."""

    def key(note: Note) -> tuple[float, str, int]:
        return -note.loss.seconds if note.loss else 0.0, note.place.file, note.place.line

    return sorted(notes, key=key)
