"""Renders all verdicts as one self-contained HTML page, which links to the profiles in the output folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.units import counted
from nearfield.base.words import capitalize
from nearfield.reproduce.cards import MIN_CARD_WEIGHT
from nearfield.reproduce.cards_page import cards_html
from nearfield.reproduce.outcome import (
    Answer,
    FreeParameter,
    JudgedClaim,
    JudgedPaper,
    JudgedStatement,
    Reproduction,
    TraceSource,
    count_holding_statements,
    format_statement_counts,
)
from nearfield.reproduce.score import further_score_texts, score_text
from nearfield.reproduce.supporting_records import supporting_records_html
from nearfield.reproduce.svg_chart import draw_chart
from nearfield.ui.html import escape_html, fill_template, folded_html, framed_page, read_asset, table, tag, text

MAX_NEGATIVE_SCORE = 0.4
_MARK_BY_OUTCOME = {True: "✓", False: "✗", None: "–"}


def render_page(reproduction: Reproduction, folder: Path) -> str:
    """Returns the HTML page. Reads only files installed with the Python package. `folder` has the page and the
    profiles, to which the page links by relative paths."""
    has_simulations = any(paper.simulated for paper in reproduction.papers) or reproduction.here is None
    main = cards_html(reproduction.cards, reproduction.here, reproduction.papers)
    main = tag("section", tag("h2", "Does it still hold? This machine, measured") + main, id="here")
    if has_simulations:
        main += _simulated_html(reproduction, folder)
    return framed_page(
        title="nearfield: claims reproduced",
        verb="reproduce",
        headline=tag("h1", "What the papers claim: does it still hold?")
        + tag("p", _facts_html(reproduction), class_="facts-line"),
        links=[("here", "This machine"), *(_simulated_links(reproduction) if has_simulations else [])],
        main=main,
        version=reproduction.nearfield,
        style=read_asset("style.css", __package__),
    )


def _simulated_links(reproduction: Reproduction) -> list[tuple[str, str]]:
    return [("verdicts", "The papers' machines"), *((paper.name, paper.name) for paper in reproduction.papers)]


def _simulated_html(reproduction: Reproduction, folder: Path) -> str:
    """Returns the HTML of the section with the verdicts from simulations of the papers' machines."""
    return fill_template(
        read_asset("main.html", __package__),
        {
            "strips": _verdict_strips_html(reproduction.papers),
            "banner": _incomplete_banner_html(reproduction, folder) + _traces_banner_html(reproduction.traced),
            "negative": _negative_results_html(reproduction.papers),
            "score": tag("p", tag("b", text(capitalize(f"{score_text(reproduction.score)}."))))
            + "".join(tag("p", text(f"{one}.")) for one in further_score_texts(reproduction.papers)),
            "overview": _claim_table_html(reproduction),
            "papers": "".join(_paper_html(paper, folder) for paper in reproduction.papers),
        },
    )


def _negative_results_html(papers: Iterable[JudgedPaper]) -> str:
    """Returns an HTML list of the main claims whose score in simulation is below MAX_NEGATIVE_SCORE, with the known
    reasons."""
    claims = [claim for paper in papers for claim in paper.claims]
    negative_claims = [
        one
        for one in claims
        if one.weight >= MIN_CARD_WEIGHT and one.score is not None and one.score < MAX_NEGATIVE_SCORE
    ]
    items = [
        tag(
            "li",
            tag("a", escape_html(one.id), href=f"#{one.id}")
            + text(f" ({one.score:.0%}): {one.says}.")
            + folded_html("Why", text(one.note)),
        )
        for one in sorted(negative_claims, key=lambda one: one.score or 0.0)
    ]
    return tag("h3", "Negative results") + tag("ul", "".join(items), class_="negative") if items else ""


def _facts_html(reproduction: Reproduction) -> str:
    parts = [
        reproduction.created[:10],
        f"{reproduction.seconds:.0f} s",
        "fewer sizes (--quick)" if reproduction.quick else "all sizes",
    ]
    return " &ensp;|&ensp; ".join([*map(text, parts), tag("code", escape_html(reproduction.command))])


def _incomplete_banner_html(reproduction: Reproduction, folder: Path) -> str:
    if reproduction.complete:
        return ""
    message = text("Not all of it is simulated yet: claims that need what is missing are not judged. This goes on: ")
    command = own_command.command_line("reproduce", "--out", folder.absolute(), works_in_any_folder=True)
    return tag("p", message + tag("code", escape_html(command)), class_="banner", role="alert")


def _claim_table_html(reproduction: Reproduction) -> str:
    sources = ["traced"] * bool(reproduction.traced)
    rows = [
        [
            tag("a", claim.id, href=f"#{claim.id}"),
            text(claim.says),
            _verdict_html(claim),
            _format_holding_count(claim.statements),
            text(str(claim.weight)),
            text("" if claim.score is None else f"{claim.score:.0%}"),
            *(_format_answer_counts(claim.statements, name) for name in sources),
        ]
        for paper in reproduction.papers
        for claim in paper.claims
    ]
    headings = ("claim", "what the paper says", "verdict", "statements that hold", "weight", "score", *sources)
    return table(headings, rows)


