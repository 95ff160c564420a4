"""Cards that say whether a claim holds on the user's machine. There is one card per claim that is in a paper's abstract
or is the main finding of a section. Cards are based on measurements only, not on simulations of the papers'
machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.reproduce.outcome import Card, CardVerdict, JudgedClaim, JudgedPaper, JudgedStatement

MIN_WEIGHT = 2
_VERDICT_ORDER: Sequence[CardVerdict] = (
    "artefact",
    "does not",
    "holds in part",
    "holds",
    "cannot tell",
    "not measured",
)
_VERBS = {
    "holds": ("holds", "hold"), "does not": ("does not", "do not"), "artefact": ("is an artefact", "are artefacts"),
    "cannot tell": ("cannot be told", "cannot be told"),
}  # fmt: skip


def cards_of(papers: Iterable[JudgedPaper]) -> list[Card]:
    """Returns the cards, negative results first, then by descending weight."""
    cards = [_make_card(paper, claim) for paper in papers for claim in paper.claims if claim.weight >= MIN_WEIGHT]
    return sorted(cards, key=lambda card: (_VERDICT_ORDER.index(card.verdict), -card.weight))


def _make_card(paper: JudgedPaper, claim: JudgedClaim) -> Card:
    measured = [one for one in claim.statements if one.is_question and one.here and one.here.answer]
    words = [one.here.answer for one in measured if one.here]
    shown = min(
        measured, key=lambda one: _VERDICT_ORDER.index((one.here and one.here.answer) or "not measured"), default=None
    )
    reasons = [one.here.ours for one in claim.statements if one.here and not one.here.answer and one.here.ours]
    own = [shown.here.control] if shown and shown.here and shown.here.control else []
    return Card(
        claim=claim.id,
        title=paper.title,
        weight=claim.weight,
        says=claim.says,
        where=claim.where,
        verdict=_card_verdict(words),
        line=_answer_counts(words)
        if measured
        else f"Not measured here: {reasons[0] if reasons else 'nothing asks it'}.",
        statement=shown.says if shown else "",
        paper=(shown or claim.statements[0]).paper,
        here=f"{shown.here.answer}: {shown.here.ours}" if shown and shown.here else "",
        control="; ".join([*own, *_control_answers(claim.statements)]),
        command=own_command.line("reproduce", claim.id, *["--live-only"] * bool(measured)),
    )


def _control_answers(statements: Iterable[JudgedStatement]) -> list[str]:
    """Returns the answers to the claim's control statements, as text. They do not affect the claim's verdict."""
    return [f"{s.says}: {s.here.answer} ({s.here.ours})" for s in statements if s.is_control and s.here]


def _card_verdict(words: Sequence[str]) -> CardVerdict:
    """Returns the verdict on a claim from the answers to its statements. A statement that cannot be decided keeps the
    claim from holding as a whole."""
    if not words:
        return "not measured"
    if "artefact" in words:
        return "artefact"
    decided = {word for word in words if word != "cannot tell"}
    if not decided:
        return "cannot tell"
    if decided == {"does not"}:
        return "does not"
    return "holds" if decided == {"holds"} and "cannot tell" not in words else "holds in part"


def _answer_counts(words: Sequence[str]) -> str:
    counts = {word: words.count(word) for word in _VERBS if word in words}
    parts = [f"{number} {_VERBS[word][number > 1]}" for word, number in counts.items()]
    return f"Of {counted(len(words), 'statement')} {', '.join(parts)}."
