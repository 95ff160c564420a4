"""Renders the section of the HTML page with the cards, which say whether claims hold on the user's machine."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.reproduce.outcome import ClaimCard, JudgedPaper, LiveSummary
from nearfield.ui.html import escape_html, folded_html, table, tag, text

VERDICT_MEANINGS = (
    ("artefact", "the effect is there, and so it is in its control"),
    ("does not", "what the paper says is not so here"),
    ("holds in part", "some of it holds, or some of it cannot be told"),
    ("holds", "all of it holds"),
    ("cannot tell", "noise, too few launches, no second node, or no counter: nothing follows"),
)


def cards_html(cards: Sequence[ClaimCard], live_summary: LiveSummary | None, papers: Sequence[JudgedPaper]) -> str:
    """Returns the HTML of the section with the cards; if nothing was measured, a sentence with the command that
    measures."""
    if live_summary is None:
        command = tag("code", text(own_command.command_line("reproduce", "--live-only")))
        message = text("Nothing was measured on this machine. ") + command
        return tag("p", message + text(" adds a card for each claim: does it still hold?"), class_="quiet")
    measured_cards = [card for card in cards if card.verdict != "not measured"]
    unmeasured_cards = [card for card in cards if card.verdict == "not measured"]
    return (
        tag("p", text(format_machine_sentence(live_summary)), role="note")
        + _meanings_html(measured_cards)
        + tag("div", "".join(map(_card_html, measured_cards)), class_="cards")
        + folded_html(
            f"{counted(len(unmeasured_cards), 'claim')} that cannot be measured here",
            _unmeasured_table_html(unmeasured_cards),
        )
        + folded_html("Every answer", _answer_table_html(papers))
    )


def format_machine_sentence(live_summary: LiveSummary) -> str:
    """Returns a sentence with the machine, the MPI, the compiler, the number of launches and the load average of the
    measurement."""
    load = f", load average at most {live_summary.load_1m:.1f}" if live_summary.load_1m is not None else ""
    where = f" ({live_summary.virtual})" if live_summary.virtual else ""
    compiler = f"; compiler: {live_summary.compiler}" if live_summary.compiler else ""
    machine, launches = (
        f"{live_summary.machine}, {counted(live_summary.cores, 'core')}{where}",
        counted(live_summary.launches, "launch", "launches"),
    )
    measured = f"Measured on {machine}, under {live_summary.mpi}, in {launches}{load}{compiler}."
    return f"{measured} The launches are in {live_summary.folder}."


def _meanings_html(cards: Sequence[ClaimCard]) -> str:
    present_verdicts = {card.verdict for card in cards}
    items = [
        tag("dt", _verdict_html(name)) + tag("dd", text(says))
        for name, says in VERDICT_MEANINGS
        if name in present_verdicts
    ]
    return tag("dl", "".join(items), class_="meanings")


def _verdict_html(verdict: str) -> str:
    return tag("span", text(verdict), class_=f"verdict {verdict.replace(' ', '-')}")


def _card_html(card: ClaimCard) -> str:
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


def _unmeasured_table_html(cards: Sequence[ClaimCard]) -> str:
    rows = [[escape_html(card.claim), text(card.says), text(card.line)] for card in cards]
    return table(("claim", "what the paper says", "why not"), rows)


def _answer_table_html(papers: Sequence[JudgedPaper]) -> str:
    rows = [
        [escape_html(claim.id), text(one.here.ours and one.says), text(one.paper), _verdict_html(one.here.answer),
         text(one.here.ours), text(one.here.control)]
        for paper in papers for claim in paper.claims for one in claim.statements if one.here and one.here.answer
    ]  # fmt: skip
    return table(("claim", "statement", "the paper", "here", "this machine", "control"), rows) if rows else ""