def _verdict_strips_html(papers: Iterable[JudgedPaper]) -> str:
    """Returns the HTML of one row per paper, with one cell per claim that is coloured by the verdict."""
    return tag("div", "".join(map(_verdict_strip_html, papers)), class_="strips")


def _verdict_strip_html(paper: JudgedPaper) -> str:
    cells = "".join(
        tag("a", text(one.id.partition(".")[2]), href=f"#{one.id}", title=f"{one.id}, {one.verdict}: {one.says}",
            class_=f"cell {one.verdict.replace(' ', '-')}")
        for one in paper.claims
    )  # fmt: skip
    return tag("div", tag("a", text(paper.name), href=f"#{paper.name}", class_="paper") + cells, class_="strip")


def _verdict_html(claim: JudgedClaim) -> str:
    return tag("span", text(claim.verdict), class_=f"verdict {claim.verdict.replace(' ', '-')}")


def _format_holding_count(statements: Iterable[JudgedStatement]) -> str:
    held, judged = count_holding_statements(statements)
    return text(f"{held} of {judged}") if judged else ""


def _format_answer_counts(statements: Iterable[JudgedStatement], source: str) -> str:
    words = [answer.answer for one in statements if (answer := getattr(one, source))]
    return text(", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words) if word))


def _paper_html(paper: JudgedPaper, folder: Path) -> str:
    body = tag("h2", text(f"{paper.name}: {paper.title}")) + _summary_html(paper)
    claims = "".join(_claim_html(claim, folder) for claim in paper.claims)
    return tag("section", body + claims + _free_parameter_table_html(paper.chosen), id=paper.name)


def _summary_html(paper: JudgedPaper) -> str:
    """Returns the HTML summary of a paper: how many statements hold, are not counted or not judged, and the paragraph
    `reading` of the claims file."""
    statements = [one for claim in paper.claims for one in claim.statements]
    num_not_counted = sum(1 for one in statements if one.not_counted)
    num_not_judged = sum(1 for one in statements if one.holds is None and not one.not_counted)
    summary = capitalize(f"{format_statement_counts([paper])}.")
    if num_not_counted:
        summary += f" {num_not_counted} more {'is' if num_not_counted == 1 else 'are'} shown, but not counted."
    if num_not_judged:
        summary += f" {num_not_judged} {'is' if num_not_judged == 1 else 'are'} not judged."
    reading = tag("p", text(paper.reading)) if paper.reading else ""
    return tag("div", tag("p", tag("b", text(summary))) + reading, class_="reading")


def _claim_html(claim: JudgedClaim, folder: Path) -> str:
    head = tag("h3", f"{claim.id} {_verdict_html(claim)}") + tag("p", text(claim.says))
    where = tag("p", text(claim.where), class_="quiet")
    note = tag("p", tag("b", "Why: ") + text(claim.note)) if claim.note else ""
    statements = tag("ol", "".join(_statement_html(one, folder) for one in claim.statements), class_="statements")
    return tag("div", head + where + note + statements, id=claim.id, class_="claim")


def _statement_html(statement: JudgedStatement, folder: Path) -> str:
    mark = f"({_MARK_BY_OUTCOME[statement.holds]})" if statement.not_counted else _MARK_BY_OUTCOME[statement.holds]
    summary = tag("p", tag("span", mark, class_="mark") + text(statement.says), class_="says")
    facts = (
        tag("dt", "the paper") + tag("dd", text(statement.paper)) + tag("dt", "ours") + tag("dd", text(statement.ours))
    )
    if statement.traced and (statement.traced.answer or statement.traced.ours):
        facts += tag("dt", "traced") + tag("dd", _answer_html(statement.traced))
    summary += tag("dl", facts)
    if statement.why:
        summary += tag("p", tag("b", "Why: ") + text(statement.why))
    if statement.not_counted:
        summary += tag("p", text(f"Not counted: {statement.not_counted}."), class_="quiet")
    if statement.degree:
        summary += tag("p", text(f"Judged as '{statement.degree}'."), class_="quiet")
    css_class = {True: "holds", False: "fails", None: "open"}[statement.holds]
    return tag(
        "li",
        tag("div", summary + supporting_records_html(statement, folder)) + draw_chart(statement),
        class_=f"statement {css_class}",
    )


def _answer_html(answer: Answer) -> str:
    if not answer.answer:
        return tag("span", text(answer.ours), class_="quiet")
    word = tag("span", text(answer.answer), class_=f"verdict {answer.answer.replace(' ', '-')}")
    return word + text(f": {answer.ours}")


def _traces_banner_html(traces: list[TraceSource]) -> str:
    if not traces:
        return ""
    each = "; ".join(f"{one.name}: {one.command}, {counted(one.ranks, 'rank')}" for one in traces)
    message = f"The column 'traced' is of real programs ({each}). No verdict depends on it."
    return tag("p", text(message), class_="banner", role="note")


def _free_parameter_table_html(free_parameters: list[FreeParameter]) -> str:
    rows = [
        [escape_html(c.of), escape_html(c.key), escape_html(c.value), text(c.reason), text(", ".join(c.claims))]
        for c in free_parameters
    ]
    title = f"{counted(len(free_parameters), 'free parameter')} behind these claims"
    inner = table(("of", "key", "value", "why this value", "claims"), rows, class_="chosen")
    return folded_html(title, inner if free_parameters else "", class_="wide")
