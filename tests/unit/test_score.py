"""Is the score what its rules say, and is every number of a text filled from records?"""

import re

import pytest

from nearfield.reproduce.curves import alternatives_of, points_of
from nearfield.reproduce.outcome import JudgedClaim, JudgedPaper, JudgedStatement, verdict_of_claim
from nearfield.reproduce.papers import claims_file_by_paper, load_paper
from nearfield.reproduce.quotes import fill_in_quotes, quote_names_in
from nearfield.reproduce.schema import CurveSpec, QuotedNumber
from nearfield.reproduce.score import further_score_texts, papers_of_score, score_claim, score_papers, score_text

PAPERS = [paper for name in claims_file_by_paper() if not (paper := load_paper(name)).is_further]
STATEMENTS = [(paper, claim, s) for paper in PAPERS for claim in paper.claim for s in claim.statement]


def made_claim(weight: int, *statements: tuple[str, bool | None]) -> JudgedClaim:
    judged = [
        JudgedStatement(says="", paper=paper, ours="", holds=holds, is_number=False) for paper, holds in statements
    ]
    return JudgedClaim(id="S0.1", says="", where="", weight=weight, verdict=verdict_of_claim(judged), statements=judged,
                       score=score_claim(judged))  # fmt: skip


def test_the_score_counts_a_passage_once() -> None:
    """Does a passage that was written down as fifteen statements count as one, and do claims that were not judged, or
    are descriptions, count as the three published numbers say?"""
    whole = made_claim(3, ("a", True))
    split = made_claim(1, *[("a", False)] * 14, ("a", True), ("b", True), ("c", None))
    assert split.score == pytest.approx((1 / 15 + 1) / 2)
    nothing, unknown = made_claim(2, ("a", False)), made_claim(4, ("a", None))
    description = made_claim(0, ("a", True))
    bracketed = [
        JudgedStatement(says="", paper="a", ours="", holds=True, is_number=False, not_counted="it cannot fail")
    ]
    assert score_claim(bracketed) is None and unknown.score is None
    claims = [whole, split, nothing, unknown, description]
    found = score_papers([JudgedPaper(name="S0", title="", claims=claims, chosen=[])])
    assert found.simulated == pytest.approx((3 + split.score) / 6) and found.all == pytest.approx(
        (3 + split.score) / 10
    )
    assert (found.judged, found.claims, found.whole, found.half, found.less) == (3, 5, 1, 1, 1)
    assert score_text(score_papers([])) == "no claim is judged"
    part = JudgedPaper(name="S0", title="", claims=claims, chosen=[], missing=["leo3"])
    assert score_papers([part]).all is None and "of all" not in score_text(score_papers([part]))


def test_a_ratio_to_the_rest_is_not_a_share() -> None:
    """Is communication against computation what figures 8 and 9 of S4 show: 3 to 1 where its share is 75 %? Is a metric
    that is added in a number of its own?"""
    rows = [{"metric": name, "value": value, "nodes": 8} for name, value in (("time", 40.0), ("mpi_time", 30.0))]
    share = CurveSpec(profile="p", metric="mpi_time", per="time", by="nodes")
    assert points_of(share, {"p": rows}, {}) == {8: 0.75}
    assert points_of(share.model_copy(update={"per_rest": True}), {"p": rows}, {}) == {8: 3}
    assert points_of(share.model_copy(update={"per": None, "plus": "time"}), {"p": rows}, {}) == {8: 70}


def test_further_papers_have_a_score_of_their_own() -> None:
    """Is the published score that of the five papers, and has each further paper a line, unless it stands alone?"""
    five = JudgedPaper(name="S0", title="", claims=[made_claim(3, ("a", True))], chosen=[])
    further = JudgedPaper(name="Other", title="", is_further=True, claims=[made_claim(3, ("a", False))], chosen=[])
    assert papers_of_score([five, further]) == [five] and papers_of_score([further]) == [further]
    (text,) = further_score_texts([five, further])
    assert text.startswith("Other, a further paper: by weight 0% of what is simulated holds")
    assert further_score_texts([further]) == []
    assert {load_paper(name).name for name in claims_file_by_paper()} - {paper.name for paper in PAPERS} == {"Acoll"}


