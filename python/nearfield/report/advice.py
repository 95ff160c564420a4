"""Renders the section of the report with the notes of `nearfield advise` on a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearfield.base.words import as_sentence
from nearfield.notes import Note
from nearfield.notes.text import loss_text, place_text
from nearfield.ui.html import escape_html, tag, text


@dataclass(frozen=True)
class ProgramAdvice:
    """The notes of `nearfield advise` on an observed program, and sentences on the data that they are based on."""

    command: str
    headline: str  # how many calls could not be judged, or that there is nothing to gain
    warnings: Sequence[str]
    notes: Sequence[Note]
    remarks: Sequence[str]


def advice_section_html(program_advice: ProgramAdvice | None) -> str:
    """Returns the HTML of the section with the notes; '' if no program was observed."""
    if not program_advice:
        return ""
    items = (
        tag("ol", "".join(map(_format_list_item, program_advice.notes)), class_="findings")
        if program_advice.notes
        else ""
    )
    top_lines = [*(f"Warning: {warning}" for warning in program_advice.warnings), program_advice.headline]
    items = "".join(tag("p", text(as_sentence(line))) for line in top_lines if line) + items
    intro = tag("p", f"Losses at the calls of {tag('code', escape_html(program_advice.command))}, most first.")
    remarks = "".join(tag("p", text(as_sentence(remark)), class_="quiet") for remark in program_advice.remarks)
    return tag("section", tag("h2", "Lost time of this program") + intro + items + remarks, id="advice")


def _format_list_item(note: Note) -> str:
    lost = tag("span", text(loss_text(note.loss)), class_="level") if note.loss else ""
    head = tag("h3", f"{tag('code', escape_html(place_text(note.place)))} {lost}")
    advice = tag("p", text(note.advice), class_="action") if note.advice else ""
    rule = tag("p", text(f"{note.rule.summary}. {note.rule.source} [{note.rule.id}]"), class_="quiet")
    return tag(
        "li", head + tag("p", text(note.message)) + advice + rule, class_="finding loss", data_topic=note.rule.id
    )
