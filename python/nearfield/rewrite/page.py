"""Renders the rewrites of one source file as an HTML page: the code of each place before and after, with the reason,
the assumptions and the results of the checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from nearfield.base.units import counted
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.frontend.text import split_lines
from nearfield.rewrite.notes import PROOF_DESCRIPTION
from nearfield.rewrite.patch import CONTEXT, LONG_FACTOR, Analysis, Patch
from nearfield.ui.html import escape_html, folded_html, framed_page, read_asset, tag, text

DiffRow = tuple[int | None, int | None, bool]  # line indices before and after, and whether the lines differ


def render_page(analysis: Analysis, command: str) -> str:
    """Returns the HTML page with all patches and refusals for a source file, which is self-contained. `command` is the
    command line that produced it."""
    patches_by_place = [
        list(patches_of_place)
        for _, patches_of_place in groupby(analysis.patches, key=lambda patch: patch.changed_lines)
    ]
    parts = [_place_html(number, patches_of_place) for number, patches_of_place in enumerate(patches_by_place, 1)]
    links = [
        (f"place-{number}", f"Line {patches_of_place[0].changed_lines[0]}")
        for number, patches_of_place in enumerate(patches_by_place, 1)
    ]
    if analysis.missed:
        parts.append(_refusals_html(analysis.missed))
        links.append(("refused", "Stays"))
    return framed_page(
        title=f"nearfield: {analysis.path.name}, rewritten",
        verb="rewrite",
        headline=_headline_html(analysis, len(patches_by_place), command),
        links=links,
        main="".join(parts) or tag("p", "No function has both messages and loops in one block.", class_="quiet"),
        style=read_asset("page.css", "nearfield.rewrite"),
    )


def _headline_html(analysis: Analysis, num_places: int, command: str) -> str:
    """Returns the HTML head of the page: the number of places, of legal orders and of refusals."""
    title = f"{analysis.path.name}: communication stays where it is"
    if num_places:
        title = f"{analysis.path.name}: {counted(num_places, 'place')} where communication can move to suit the caches"
    facts = [
        f"{counted(len(analysis.patches), 'legal order')}",
        *([counted(len(analysis.missed), "refusal")] if analysis.missed else []),
        tag("code", escape_html(command)),
    ]
    head = tag("h1", text(title)) + tag("p", " &ensp;|&ensp; ".join(facts), class_="facts-line")
    return head + (
        tag("p", text(f"Of each of them it holds that {PROOF_DESCRIPTION}."), class_="quiet") if num_places else ""
    )


def _place_html(place_number: int, patches: Sequence[Patch]) -> str:
    """Returns the HTML section of one place in the source: its best patch, and the other patches folded."""
    first, last = patches[0].changed_lines
    place_title = f"Lines {first} to {last} of {patches[0].function}"
    other_patches = "".join(
        folded_html(f"Also legal here: {patch.transformation}", _patch_html(patch)) for patch in patches[1:]
    )
    best_patch = tag("h3", text(patches[0].transformation)) + _patch_html(patches[0])
    return tag("section", tag("h2", text(place_title)) + best_patch + other_patches, id=f"place-{place_number}")


def _patch_html(patch: Patch) -> str:
    """Returns the HTML of one patch: the reason, the facts and the code before and after."""
    reason = tag("p", text(f"{patch.reason[:1].upper()}{patch.reason[1:]}."), class_="reason")
    wide_table = tag("div", side_by_side_table_html(patch), class_="both") + tag(
        "div", one_column_table_html(patch), class_="one"
    )
    return reason + _facts_html(patch) + wide_table


def _facts_html(patch: Patch) -> str:
    """Returns the HTML list above a patch: gain, length, assumptions and results of the checks."""
    gain, length = text(patch.expected_gain), text(patch.size_text)
    if patch.is_long:
        length = tag("b", text(f"more than {LONG_FACTOR} times as long as before: ")) + length
    conditions = "; ".join(map(text, patch.assumptions)) or "none"
    rows = [("gain", gain[:1].upper() + gain[1:]), ("length", length), ("conditions", conditions)]
    rows += [("checks", "; ".join(map(text, patch.checks)))] if patch.checks else []
    entries = (tag("div", tag("dt", name) + tag("dd", value)) for name, value in rows)
    return tag("dl", "".join(entries), class_="facts")


def side_by_side_table_html(patch: Patch) -> str:
    """Returns an HTML table of the changed lines with context, before and after in two columns."""
    original_lines, rewritten_lines = _lines_before_and_after(patch)
    head = tag("tr", tag("th", "before", colspan=2, scope="col") + tag("th", "after", colspan=2, scope="col"))
    rows = []
    for old, new, changed in _diff_rows(patch, original_lines, rewritten_lines):
        cells = _line_cells_html(original_lines, old, "gone" if changed else "") + _line_cells_html(
            rewritten_lines, new, "new" if changed else ""
        )
        rows.append(tag("tr", cells))
    columns = tag("colgroup", '<col class="numbers"><col>' * 2)
    inner = tag("table", columns + tag("thead", head) + tag("tbody", "".join(rows)), class_="sides")
    return tag("div", inner, class_="scroll")


def one_column_table_html(patch: Patch) -> str:
    """Returns an HTML table of the changed lines with context in one column, for narrow screens; removed lines come
    before added ones."""
    original_lines, rewritten_lines = _lines_before_and_after(patch)
    rows: list[str] = []
    for changed, row_group in groupby(_diff_rows(patch, original_lines, rewritten_lines), key=lambda row: row[2]):
        lines = list(row_group)
        if changed:
            rows += [_one_column_row_html("gone", "-", original_lines[old]) for old, _, _ in lines if old is not None]
            rows += [_one_column_row_html("new", "+", rewritten_lines[new]) for _, new, _ in lines if new is not None]
        else:
            rows += [_one_column_row_html("", " ", rewritten_lines[new]) for _, new, _ in lines if new is not None]
    return tag("table", tag("tbody", "".join(rows)), class_="sides unified")


def _one_column_row_html(css_class: str, sign: str, code: str) -> str:
    """Returns a table row with a line of code, for the one-column diff."""
    cells = tag("td", sign, class_=f"number {css_class}".strip()) + tag(
        "td", tag("code", escape_html(code)), class_=css_class or None
    )
    return tag("tr", cells)


def _lines_before_and_after(patch: Patch) -> tuple[list[str], list[str]]:
    """Returns the lines of the original and of the rewritten file, without line ends."""
    before, after = ([line.rstrip("\r\n") for line in split_lines(one)] for one in (patch.original, patch.rewritten))
    return before, after


def _line_cells_html(lines: Sequence[str], line_index: int | None, css_class: str) -> str:
    """Returns the table cells with a line's number and code; empty cells for None."""
    if line_index is None:
        return tag("td", class_="none") * 2
    return tag("td", str(line_index + 1), class_=f"number {css_class}".strip()) + tag(
        "td", tag("code", escape_html(lines[line_index])), class_=css_class or None
    )