def test_the_mean_over_a_column_is_of_the_best_of_each_value() -> None:
    """Is the highest number of the alternatives taken for each value of the column, compared with the base of that
    value, which has another metric and lacks a column, and then the mean? Are values without records left out?"""
    times = {("a", 2): 5, ("b", 2): 8, ("a", 4): 9, ("b", 4): 3}
    rows = [{"metric": "min_time", "value": value, "algorithm": name, "ranks": ranks, "size_bytes": 8}
            for (name, ranks), value in times.items()]  # fmt: skip
    base = [{"metric": "time", "value": 10, "ranks": 2, "size_bytes": 8},
            {"metric": "time", "value": 12, "ranks": 4, "size_bytes": 8}]  # fmt: skip
    where = {"algorithm": ["a", "b"], "ranks": [2, 4, 6]}
    curve = CurveSpec(profile="p", metric="min_time", where=where, mean_over=["ranks"],
                      base="q", base_metric="time", versus={"algorithm": ""}, how="gain")  # fmt: skip
    assert points_of(curve, {"p": rows, "q": base}, {}) == {8: pytest.approx((0.5 + 0.75) / 2)}
    assert points_of(curve, {"p": [], "q": base}, {}) == {}
    assert [one[8] for one in alternatives_of(curve, {"p": rows, "q": base}, {}) if one] == pytest.approx(
        [0.5, 0.25, 0.2, 0.75]
    )
    with pytest.raises(ValueError, match="mean_over needs a list of values of nodes"):
        CurveSpec.model_validate(curve.model_dump() | {"mean_over": ["nodes"]})


def test_what_cannot_fail_is_not_counted() -> None:
    """Are the statements that follow from how the simulator was built in brackets, and claims weighed as written?"""
    weights = {claim.id: claim.weight for paper in PAPERS for claim in paper.claim}
    assert sum(weights.values()) == 67 and [name for name in weights if not weights[name]] == [
        "S0.1", "S0.10", "S4.1", "S4.8",
    ]  # fmt: skip
    counted = [s for _, _, s in STATEMENTS if (s.judge or s.rule) and not s.not_counted]
    assert len(counted) == 246 - 13


OF_RESULTS = re.compile(r"\d[\d.,]*\s*(%|points?\b|[num]?s\b|[MG]B/s|times\b|-fold|a line\b|bytes\b)")


def test_texts_have_no_literal_results() -> None:
    """Is every result that a cause, note or reading tells of filled from records, and every quote used?"""
    texts = {
        paper.name: [paper.reading, *(t for c in paper.claim for t in (c.note, *(s.why for s in c.statement)))]
        for paper in PAPERS
    }
    assert [text for some in texts.values() for text in some if OF_RESULTS.search(text.replace("512 bytes", ""))] == []
    for paper in PAPERS:
        assert {name for text in texts[paper.name] for name in quote_names_in(text)} == set(paper.quote)


def test_a_text_with_a_missing_quote_is_dropped() -> None:
    """Is a place filled with the range of its records or the maximum, and is nothing said if one of them is missing?"""
    rows = [{"metric": "time", "unit": "ns", "value": 1e3 * n, "size_bytes": n} for n in (1, 2, 3)]
    quote = {"profile": "p", "metric": "time"}
    quotes = {"all": QuotedNumber(**quote), "most": QuotedNumber(**quote, of="max"),
              "two": QuotedNumber(**quote, points=[2]),
              "up": QuotedNumber(**quote, over=[2, 3]), "none": QuotedNumber(**quote, points=[4])}  # fmt: skip

    def filled(text: str, records: dict) -> str:
        return fill_in_quotes(text, quotes, lambda quote: points_of(quote, records, {}), records)

    assert (
        filled("{all}, {most}, {two}, {up}", {"p": rows}) == "1.00 us to 3.00 us, 3.00 us, 2.00 us, 2.00 us to 3.00 us"
    )
    assert filled("{all}, {none}", {"p": rows}) == filled("{all}", {}) == ""
    assert filled("no number", {}) == "no number"
