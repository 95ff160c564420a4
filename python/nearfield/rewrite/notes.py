"""Converts patches and missed optimizations of a source file to notes, which editors (SARIF) and scripts (JSON)
read."""

from __future__ import annotations

from pathlib import Path

from nearfield.notes import Fix, LineEdit, Note, NoteRule, SourcePlace
from nearfield.rewrite.model.schedules import TRANSFORMATIONS
from nearfield.rewrite.patch import Analysis, Patch
from nearfield.rewrite.placement import SUMMARY_BY_NAME

PAPER_CITATION = (
    "S. Pellegrini, T. Hoefler, T. Fahringer: On the Effects of CPU Caches on MPI Point-to-Point Communications (2012)."
)
PROOF_DESCRIPTION = (
    "the new order keeps every dependence between the loops and the messages: isl, the integer set library, proves it "
    "for the order, and proves it again for the text of the patch, which libclang has read"
)
RULE_BY_TRANSFORMATION = {
    one.name: NoteRule(
        f"rewrite-{one.name}",
        one.summary[:1].upper() + one.summary[1:],
        f"{PROOF_DESCRIPTION[:1].upper()}{PROOF_DESCRIPTION[1:]}.",
        PAPER_CITATION,
    )
    for one in TRANSFORMATIONS
}
RULE_BY_TRANSFORMATION |= {
    name: NoteRule(
        f"rewrite-{name}", summary[:1].upper() + summary[1:],
        "Rules that are checked for the text of the patch, which libclang has read, prove that each message has the "
        "same arguments and matches in the same order.",
        "MPI: A Message-Passing Interface Standard, version 4.1, section 3.9.",
    )
    for name, summary in SUMMARY_BY_NAME.items()
}  # fmt: skip
REFUSAL_RULE = NoteRule(
    "rewrite-refused",
    "Communication stays where it is",
    "No other order of the loops and messages could be proved to keep the results.",
    PAPER_CITATION,
)


def make_notes(analysis: Analysis) -> list[Note]:
    """Returns a note for each patch and each missed optimization of a source file, by line."""
    notes = [_make_patch_note(patch) for patch in analysis.patches]
    for missed in analysis.missed:
        advice = f"If you know that this does not happen, use: {missed.assumption}." if missed.assumption else ""
        place = SourcePlace(str(analysis.path), missed.line, function=missed.function)
        notes.append(Note(REFUSAL_RULE, place, f"communication stays where it is: {missed.reason}", advice))
    return sorted(notes, key=lambda note: note.place.line)


def _make_patch_note(patch: Patch) -> Note:
    """Returns the note for a patch, with the patch as a fix that an editor can apply."""
    file = str(patch.path)
    first, last = patch.changed_lines
    fix = Fix(patch.reason, (LineEdit(file, first, last, "".join(patch.replacement_lines)),))
    advice = f"{patch.size_text}; {patch.expected_gain}."
    if patch.assumptions:
        advice += f" It holds if {' and '.join(patch.assumptions)}."
    return Note(
        RULE_BY_TRANSFORMATION[patch.transformation],
        SourcePlace(file, first, function=patch.function),
        patch.reason,
        advice,
        fixes=(fix,),
    )


def sarif_root_folder(path: Path) -> Path:
    """Returns the root folder for the path of a source file in SARIF: the current folder if the file lies below it,
    otherwise the file's own folder."""
    return Path.cwd() if path.resolve().is_relative_to(Path.cwd()) else path.resolve().parent
