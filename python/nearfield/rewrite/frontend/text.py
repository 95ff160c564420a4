"""Finds the ends of statements, indents and lines in C and C++ text, where macros make libclang's source extents
unreliable."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SKIPPED = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|"
    r"(?<![\w.])\d(?:'?[\w.])*|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|[(){}\[\];]|#[^\n]*|.",
    re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
Line = tuple[str, int]  # a line of text, and its line number in the original file


def skip_blank(text: str, offset: int) -> int:
    """Returns the offset of the next character that is neither blank nor in a comment."""
    while match := _SKIPPED.match(text, offset):
        offset = match.end()
    return offset


def end_of_brackets(text: str, offset: int) -> int:
    """Returns the offset after the bracket that closes the bracket at `offset`. Raises ValueError if no bracket
    does."""
    depth = 0
    for match in _TOKEN.finditer(text, offset):
        if match[0] in _CLOSING:
            depth += 1
        elif match[0] in _CLOSING.values():
            depth -= 1
            if depth == 0:
                return match.end()
    raise ValueError("a bracket is not closed")


def statement_end(text: str, offset: int) -> int:
    """Returns the offset after the C statement that begins at `offset`. Raises ValueError if the statement does not
    end."""
    if text[offset] == "{":
        return end_of_brackets(text, offset)
    match = re.compile(r"[A-Za-z_]\w*").match(text, offset)
    word = match[0] if match else ""
    if match and word in ("for", "if", "while", "switch"):
        head = end_of_brackets(text, skip_blank(text, match.end()))
        end = statement_end(text, skip_blank(text, head))
        if word == "if":
            after = skip_blank(text, end)
            if re.compile(r"else\b").match(text, after):
                return statement_end(text, skip_blank(text, after + 4))
        return end
    if match and word == "try":
        end = statement_end(text, skip_blank(text, match.end()))
        while handler := re.compile(r"catch\b").match(text, skip_blank(text, end)):
            end = statement_end(text, skip_blank(text, end_of_brackets(text, skip_blank(text, handler.end()))))
        return end
    if match and word == "do":
        end = statement_end(text, skip_blank(text, match.end()))
        return text.index(";", end_of_brackets(text, text.index("(", end))) + 1
    place = offset
    while True:
        token = _TOKEN.match(text, place)
        if not token:
            raise ValueError("a statement does not end")
        if token[0] == ";":
            return token.end()
        place = end_of_brackets(text, place) if token[0] in _CLOSING else token.end()


def split_lines(text: str) -> list[str]:
    """Splits a text into lines that keep their line ends. As for compilers, `patch` and editors, only a newline ends a
    line, not a form feed or the other separators of `str.splitlines`."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def line_number_of(text: str, offset: int) -> int:
    """Returns the line number of an offset in a text, from 1."""
    return text.count("\n", 0, offset) + 1


def start_of_line(text: str, offset: int) -> int:
    """Returns the offset of the first character of the line that contains `offset`."""
    return text.rfind("\n", 0, offset) + 1


def indent_at(text: str, offset: int) -> str:
    """Returns the blanks at the start of the line that contains `offset`."""
    start = start_of_line(text, offset)
    match = re.compile(r"[ \t]*").match(text, start)
    return match[0] if match else ""


def indent_unit_of(text: str) -> str:
    """Returns the blanks by which the source file indents one level."""
    found = re.findall(r"\{[ \t]*\n([ \t]+)\S", text)
    if any(one.startswith("\t") for one in found):
        return "\t"
    widths = [len(one) for one in re.findall(r"^( +)\S", text, re.MULTILINE)]
    least = min((width for width in widths if width >= 2), default=4)
    return " " * (least if least in (2, 3, 4, 8) else 4)


def reindent(text: str, old: str, new: str) -> str:
    """Returns lines of code with the indent `new` in place of `old`. The first line has no indent before."""
    first, *rest = text.split("\n")
    moved = [new + line[len(old) :] if line.startswith(old) and not line.startswith("#") else line for line in rest]
    return "\n".join([new + first, *moved])


def has_same_tokens(one: str, other: str) -> bool:
    """Returns whether two pieces of C code differ only in blanks and comments."""
    return _tokens_of(one) == _tokens_of(other)


def _tokens_of(text: str) -> list[str]:
    """Returns the tokens of a C text without blanks and comments."""
    found = (match[0] for match in _TOKEN.finditer(text))
    return [token for token in found if not token.isspace() and not token.startswith(("//", "/*"))]


def identifiers_in(text: str) -> set[str]:
    """Returns the identifiers and keywords in a piece of C code."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def replace_names(text: str, names: dict[str, str]) -> str:
    """Returns a piece of C code with some identifiers replaced, except where they name members of structures."""
    made: list[str] = []
    before = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        is_number = match.start() > 0 and text[match.start() - 1].isalnum()
        is_member = before.endswith((".", "->"))
        made.append(names.get(token, token) if not is_number and not is_member else token)
        if not token.isspace() and not token.startswith(("//", "/*")):
            before = before[-1:] + token
    return "".join(made)


def extend_to_whole_lines(text: str, first: int, last: int) -> tuple[int, int]:
    """Returns a range of text extended to whole lines, if the rest of these lines is only a comment."""
    start, end = start_of_line(text, first), text.find("\n", last)
    alone = not text[start:first].strip() and re.fullmatch(r"[ \t]*(//[^\n]*|/\*[^\n]*\*/)?[ \t\r]*", text[last:end])
    return (start, end + 1) if alone and end >= 0 else (first, last)


def split_into_lines(pieces: Sequence[Line]) -> list[Line]:
    """Splits pieces of text into lines without their common indent and without blank lines at either end, each with the
    line of the file that it comes from."""
    made: list[Line] = [("", 0)]
    for text, source in pieces:
        for number, part in enumerate(text.split("\n")):
            before, line = made[-1] if number == 0 else ("", 0)
            new = (before + part, line if before.strip() else source + number)
            made = [*made[:-1], new] if number == 0 else [*made, new]
    full = [place for place, (text, _) in enumerate(made) if text.strip()]
    made = made[full[0] : full[-1] + 1] if full else [(";", pieces[0][1])]
    old = re.match(r"[ \t]*", made[0][0])[0]  # type: ignore[index]
    return [(text.removeprefix(old).rstrip(), source) for text, source in made]
