"""The section of the HTML page with the cards: whether claims hold on the user's machine."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.reproduce.outcome import Card, JudgedPaper, LiveSummary
from nearfield.ui.html import escape_html, folded_html, table, tag, text

VERDICT_MEANINGS = (
    ("artefact", "the effect is there, and so it is in its control"),
    ("does not", "what the paper says is not so here"),
    ("holds in part", "some of it holds, or some of it cannot be told"),
    ("holds", "all of it holds"),
    ("cannot tell", "noise, too few launches, no second node, or no counter: nothing follows"),
)


def cards_html(cards: Sequence[Card], here: LiveSummary | None, papers: Sequence[JudgedPaper]) -> str:
    """Returns the section of cards as HTML; if nothing was measured, only how to measure."""
    if here is None:
        command = tag("code", text(own_command.line("reproduce", "--live-only")))
        message = text("Nothing was measured on this machine. ") + command
        return tag("p", message + text(" adds a card for each claim: does it still hold?"), class_="quiet")
    measured = [card for card in cards if card.verdict != "not measured"]
    others = [card for card in cards if card.verdict == "not measured"]
    return (
        tag("p", text(machine_sentence(here)), role="note")
        + _meanings_html(measured)
        + tag("div", "".join(map(_card_html, measured)), class_="cards")
        + folded_html(f"{counted(len(others), 'claim')} that cannot be measured here", _unmeasured_table(others))
        + folded_html("Every answer", _answer_table(papers))
    )


def machine_sentence(here: LiveSummary) -> str:
    """Returns a sentence on machine, MPI, compiler, launches and load of the measurement."""
    load = f", load average at most {here.load_1m:.1f}" if here.load_1m is not None else ""
    where = f" ({here.virtual})" if here.virtual else ""
    compiler = f"; compiler: {here.compiler}" if here.compiler else ""
    machine, launches = (
        f"{here.machine}, {counted(here.cores, 'core')}{where}",
        counted(here.launches, "launch", "launches"),
    )
    return f"Measured on {machine}, under {here.mpi}, in {launches}{load}{compiler}. The launches are in {here.folder}."


def _meanings_html(cards: Sequence[Card]) -> str:
    found = {card.verdict for card in cards}
    items = [tag("dt", _verdict_html(name)) + tag("dd", text(says)) for name, says in VERDICT_MEANINGS if name in found]
    return tag("dl", "".join(items), class_="meanings")


def _verdict_html(verdict: str) -> str:
    return tag("span", text(verdict), class_=f"verdict {verdict.replace(' ', '-')}")


def _card_html(card: Card) -> str:
    facts = [("statement", text(card.statement)), ("the paper", text(card.paper)), ("this machine", text(card.here))]
    if card.control:
        facts.append(("control", text(card.control)))
    rows = "".join(tag("dt", name) + tag("dd", value) for name, value in facts if value)
    return tag(
        "article",
        tag("h3", f"{escape_html(card.claim)} {_verdict_html(card.verdict)}")
        + tag("p", text(card.title), class_="quiet")
        + tag("p", text(card.says), class_="says")
        + tag("p", text(card.line))
        + tag("dl", rows)
        + tag("p", tag("code", escape_html(card.command)))
        + tag("p", text(card.where), class_="quiet"),
        class_=f"card {card.verdict.replace(' ', '-')}",
        id=f"card-{card.claim}",
    )


def _unmeasured_table(cards: Sequence[Card]) -> str:
    rows = [[escape_html(card.claim), text(card.says), text(card.line)] for card in cards]
    return table(("claim", "what the paper says", "why not"), rows)


def _answer_table(papers: Sequence[JudgedPaper]) -> str:
    rows = [
        [escape_html(claim.id), text(one.here.ours and one.says), text(one.paper), _verdict_html(one.here.answer),
         text(one.here.ours), text(one.here.control)]
        for paper in papers for claim in paper.claims for one in claim.statements if one.here and one.here.answer
    ]  # fmt: skip
    return table(("claim", "statement", "the paper", "here", "this machine", "control"), rows) if rows else ""
