"""Renders all verdicts as one self-contained HTML page. The page links to the profiles in its folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.base.words import capitalize
from nearfield.reproduce.cards import MIN_WEIGHT
from nearfield.reproduce.cards_page import cards_html
from nearfield.reproduce.outcome import (
    Answer,
    FreeParameter,
    JudgedClaim,
    JudgedPaper,
    JudgedStatement,
    Reproduction,
    TracedFrom,
    count_holding,
    standing_text,
)
from nearfield.reproduce.score import score_text
from nearfield.reproduce.supporting_records import supporting_records_html
from nearfield.reproduce.svg_chart import draw_chart
from nearfield.ui.html import escape_html, fill_template, folded_html, framed_page, read_asset, table, tag, text

NEGATIVE_SCORE = 0.4
_MARKS = {True: "✓", False: "✗", None: "–"}


def render_page(found: Reproduction, folder: Path) -> str:
    """Returns the HTML page. Reads only files of the package. `folder` is the folder of the page and the profiles."""
    simulated = any(paper.simulated for paper in found.papers) or found.here is None
    main = cards_html(found.cards, found.here, found.papers)
    main = tag("section", tag("h2", "Does it still hold? This machine, measured") + main, id="here")
    if simulated:
        main += _simulated_html(found, folder)
    return framed_page(
        title="nearfield: claims reproduced",
        verb="reproduce",
        headline=tag("h1", "What the papers claim: does it still hold?")
        + tag("p", _facts_html(found), class_="facts-line"),
        links=[("here", "This machine"), *(_simulated_links(found) if simulated else [])],
        main=main,
        version=found.nearfield,
        style=read_asset("style.css", __package__),
    )


def _simulated_links(found: Reproduction) -> list[tuple[str, str]]:
    return [("verdicts", "The papers' machines"), *((paper.name, paper.name) for paper in found.papers)]


def _simulated_html(found: Reproduction, folder: Path) -> str:
    """Returns the section on the simulated machines of the papers."""
    return fill_template(
        read_asset("main.html", __package__),
        {
            "strips": _verdict_strips(found.papers),
            "banner": _incomplete_banner(found, folder) + _traces_banner(found.traced),
            "negative": _negative_results_html(found.papers),
            "score": tag("p", tag("b", text(capitalize(f"{score_text(found.score)}.")))),
            "overview": _claim_table(found),
            "papers": "".join(_paper_html(paper, folder) for paper in found.papers),
        },
    )


def _negative_results_html(papers: Iterable[JudgedPaper]) -> str:
    """Returns the main claims whose score is below NEGATIVE_SCORE in simulation, with the known reasons."""
    claims = [claim for paper in papers for claim in paper.claims]
    poor = [one for one in claims if one.weight >= MIN_WEIGHT and one.score is not None and one.score < NEGATIVE_SCORE]
    items = [
        tag(
            "li",
            tag("a", escape_html(one.id), href=f"#{one.id}")
            + text(f" ({one.score:.0%}): {one.says}.")
            + folded_html("Why", text(one.note)),
        )
        for one in sorted(poor, key=lambda one: one.score or 0.0)
    ]
    return tag("h3", "Negative results") + tag("ul", "".join(items), class_="negative") if items else ""


def _facts_html(found: Reproduction) -> str:
    parts = [found.created[:10], f"{found.seconds:.0f} s", "fewer sizes (--quick)" if found.quick else "all sizes"]
    return " &ensp;|&ensp; ".join([*map(text, parts), tag("code", escape_html(found.command))])


def _incomplete_banner(found: Reproduction, folder: Path) -> str:
    if found.complete:
        return ""
    message = text("Not all of it is simulated yet: claims that need what is missing are not judged. This goes on: ")
    command = own_command.line("reproduce", "--out", folder.absolute(), anywhere=True)
    return tag("p", message + tag("code", escape_html(command)), class_="banner", role="alert")


def _claim_table(found: Reproduction) -> str:
    sources = ["traced"] * bool(found.traced)
    rows = [
        [
            tag("a", claim.id, href=f"#{claim.id}"),
            text(claim.says),
            _verdict_html(claim),
            _holding_count(claim.statements),
            text(str(claim.weight)),
            text("" if claim.score is None else f"{claim.score:.0%}"),
            *(_answer_counts(claim.statements, name) for name in sources),
        ]
        for paper in found.papers
        for claim in paper.claims
    ]
    headings = ("claim", "what the paper says", "verdict", "statements that hold", "weight", "score", *sources)
    return table(headings, rows)


def _verdict_strips(papers: Iterable[JudgedPaper]) -> str:
    """Returns a row of cells for each paper, one per claim, coloured by its verdict."""
    return tag("div", "".join(map(_verdict_strip, papers)), class_="strips")


def _verdict_strip(paper: JudgedPaper) -> str:
    cells = "".join(
        tag("a", text(one.id.partition(".")[2]), href=f"#{one.id}", title=f"{one.id}, {one.verdict}: {one.says}",
            class_=f"cell {one.verdict.replace(' ', '-')}")
        for one in paper.claims
    )  # fmt: skip
    return tag("div", tag("a", text(paper.name), href=f"#{paper.name}", class_="paper") + cells, class_="strip")


def _verdict_html(claim: JudgedClaim) -> str:
    return tag("span", text(claim.verdict), class_=f"verdict {claim.verdict.replace(' ', '-')}")


def _holding_count(statements: Iterable[JudgedStatement]) -> str:
    held, judged = count_holding(statements)
    return text(f"{held} of {judged}") if judged else ""


def _answer_counts(statements: Iterable[JudgedStatement], source: str) -> str:
    words = [answer.answer for one in statements if (answer := getattr(one, source))]
    return text(", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words) if word))


def _paper_html(paper: JudgedPaper, folder: Path) -> str:
    body = tag("h2", text(f"{paper.name}: {paper.title}")) + _summary_html(paper)
    claims = "".join(_claim_html(claim, folder) for claim in paper.claims)
    return tag("section", body + claims + _parameter_table(paper.chosen), id=paper.name)


def _summary_html(paper: JudgedPaper) -> str:
    """Returns how many statements of a paper hold, how many are not counted or not judged, and the summary from the
    claims file."""
    statements = [one for claim in paper.claims for one in claim.statements]
    shown = sum(1 for one in statements if one.not_counted)
    unknown = sum(1 for one in statements if one.holds is None and not one.not_counted)
    summary = capitalize(f"{standing_text([paper])}.")
    if shown:
        summary += f" {shown} more {'is' if shown == 1 else 'are'} shown, but not counted."
    if unknown:
        summary += f" {unknown} {'is' if unknown == 1 else 'are'} not judged."
    reading = tag("p", text(paper.reading)) if paper.reading else ""
    return tag("div", tag("p", tag("b", text(summary))) + reading, class_="reading")


def _claim_html(claim: JudgedClaim, folder: Path) -> str:
    head = tag("h3", f"{claim.id} {_verdict_html(claim)}") + tag("p", text(claim.says))
    where = tag("p", text(claim.where), class_="quiet")
    note = tag("p", tag("b", "Why: ") + text(claim.note)) if claim.note else ""
    statements = tag("ol", "".join(_statement_html(one, folder) for one in claim.statements), class_="statements")
    return tag("div", head + where + note + statements, id=claim.id, class_="claim")


def _statement_html(one: JudgedStatement, folder: Path) -> str:
    mark = f"({_MARKS[one.holds]})" if one.not_counted else _MARKS[one.holds]
    summary = tag("p", tag("span", mark, class_="mark") + text(one.says), class_="says")
    facts = tag("dt", "the paper") + tag("dd", text(one.paper)) + tag("dt", "ours") + tag("dd", text(one.ours))
    if one.traced and (one.traced.answer or one.traced.ours):
        facts += tag("dt", "traced") + tag("dd", _answer_html(one.traced))
    summary += tag("dl", facts)
    if one.why:
        summary += tag("p", tag("b", "Why: ") + text(one.why))
    if one.not_counted:
        summary += tag("p", text(f"Not counted: {one.not_counted}."), class_="quiet")
    if one.degree:
        summary += tag("p", text(f"Judged as '{one.degree}'."), class_="quiet")
    look = {True: "holds", False: "fails", None: "open"}[one.holds]
    return tag(
        "li", tag("div", summary + supporting_records_html(one, folder)) + draw_chart(one), class_=f"statement {look}"
    )


def _answer_html(here: Answer) -> str:
    if not here.answer:
        return tag("span", text(here.ours), class_="quiet")
    word = tag("span", text(here.answer), class_=f"verdict {here.answer.replace(' ', '-')}")
    return word + text(f": {here.ours}")


def _traces_banner(traces: list[TracedFrom]) -> str:
    if not traces:
        return ""
    each = "; ".join(f"{one.name}: {one.command}, {counted(one.ranks, 'rank')}" for one in traces)
    message = f"The column 'traced' is of real programs ({each}). No verdict depends on it."
    return tag("p", text(message), class_="banner", role="note")


def _parameter_table(chosen: list[FreeParameter]) -> str:
    rows = [
        [escape_html(c.of), escape_html(c.key), escape_html(c.value), text(c.reason), text(", ".join(c.claims))]
        for c in chosen
    ]
    title = f"{counted(len(chosen), 'free parameter')} behind these claims"
    inner = table(("of", "key", "value", "why this value", "claims"), rows, class_="chosen")
    return folded_html(title, inner if chosen else "", class_="wide")
