"""Converts patches and missed optimizations of a source file to notes for people, editors and scripts."""

from __future__ import annotations

from pathlib import Path

from nearfield.notes import Fix, LineEdit, Note, NoteRule, SourcePlace
from nearfield.rewrite.model.schedules import TRANSFORMATIONS
from nearfield.rewrite.patch import Analysis, Patch
from nearfield.rewrite.placement import SUMMARIES

SOURCE = (
    "S. Pellegrini, T. Hoefler, T. Fahringer: On the Effects of CPU Caches on MPI Point-to-Point Communications (2012)."
)
PROVED = (
    "the new order keeps every dependence between the loops and the messages: isl, the integer set library, proves it "
    "for the order, and proves it again for the text of the patch, which libclang has read"
)
RULES = {
    one.name: NoteRule(
        f"rewrite-{one.name}", one.summary[:1].upper() + one.summary[1:], f"{PROVED[:1].upper()}{PROVED[1:]}.", SOURCE
    )
    for one in TRANSFORMATIONS
}
RULES |= {
    name: NoteRule(
        f"rewrite-{name}", summary[:1].upper() + summary[1:],
        "Rules that are checked for the text of the patch, which libclang has read, prove that each message has the "
        "same arguments and matches in the same order.",
        "MPI: A Message-Passing Interface Standard, version 4.1, section 3.9.",
    )
    for name, summary in SUMMARIES.items()
}  # fmt: skip
REFUSED = NoteRule(
    "rewrite-refused",
    "Communication stays where it is",
    "No other order of the loops and messages could be proved to keep the results.",
    SOURCE,
)


def notes_of(analysis: Analysis) -> list[Note]:
    """Returns a note for each patch and each missed optimization of a source file, by line."""
    found = [_note_of_patch(patch) for patch in analysis.patches]
    for one in analysis.missed:
        advice = f"If it is known to be otherwise, say so: {one.assumption}." if one.assumption else ""
        place = SourcePlace(str(analysis.path), one.line, function=one.function)
        found.append(Note(REFUSED, place, f"communication stays where it is: {one.reason}", advice))
    return sorted(found, key=lambda note: note.place.line)


def _note_of_patch(patch: Patch) -> Note:
    """Returns the note for a patch, with the patch as a fix that an editor can apply."""
    file = str(patch.path)
    first, last = patch.lines
    fix = Fix(patch.reason, (LineEdit(file, first, last, "".join(patch.replacement_lines)),))
    advice = f"{patch.size_text}; {patch.expected}."
    if patch.assumptions:
        advice += f" It holds if {' and '.join(patch.assumptions)}."
    return Note(
        RULES[patch.transformation],
        SourcePlace(file, first, function=patch.function),
        patch.reason,
        advice,
        fixes=(fix,),
    )


def sarif_root_of(path: Path) -> Path:
    """Returns the root folder for the path of a source file in SARIF: the current folder if the file lies below it,
    otherwise the file's own folder."""
    return Path.cwd() if path.resolve().is_relative_to(Path.cwd()) else path.resolve().parent
