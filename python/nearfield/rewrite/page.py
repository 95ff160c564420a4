"""Renders the rewrites of one source file as an HTML page: the code of each place before and after, with the reason,
the assumptions and the results of the checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from nearfield.base.units import counted
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.frontend.text import split_lines
from nearfield.rewrite.notes import PROVED
from nearfield.rewrite.patch import CONTEXT, LONG_FACTOR, Analysis, Patch
from nearfield.ui.html import escape_html, folded_html, framed_page, read_asset, tag, text

Row = tuple[int | None, int | None, bool]  # line indices before and after, and whether the lines differ


def render_page(found: Analysis, command: str) -> str:
    """Returns the HTML page with all patches and refusals for a source file, which is self-contained. `command` is the
    command line that produced it."""
    places = [list(some) for _, some in groupby(found.patches, key=lambda patch: patch.lines)]
    parts = [_place_section(number, some) for number, some in enumerate(places, 1)]
    links = [(f"place-{number}", f"Line {some[0].lines[0]}") for number, some in enumerate(places, 1)]
    if found.missed:
        parts.append(_refusals_section(found.missed))
        links.append(("refused", "Stays"))
    return framed_page(
        title=f"nearfield: {found.path.name}, rewritten",
        verb="rewrite",
        headline=_page_headline(found, len(places), command),
        links=links,
        main="".join(parts) or tag("p", "No function has both messages and loops in one block.", class_="quiet"),
        style=read_asset("page.css", "nearfield.rewrite"),
    )


def _page_headline(found: Analysis, places: int, command: str) -> str:
    """Returns the HTML head of the page: the number of places, of legal orders and of refusals."""
    title = f"{found.path.name}: communication stays where it is"
    if places:
        title = f"{found.path.name}: {counted(places, 'place')} where communication can move to suit the caches"
    facts = [
        f"{counted(len(found.patches), 'legal order')}",
        *([counted(len(found.missed), "refusal")] if found.missed else []),
        tag("code", escape_html(command)),
    ]
    head = tag("h1", text(title)) + tag("p", " &ensp;|&ensp; ".join(facts), class_="facts-line")
    return head + (tag("p", text(f"Of each of them it holds that {PROVED}."), class_="quiet") if places else "")


def _place_section(number: int, patches: Sequence[Patch]) -> str:
    """Returns the HTML section of one place in the source: its best patch, and the other patches folded."""
    first, last = patches[0].lines
    where = f"Lines {first} to {last} of {patches[0].function}"
    others = "".join(
        folded_html(f"Also legal here: {patch.transformation}", _patch_html(patch)) for patch in patches[1:]
    )
    best = tag("h3", text(patches[0].transformation)) + _patch_html(patches[0])
    return tag("section", tag("h2", text(where)) + best + others, id=f"place-{number}")


def _patch_html(patch: Patch) -> str:
    """Returns the HTML of one patch: the reason, the facts and the code before and after."""
    reason = tag("p", text(f"{patch.reason[:1].upper()}{patch.reason[1:]}."), class_="reason")
    both = tag("div", side_by_side_table(patch), class_="both") + tag("div", one_column_table(patch), class_="one")
    return reason + _facts_list(patch) + both


def _facts_list(patch: Patch) -> str:
    """Returns the HTML list above a patch: gain, length, assumptions and results of the checks."""
    gain, length = text(patch.expected), text(patch.size_text)
    if patch.is_long:
        length = tag("b", text(f"more than {LONG_FACTOR} times as long as before: ")) + length
    conditions = "; ".join(map(text, patch.assumptions)) or "none"
    rows = [("gain", gain[:1].upper() + gain[1:]), ("length", length), ("conditions", conditions)]
    rows += [("checks", "; ".join(map(text, patch.checks)))] if patch.checks else []
    cells = (tag("div", tag("dt", name) + tag("dd", value)) for name, value in rows)
    return tag("dl", "".join(cells), class_="facts")


def side_by_side_table(patch: Patch) -> str:
    """Returns an HTML table of the changed lines with context, before and after in two columns."""
    before, after = _lines_before_and_after(patch)
    head = tag("tr", tag("th", "before", colspan=2, scope="col") + tag("th", "after", colspan=2, scope="col"))
    rows = []
    for old, new, changed in _diff_rows(patch, before, after):
        cells = _line_cells(before, old, "gone" if changed else "") + _line_cells(after, new, "new" if changed else "")
        rows.append(tag("tr", cells))
    columns = tag("colgroup", '<col class="numbers"><col>' * 2)
    inner = tag("table", columns + tag("thead", head) + tag("tbody", "".join(rows)), class_="sides")
    return tag("div", inner, class_="scroll")


def one_column_table(patch: Patch) -> str:
    """Returns an HTML table of the changed lines with context in one column, for narrow screens; removed lines come
    before added ones."""
    before, after = _lines_before_and_after(patch)
    rows: list[str] = []
    for changed, some in groupby(_diff_rows(patch, before, after), key=lambda row: row[2]):
        lines = list(some)
        if changed:
            rows += [_one_column_row("gone", "-", before[old]) for old, _, _ in lines if old is not None]
            rows += [_one_column_row("new", "+", after[new]) for _, new, _ in lines if new is not None]
        else:
            rows += [_one_column_row("", " ", after[new]) for _, new, _ in lines if new is not None]
    return tag("table", tag("tbody", "".join(rows)), class_="sides unified")


def _one_column_row(kind: str, sign: str, code: str) -> str:
    """Returns a table row with a line of code, for the one-column diff."""
    cells = tag("td", sign, class_=f"number {kind}".strip()) + tag(
        "td", tag("code", escape_html(code)), class_=kind or None
    )
    return tag("tr", cells)


def _lines_before_and_after(patch: Patch) -> tuple[list[str], list[str]]:
    """Returns the lines of the original and of the rewritten file, without line ends."""
    before, after = ([line.rstrip("\r\n") for line in split_lines(one)] for one in (patch.original, patch.rewritten))
    return before, after


def _line_cells(lines: Sequence[str], line: int | None, kind: str) -> str:
    """Returns the table cells with a line's number and code; empty cells for None."""
    if line is None:
        return tag("td", class_="none") * 2
    return tag("td", str(line + 1), class_=f"number {kind}".strip()) + tag(
        "td", tag("code", escape_html(lines[line])), class_=kind or None
    )


