"""The halo library's interfaces as pages, made from its headers and its Fortran module.

The sources are read as they are laid out: a comment before a declaration describes it, and declarations without an
empty line between them belong together. Bodies of functions and private members are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
C_HEADER = ROOT / "include/nearfield/halo.h"
CPP_HEADER = ROOT / "include/nearfield/halo.hpp"
FORTRAN = ROOT / "src/halo/fortran/nearfield_halo.f90"
_SEE = "The [tutorial](../tutorials/halo.md) shows whole programs; [the choices](halo.md) are on a page of their own.\n"


def c_page() -> str:
    """Returns the page about halo.h."""
    text = C_HEADER.read_text(encoding="utf-8")
    top, rest = text[2:].split("*/", 1)
    lines = ["# Halo library: C", "", "`#include <nearfield/halo.h>`", "", _prose(top, " *"), "", _SEE]
    body = rest.partition('extern "C" {\n#endif\n')[2].rpartition("#ifdef __cplusplus")[0]
    body = re.sub(r"#if defined\(__GNUC__\).*?#endif\n", "", body, flags=re.DOTALL).replace("NF_API ", "")
    for block in body.strip().split("\n\n"):
        for comment, code in _described(block):
            lines += [*_heading(_c_names(code)), comment, "", "```c", code, "```", ""]
    return "\n".join(lines)


def cpp_page() -> str:
    """Returns the page about halo.hpp."""
    top, _, rest = CPP_HEADER.read_text(encoding="utf-8").partition("#pragma once")
    lines = ["# Halo library: C++", "", "`#include <nearfield/halo.hpp>`", "", _cpp_prose(top), "", _SEE]
    for said, code in _top_level(rest):
        found = re.findall(r"^(?:class|struct|using|#define) (\w+)(?!\w|;)|^\w+ (\w+)\(", code, re.MULTILINE)
        names = list(dict.fromkeys(one or other for one, other in found))
        if names:
            shown = "\n".join(_synopsis(code.splitlines())).replace("\n\n};", "\n};")
            lines += [*_heading(names), said, "", "```cpp", shown, "```", ""]
    return "\n".join(lines)


def fortran_page() -> str:
    """Returns the page about the module nearfield_halo."""
    text = FORTRAN.read_text(encoding="utf-8")
    top, _, rest = text.partition("module nearfield_halo\n")
    lines = ["# Halo library: Fortran", "", "`use nearfield_halo`", "", _commented(top, "!", "fortran"), "", _SEE]
    constants = re.search(r"  ! Types of fields.*?\n\n", rest, re.DOTALL)
    if constants:
        lines += ["## Constants", "", "```fortran", _dedented(constants[0]), "```", ""]
    for name in ("grid", "field"):
        kind = re.search(rf"  type :: {name}\n.*?  end type {name}\n", rest, re.DOTALL)
        assert kind, f"{FORTRAN} has no type {name}"
        shown = "\n".join(line for line in kind[0].splitlines() if "private" not in line and "cells_" not in line)
        lines += [f"## `type({name})`", "", "```fortran", _dedented(shown), "```", ""]
        bound = dict(re.findall(r"procedure :: (\w+) => (\w+)", kind[0]))
        for called, procedure in bound.items():
            comment, signature = _fortran_procedure(rest, procedure)
            lines += [f"### `{name}%{called}`", "", comment, "", "```fortran", signature, "```", ""]
        generic = re.search(r"!> (.*)\n    generic :: (\w+) =>", kind[0])
        if generic:
            lines += [f"### `{name}%{generic[2]}`", "", generic[1], "", "```fortran", _CELLS, "```", ""]
    return "\n".join(lines)


_CELLS = """call u%cells(p)   ! p: a pointer of the field's type and the grid's dimensions"""


# ---- C


def _described(block: str) -> Iterator[tuple[str, str]]:
    """Yields the comments of a block with the declarations that follow each."""
    for comment, code in re.findall(r"((?:^/\*(?:.|\n)*?\*/\n)?)((?:^(?!/\*).*\n?)+)", block + "\n", re.MULTILINE):
        if code.strip():
            yield _prose(comment.strip()[2:-2], " *"), code.strip()


def _c_names(code: str) -> list[str]:
    if code.startswith("enum"):
        constants = re.findall(r"\bNF_\w+(?= =)", code)
        return [f"{constants[0]}` to `{constants[-1]}"]
    functions = re.findall(r"\b(nf_\w+)\(", re.sub(r"\{.*", "", code, flags=re.DOTALL))
    types = re.findall(r"^\} (nf_\w+);|^typedef (?:enum|struct).*?(\w+);$", code, re.MULTILINE)
    return list(dict.fromkeys([*functions, *(one or other for one, other in types)]))


def _heading(names: list[str]) -> list[str]:
    return [f"## {', '.join(f'`{name}`' for name in names)}", ""] if names else []


# ---- C++


def _top_level(text: str) -> Iterator[tuple[str, str]]:
    """Yields what the header defines for its users: what `///` says of it, and its text."""
    own = re.sub(r"(?s)namespace halo_detail \{\n.*?\n\}  // namespace halo_detail\n", "", text)
    for block in re.split(r"\n\n(?=\S)", own):
        lines = block.strip().splitlines()
        said = [_plain(line.removeprefix("///").strip()) for line in lines if line.startswith("///")]
        code = [line for line in lines if not line.startswith("///")]
        if code and not code[-1].endswith(">::view() const {"):
            yield " ".join(said), "\n".join(code)


def _synopsis(lines: list[str]) -> Iterator[str]:
    """Yields the lines of a class or a function without what is private, without bodies and without `#else`."""
    public = not lines[0].startswith("class") and not (len(lines) > 1 and lines[1].startswith("class"))
    statement: list[str] = []
    end = ""  # of the body that is being left out
    for line in lines:
        if end:
            end = "" if line == end else end
        elif line.strip() in ("public:", "private:"):
            public = line.strip() == "public:"
        elif re.match(r"(class|struct|template|using|\};|#define)", line):
            yield line
            if line.startswith("#define"):
                return
        elif public and (not line.strip() or line.lstrip().startswith("///")):
            yield line
        elif public:
            statement.append(line)
            if re.search(r"[;{}]\s*(///.*)?$", line) and not line.endswith("each{{"):
                indent = re.match(" *", statement[0])
                whole, statement = "\n".join(statement), []
                end = f"{indent[0]}}}" if indent and line.endswith("{") and ")" in whole else ""
                yield _without_body(whole)


def _without_body(statement: str) -> str:
    """Returns a member or a function as it is declared; values that members begin with stay."""
    code, mark, comment = statement.partition("  ///")
    head = re.match(r"(?:template <[^;]*?>\s*)?[^{;]*?\)(?:[^{;:]|::)*?(?=\s*:?\s*[\w{(]*\{|\s:\s)", code)
    if head is None or "(" not in code.partition("{")[0] or "static_assert" in code:
        return "" if "static_assert" in code else statement
    return f"{head[0].rstrip()};{mark}{comment}"


def _cpp_prose(top: str) -> str:
    return _commented(top.partition("#if")[0], "//", "cpp")


# ---- Fortran


def _fortran_procedure(text: str, name: str) -> tuple[str, str]:
    """Returns what is said of a procedure, and its first line with the declarations of its arguments."""
    match = re.search(
        r"(?P<said>(?:^  !> ?.*\n(?:^  !> ?.*\n)*)?)"
        rf"^  (?P<head>[\w() ]*(?:subroutine|function) {name}\((?:.*&\n)*.*\n)"
        r"(?P<rest>(?:^    .*\n)+)",
        text,
        re.MULTILINE,
    )
    assert match, f"{FORTRAN} has no {name}"
    said = " ".join(line.strip().removeprefix("!>").strip() for line in match["said"].splitlines())
    arguments = [line for line in match["rest"].splitlines() if "intent(" in line and "self" not in line]
    return said, _dedented("\n".join([f"  {match['head'].rstrip()}", *arguments]))


def _dedented(text: str) -> str:
    return "\n".join(line[2:] if line.startswith("  ") else line for line in text.rstrip().splitlines())


# ---- comments


def _plain(text: str) -> str:
    """Returns prose whose angle and square brackets stand for themselves."""
    return text.replace("<", "&lt;").replace("[", "\\[")


def _prose(comment: str, mark: str) -> str:
    """Returns the text of a block comment: paragraphs, and lists of words that are indented."""
    return _paragraphs([line.removeprefix(mark).removeprefix(" ") for line in comment.strip().splitlines()], "c")


def _commented(text: str, mark: str, language: str) -> str:
    lines = [line.removeprefix(mark).removeprefix(" ") for line in text.strip().splitlines()]
    return _paragraphs(lines, language)


def _paragraphs(lines: list[str], language: str) -> str:
    """Returns prose as paragraphs; runs of indented lines become blocks of code."""
    out: list[str] = []
    code = False
    for line in lines:
        indented = line.startswith("  ")
        if indented != code and line.strip():
            kind = language if re.search(r"::|;$|%", line) else "text"
            out += ["", f"```{kind}"] if indented else ["```", ""]
            code = indented
        out.append(line[2:] if indented else line if code else _plain(line.rstrip()))
    return "\n".join([*out, "```"] if code else out).replace("\n\n```\n", "\n```\n").strip()
