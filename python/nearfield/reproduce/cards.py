"""Makes cards, which summarize whether a claim holds on the user's machine. Every claim that is in a paper's abstract
or is the main finding of a section has one. Cards are based on measurements only, not on simulations of the papers'
machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.reproduce.outcome import CardVerdict, ClaimCard, JudgedClaim, JudgedPaper, JudgedStatement

MIN_CARD_WEIGHT = 2
_VERDICT_ORDER: Sequence[CardVerdict] = (
    "artefact",
    "does not",
    "holds in part",
    "holds",
    "cannot tell",
    "not measured",
)
_VERBS_BY_ANSWER = {
    "holds": ("holds", "hold"), "does not": ("does not", "do not"), "artefact": ("is an artefact", "are artefacts"),
    "cannot tell": ("cannot be told", "cannot be told"),
}  # fmt: skip


def cards_of(papers: Iterable[JudgedPaper]) -> list[ClaimCard]:
    """Returns the cards of the papers' claims, sorted by verdict, negative results first, and then by descending
    weight."""
    cards = [_make_card(paper, claim) for paper in papers for claim in paper.claims if claim.weight >= MIN_CARD_WEIGHT]
    return sorted(cards, key=lambda card: (_VERDICT_ORDER.index(card.verdict), -card.weight))


def _make_card(paper: JudgedPaper, claim: JudgedClaim) -> ClaimCard:
    measured_statements = [one for one in claim.statements if one.is_question and one.here and one.here.answer]
    answers = [one.here.answer for one in measured_statements if one.here]
    shown_statement = min(
        measured_statements,
        key=lambda one: _VERDICT_ORDER.index((one.here and one.here.answer) or "not measured"),
        default=None,
    )
    reasons = [one.here.ours for one in claim.statements if one.here and not one.here.answer and one.here.ours]
    own_control = (
        [shown_statement.here.control]
        if shown_statement and shown_statement.here and shown_statement.here.control
        else []
    )
    return ClaimCard(
        claim=claim.id,
        title=paper.title,
        weight=claim.weight,
        says=claim.says,
        where=claim.where,
        verdict=_card_verdict(answers),
        line=_format_answer_counts(answers)
        if measured_statements
        else f"Not measured here: {reasons[0] if reasons else 'nothing asks it'}.",
        statement=shown_statement.says if shown_statement else "",
        paper=(shown_statement or claim.statements[0]).paper,
        here=f"{shown_statement.here.answer}: {shown_statement.here.ours}"
        if shown_statement and shown_statement.here
        else "",
        control="; ".join([*own_control, *_format_control_answers(claim.statements)]),
        command=own_command.command_line("reproduce", claim.id, *["--live-only"] * bool(measured_statements)),
    )


def _format_control_answers(statements: Iterable[JudgedStatement]) -> list[str]:
    """Returns the answers to the claim's control statements, as text. They do not affect the claim's verdict."""
    return [f"{s.says}: {s.here.answer} ({s.here.ours})" for s in statements if s.is_control and s.here]


def _card_verdict(answers: Sequence[str]) -> CardVerdict:
    """Returns the verdict on a claim from the answers to its statements. If one of them cannot be decided, the claim
    holds at most in part."""
    if not answers:
        return "not measured"
    if "artefact" in answers:
        return "artefact"
    decided = {word for word in answers if word != "cannot tell"}
    if not decided:
        return "cannot tell"
    if decided == {"does not"}:
        return "does not"
    return "holds" if decided == {"holds"} and "cannot tell" not in answers else "holds in part"


def _format_answer_counts(answers: Sequence[str]) -> str:
    counts = {word: answers.count(word) for word in _VERBS_BY_ANSWER if word in answers}
    parts = [f"{number} {_VERBS_BY_ANSWER[word][number > 1]}" for word, number in counts.items()]
    return f"Of {counted(len(answers), 'statement')} {', '.join(parts)}."
