"""Computes a score for each claim. If a passage of a paper is split into several statements, it still counts once: each
passage scores the fraction of its statements that hold, and the claim scores the mean over its passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nearfield.reproduce.outcome import JudgedPaper, JudgedStatement, Score

HALF_SCORE = 0.5


def score_claim(statements: Iterable[JudgedStatement]) -> float | None:
    """Returns the score of a claim from its statements, from 0 to 1; None if none of them is judged and counted.
    Statements with the same `paper` text belong to the same passage."""
    passages: dict[str, list[bool]] = defaultdict(list)
    for one in statements:
        if one.holds is not None and not one.not_counted:
            passages[one.paper].append(one.holds)
    shares = [sum(held) / len(held) for held in passages.values()]
    return sum(shares) / len(shares) if shares else None


def papers_of_score(papers: Sequence[JudgedPaper]) -> Sequence[JudgedPaper]:
    """Returns the papers that the score of a reproduction is about: without further papers, unless there are no
    others."""
    return [one for one in papers if not one.is_further] or papers


def further_score_texts(papers: Sequence[JudgedPaper]) -> list[str]:
    """Returns a text with the score of each further paper that papers_of_score() leaves out."""
    scored = papers_of_score(papers)
    return [f"{one.name}, a further paper: {score_text(score_papers([one]))}" for one in papers if one not in scored]


def score_papers(papers: Iterable[JudgedPaper]) -> Score:
    """Returns the weighted scores over all claims of all papers. The score `all` is None unless every simulation is
    complete."""
    papers = list(papers)
    claims = [claim for paper in papers for claim in paper.claims]
    weighed = [(claim.weight, claim.score) for claim in claims if claim.weight]
    judged = [(weight, score) for weight, score in weighed if score is not None]
    held = sum(weight * score for weight, score in judged)
    scores = [score for _, score in judged]
    return Score(
        simulated=held / sum(weight for weight, _ in judged) if judged else None,
        all=None if any(one.missing for one in papers) else held / max(sum(weight for weight, _ in weighed), 1),
        judged=len(judged),
        claims=len(claims),
        whole=sum(score == 1 for score in scores),
        half=sum(HALF_SCORE <= score < 1 for score in scores),
        less=sum(score < HALF_SCORE for score in scores),
    )


def score_text(score: Score) -> str:
    """Returns the score as human-readable text."""
    if score.simulated is None:
        return "no claim is judged"
    of_all = "" if score.all is None else f", {score.all:.0%} of all {score.claims} claims"
    return (
        f"by weight {score.simulated:.0%} of what is simulated holds{of_all}; of {score.judged} simulated claims "
        f"{score.whole} hold whole, {score.half} at least by half, {score.less} less"
    )