def _diff_rows(patch: Patch, original_lines: Sequence[str], rewritten_lines: Sequence[str]) -> Iterator[DiffRow]:
    """Yields the lines of a diff with context, each unchanged line next to its counterpart."""
    first = max(patch.changed_lines[0] - 1 - CONTEXT, 0)
    num_lines_after = min(
        len(original_lines) - patch.changed_lines[1], CONTEXT
    )  # unchanged lines of context after the change
    old_range = range(first, patch.changed_lines[1] + num_lines_after)
    new_range = range(first, len(rewritten_lines) - (len(original_lines) - patch.changed_lines[1]) + num_lines_after)
    matcher = SequenceMatcher(
        None, [original_lines[n] for n in old_range], [rewritten_lines[n] for n in new_range], autojunk=False
    )
    for operation, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        for old_line, new_line in zip_longest(old_range[old_start:old_end], new_range[new_start:new_end]):
            yield old_line, new_line, operation != "equal"


def _refusals_html(missed: Sequence[MissedOptimization]) -> str:
    """Returns the HTML section of the places that stay unchanged."""
    items = "".join(_refusal_html(one) for one in missed)
    intro = tag("p", "No other order could be proved to keep the results here.", class_="quiet")
    return tag(
        "section", tag("h2", "What stays where it is") + intro + tag("ol", items, class_="findings"), id="refused"
    )


def _refusal_html(refusal: MissedOptimization) -> str:
    """Returns the HTML of one place that stays unchanged, with the reason and the option that would allow more."""
    head = tag("h3", text(f"Line {refusal.line}") + (text(f", {refusal.function}") if refusal.function else ""))
    advice = (
        f"If you know that this does not happen, use: {tag('code', escape_html(refusal.assumption))}."
        if refusal.assumption
        else ""
    )
    action = tag("p", advice, class_="action") if advice else ""
    return tag(
        "li",
        head + tag("p", text(f"{refusal.reason[:1].upper()}{refusal.reason[1:]}.")) + action,
        class_="finding note",
    )