def _diff_rows(patch: Patch, before: Sequence[str], after: Sequence[str]) -> Iterator[Row]:
    """Yields the lines of a diff with context, each unchanged line next to its counterpart."""
    first = max(patch.lines[0] - 1 - CONTEXT, 0)
    behind = min(len(before) - patch.lines[1], CONTEXT)  # unchanged lines of context after the change
    old = range(first, patch.lines[1] + behind)
    new = range(first, len(after) - (len(before) - patch.lines[1]) + behind)
    matcher = SequenceMatcher(None, [before[n] for n in old], [after[n] for n in new], autojunk=False)
    for kind, one, two, other, another in matcher.get_opcodes():
        for left, right in zip_longest(old[one:two], new[other:another]):
            yield left, right, kind != "equal"


def _refusals_section(missed: Sequence[MissedOptimization]) -> str:
    """Returns the HTML section of the places that stay unchanged."""
    items = "".join(_refusal_item(one) for one in missed)
    intro = tag("p", "No other order could be proved to keep the results here.", class_="quiet")
    return tag(
        "section", tag("h2", "What stays where it is") + intro + tag("ol", items, class_="findings"), id="refused"
    )


def _refusal_item(one: MissedOptimization) -> str:
    """Returns the HTML of one place that stays unchanged, with the reason and the option that would allow more."""
    head = tag("h3", text(f"Line {one.line}") + (text(f", {one.function}") if one.function else ""))
    advice = (
        f"If it is known to be otherwise, say so: {tag('code', escape_html(one.assumption))}." if one.assumption else ""
    )
    action = tag("p", advice, class_="action") if advice else ""
    return tag(
        "li", head + tag("p", text(f"{one.reason[:1].upper()}{one.reason[1:]}.")) + action, class_="finding note"
    )
