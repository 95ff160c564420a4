"""Preprocessor directives and pragmas around and inside a statement: which of them allow that the statement moves."""

from __future__ import annotations

import re

from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.language import find_refused_pragma, may_move_loop
from nearfield.rewrite.frontend.text import line_number_of, split_lines

PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b(?:[^\n]*\\\n)*[^\n]*\n", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma\b)\w+", re.MULTILINE)


def check_directives_before(unit: TranslationUnit, start: int, statement: SyntaxNode, *, any_directive: bool) -> None:
    """Raises NotMovable if a pragma stands between the offset `start` and a statement but not directly above the
    statement. If `any_directive` is set, any preprocessor directive raises."""
    text = unit.text[start : _start_of_pragmas(unit, statement.offset)]
    if PRAGMA.search(text) or any_directive and _DIRECTIVE.search(text):
        raise NotMovable("a directive of the preprocessor stands in front of it", statement.line)


def check_directives_inside(unit: TranslationUnit, statement: SyntaxNode, end: int) -> None:
    """Raises NotMovable for preprocessor directives inside a statement, unless they are includes, complete
    conditionals that do not affect where the statement ends, or pragmas of loops that may move."""
    text = unit.text
    if pragma := find_refused_pragma(text[statement.offset : end]):
        raise NotMovable(f"the pragma in it is not known to allow it: {pragma}", statement.line)
    directives = [match[0].strip(" \t#") for match in _DIRECTIVE.finditer(text, statement.offset, end)]
    if not directives:
        return
    is_balanced = sum(one.startswith("if") for one in directives) == directives.count("endif")
    has_reliable_end = end in (statement.end, statement.end + 1)
    if (
        not is_balanced
        or not has_reliable_end
        or not all(one in ("if", "ifdef", "ifndef", "else", "elif", "endif", "include") for one in directives)
    ):
        line = line_number_of(text, _DIRECTIVE.search(text, statement.offset, end).start())  # type: ignore[union-attr]
        raise NotMovable("a directive of the preprocessor is in it", line)


def _start_of_pragmas(unit: TranslationUnit, start: int) -> int:
    """Returns the source offset of the first of the pragmas directly above a statement, or of the statement
    itself."""
    text = unit.text
    place = text.rfind("\n", 0, start) + 1
    while place > 0:
        above = text.rfind("\n", 0, place - 1) + 1
        if not re.match(r"[ \t]*#[ \t]*pragma\b", text[above:place]):
            break
        place = above
    preceding_text = text[place:start]
    return start - len(preceding_text.lstrip(" \t")) if "#" in preceding_text else start


def pragmas_above(unit: TranslationUnit, statement: SyntaxNode) -> tuple[int, tuple[str, ...]]:
    """Returns the source offset of the pragmas directly above a statement, and their lines. Raises NotMovable if a
    pragma is not known to allow that the statement moves."""
    pragma_offset = _start_of_pragmas(unit, statement.offset)
    pragma_text = unit.text[pragma_offset : statement.offset]
    lines = tuple(" ".join(line.split()) for line in split_lines(pragma_text) if line.strip())
    for line in lines:
        if not may_move_loop(line):
            raise NotMovable(f"the pragma in front of it is not known to allow it: {line}", statement.line)
    return pragma_offset, lines
