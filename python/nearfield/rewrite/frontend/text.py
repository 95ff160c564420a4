"""Finds the ends of statements, indents and lines in C and C++ text, where macros make libclang's source extents
unreliable."""

from __future__ import annotations

import re
from collections.abc import Sequence

_BLANK_OR_COMMENT = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|"
    r"(?<![\w.])\d(?:'?[\w.])*|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|[(){}\[\];]|#[^\n]*|.",
    re.DOTALL,
)
_CLOSING_BRACKET = {"(": ")", "[": "]", "{": "}"}
NumberedLine = tuple[str, int]  # a line of text, and its line number in the original file


def skip_blank(text: str, offset: int) -> int:
    """Returns the offset of the next character that is neither blank nor in a comment."""
    while match := _BLANK_OR_COMMENT.match(text, offset):
        offset = match.end()
    return offset


def end_of_bracketed_text(text: str, offset: int) -> int:
    """Returns the offset after the bracket that closes the bracket at `offset`. Raises ValueError if no bracket
    does."""
    depth = 0
    for match in _TOKEN.finditer(text, offset):
        if match[0] in _CLOSING_BRACKET:
            depth += 1
        elif match[0] in _CLOSING_BRACKET.values():
            depth -= 1
            if depth == 0:
                return match.end()
    raise ValueError("a bracket is not closed")


def statement_end(text: str, offset: int) -> int:
    """Returns the offset after the C statement that begins at `offset`. Raises ValueError if the statement does not
    end."""
    if text[offset] == "{":
        return end_of_bracketed_text(text, offset)
    match = re.compile(r"[A-Za-z_]\w*").match(text, offset)
    word = match[0] if match else ""
    if match and word in ("for", "if", "while", "switch"):
        head = end_of_bracketed_text(text, skip_blank(text, match.end()))
        end = statement_end(text, skip_blank(text, head))
        if word == "if":
            after = skip_blank(text, end)
            if re.compile(r"else\b").match(text, after):
                return statement_end(text, skip_blank(text, after + 4))
        return end
    if match and word == "try":
        end = statement_end(text, skip_blank(text, match.end()))
        while handler := re.compile(r"catch\b").match(text, skip_blank(text, end)):
            end = statement_end(text, skip_blank(text, end_of_bracketed_text(text, skip_blank(text, handler.end()))))
        return end
    if match and word == "do":
        end = statement_end(text, skip_blank(text, match.end()))
        return text.index(";", end_of_bracketed_text(text, text.index("(", end))) + 1
    position = offset
    while True:
        token = _TOKEN.match(text, position)
        if not token:
            raise ValueError("a statement does not end")
        if token[0] == ";":
            return token.end()
        position = end_of_bracketed_text(text, position) if token[0] in _CLOSING_BRACKET else token.end()


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
    indents = re.findall(r"\{[ \t]*\n([ \t]+)\S", text)
    if any(one.startswith("\t") for one in indents):
        return "\t"
    widths = [len(one) for one in re.findall(r"^( +)\S", text, re.MULTILINE)]
    smallest_width = min((width for width in widths if width >= 2), default=4)
    return " " * (smallest_width if smallest_width in (2, 3, 4, 8) else 4)


def reindent(text: str, old_indent: str, new_indent: str) -> str:
    """Returns lines of code with the indent `new_indent` in place of `old_indent`. The first line of `text` has no
    indent."""
    first, *following_lines = text.split("\n")
    reindented = [
        new_indent + line[len(old_indent) :] if line.startswith(old_indent) and not line.startswith("#") else line
        for line in following_lines
    ]
    return "\n".join([new_indent + first, *reindented])


def has_same_tokens(first_code: str, second_code: str) -> bool:
    """Returns whether two pieces of C code differ only in blanks and comments."""
    return _tokens_of(first_code) == _tokens_of(second_code)


def _tokens_of(text: str) -> list[str]:
    """Returns the tokens of a C text without blanks and comments."""
    tokens = (match[0] for match in _TOKEN.finditer(text))
    return [token for token in tokens if not token.isspace() and not token.startswith(("//", "/*"))]


def identifiers_in(text: str) -> set[str]:
    """Returns the identifiers and keywords in a piece of C code."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def replace_identifiers(text: str, replacement_by_name: dict[str, str]) -> str:
    """Returns a piece of C code with some identifiers replaced, except where they name members of structures."""
    pieces: list[str] = []
    preceding_token = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        is_number = match.start() > 0 and text[match.start() - 1].isalnum()
        is_member = preceding_token.endswith((".", "->"))
        pieces.append(replacement_by_name.get(token, token) if not is_number and not is_member else token)
        if not token.isspace() and not token.startswith(("//", "/*")):
            preceding_token = preceding_token[-1:] + token
    return "".join(pieces)


def extend_to_whole_lines(text: str, start_offset: int, end_offset: int) -> tuple[int, int]:
    """Returns a range of text extended to whole lines, if the rest of these lines is only a comment."""
    start, end = start_of_line(text, start_offset), text.find("\n", end_offset)
    is_alone = not text[start:start_offset].strip() and re.fullmatch(
        r"[ \t]*(//[^\n]*|/\*[^\n]*\*/)?[ \t\r]*", text[end_offset:end]
    )
    return (start, end + 1) if is_alone and end >= 0 else (start_offset, end_offset)


def split_into_lines(pieces: Sequence[NumberedLine]) -> list[NumberedLine]:
    """Splits pieces of text into lines without their common indent and without blank lines at either end, each with the
    line of the file that it comes from."""
    lines: list[NumberedLine] = [("", 0)]
    for text, source in pieces:
        for number, part in enumerate(text.split("\n")):
            before, line = lines[-1] if number == 0 else ("", 0)
            new = (before + part, line if before.strip() else source + number)
            lines = [*lines[:-1], new] if number == 0 else [*lines, new]
    full = [place for place, (text, _) in enumerate(lines) if text.strip()]
    lines = lines[full[0] : full[-1] + 1] if full else [(";", pieces[0][1])]
    old = re.match(r"[ \t]*", lines[0][0])[0]  # type: ignore[index]
    return [(text.removeprefix(old).rstrip(), source) for text, source in lines]
