"""Code and prose have the field's words. The lint counts, by folder, what does not:

names      identifiers that contain a denied word, as parts of snake_case and CamelCase names, too
functions  functions that a participle or an adverb names; a verb phrase says what a function does
prose      denied words and verbless beginnings in comments, docstrings, help texts and pages

Counts of what was there before are in lint_words.toml. A count may only fall: `--update` writes the present counts, and
refuses to raise one.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import tomlkit

ROOT = Path(__file__).parents[1]
COUNTS = Path(__file__).with_suffix(".toml")
# Word -> what to say instead.
DENIED = {
    "told": "reported, text, message ...: what it is",
    "tell": "report, print, notify, flush, reply",
    "asked": "requested, queried; options, request",
    "ask": "query, probe, request, snoop",
    "its": "the name of the thing",
    "apart": "separate, independent, split",
    "elsewhere": "remote, other",
    "beside": "concurrent, extra",
    "meanwhile": "concurrent, during",
    "kept": "stored, cached, retained",
    "most": "max",
    "fewest": "min",
}
NOT_OURS = {"most_common"}  # names of the standard library
FUNCTIONS = r"found|chosen|given|made|shown|written|judged|broken|alike|together|usual|here|there"
PROSE = {
    "told": r"\btold\b",
    "asked": r"\basked\b",
    "so many": r"\bso many\b(?! that\b)",
    "of late": r"\bof late\b(?!-)",
    "as ever": r"\bas ever\b",
    "in vain": r"\bin vain\b",
    "a verbless beginning": r"\A(?:Whether\b(?!.*\bor\b)|Of (?:these|those|what|the ones)\b|What it\b|Those\b)",
}
NATIVE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NATIVE_COMMENT = re.compile(
    r'"(?:\\.|[^"\\\n])*"|((?:^[ \t]*//[^\n]*\n)+|//[^\n]*|/\*.*?\*/)', re.DOTALL | re.MULTILINE
)
NATIVE_FUNCTION = re.compile(
    rf"^(?!.*\b(?:return|co_return|co_await|new|throw|else)\b)[^\n=(]*[\w>&*]\s+[*&]?({FUNCTIONS})\([^\n;]*$",
    re.MULTILINE,
)
Finding = tuple[str, int, str]  # the name or word, its line, and what to write instead


def words_of(name: str) -> list[str]:
    """Returns the parts of a name: 'tell_clocks' and 'TellClocks' as 'tell' and 'clocks'."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")


@lru_cache(1)
def nodes_of(text: str) -> list[ast.AST]:
    """Returns all nodes of a Python file. The checks look at one file after the other, so one is stored."""
    return list(ast.walk(ast.parse(text)))


def names_in(file: Path, text: str) -> Iterator[tuple[str, int]]:
    """Yields the identifiers of a file with their lines."""
    if file.suffix == ".py":
        for node in nodes_of(text):  # the tokens of an f-string depend on the version of Python
            for field in ("id", "attr", "arg", "name", "asname"):
                if isinstance(name := getattr(node, field, None), str):
                    yield name, getattr(node, "lineno", 0)
    else:
        code = NATIVE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, line in enumerate(code.splitlines(), 1):
            yield from ((name, number) for name in re.findall(r"[A-Za-z_]\w*", line))


def denied_names(file: Path, text: str) -> Iterator[Finding]:
    """Yields the names that contain a denied word."""
    for name, line in names_in(file, text):
        if denied := [word for word in words_of(name) if word in DENIED and name not in NOT_OURS]:
            yield name, line, DENIED[denied[0]]


def denied_functions(file: Path, text: str) -> Iterator[Finding]:
    """Yields the definitions of functions whose whole name is one of FUNCTIONS."""
    advice = "a verb phrase"
    if file.suffix == ".py":
        for node in nodes_of(text):
            if isinstance(node, ast.FunctionDef) and re.fullmatch(FUNCTIONS, node.name.strip("_")):
                yield node.name, node.lineno, advice
    else:
        code = NATIVE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for match in NATIVE_FUNCTION.finditer(code):
            yield match[1], code.count("\n", 0, match.start()) + 1, advice


def prose_in(file: Path, text: str) -> Iterator[tuple[str, int]]:
    """Yields the comments, docstrings, help texts and paragraphs of a file with the lines where they begin."""
    if file.suffix == ".md":
        plain = re.sub(r"^```.*?^```|`[^`\n]*`", lambda match: "\n" * match[0].count("\n"), text, flags=re.S | re.M)
        yield from ((match[0], text.count("\n", 0, match.start()) + 1) for match in re.finditer(r"(?:.+\n?)+", plain))
    elif file.suffix == ".py":
        yield from python_comments(text)
        for node in nodes_of(text):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
                yield said, node.body[0].lineno
            elif isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
                yield str(node.value.value), node.value.lineno
    else:
        for match in filter(lambda match: match[1], NATIVE_COMMENT.finditer(text)):
            yield re.sub(r"^[ \t]*(?://+|/?\*+/?)", "", match[1], flags=re.M), text.count("\n", 0, match.start()) + 1


def python_comments(text: str) -> Iterator[tuple[str, int]]:
    """Yields the comments of a Python file; those of successive lines are one."""
    comment, begin, last = "", 0, -2
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield comment, begin
                comment, begin = "", token.start[0]
            comment, last = f"{comment} {token.string.lstrip('# ')}", token.start[0]
    yield comment, begin


def denied_prose(file: Path, text: str) -> Iterator[Finding]:
    """Yields what a pattern of PROSE matches, with the words around it."""
    for said, line in prose_in(file, text):
        plain = " ".join(said.split())
        for name, pattern in PROSE.items():
            for match in re.finditer(pattern, plain):
                around = plain[max(0, match.start() - 40) : match.end() + 40]
                yield name, line, f"a whole sentence in the field's words: '{around}'"


CHECKS = {"names": denied_names, "functions": denied_functions, "prose": denied_prose}


def files() -> Iterator[Path]:
    """Yields the source files and pages of the project."""
    for folder in ("src", "include", "python", "tests", "bench", "examples", "docs"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".cpp", ".hpp", ".c", ".h", ".md"):
                yield file
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


def folder_of(file: Path) -> str:
    """Returns the folder by which a file is counted, of at most four parts; for a file of the root, its name."""
    return "/".join(file.relative_to(ROOT).parts[:-1][:4]) or file.name


def count_findings(show: str | None) -> dict[str, Counter[str]]:
    """Returns what each check counts in each folder, and prints the findings in the folder `show`."""
    counts: dict[str, Counter[str]] = {check: Counter() for check in CHECKS}
    for file in files():
        text = file.read_text(encoding="utf-8")
        for check, find in CHECKS.items():
            if file.suffix == ".md" and check != "prose":
                continue
            for name, line, advice in find(file, text):
                counts[check][folder_of(file)] += 1
                if show and folder_of(file).startswith(show):
                    print(f"{file.relative_to(ROOT)}:{line}: {check}: {name}: {advice}")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the present counts")
    parser.add_argument("--show", metavar="FOLDER", help="list the findings in this folder")
    options = parser.parse_args()
    counts = count_findings(options.show)
    allowed = tomlkit.parse(COUNTS.read_text()).unwrap()
    worse = [
        f"{folder}: {count} {check}, {allowed[check].get(folder, 0)} before (--show {folder})"
        for check, found in counts.items()
        for folder, count in found.items()
        if count > allowed[check].get(folder, 0)
    ]
    if worse:
        print("\n".join(worse))
        return 1
    if options.update:
        COUNTS.write_text(tomlkit.dumps({check: dict(sorted(found.items())) for check, found in counts.items()}))
    for check, found in counts.items():
        print(f"{sum(found.values())} denied {check} are left, at most {sum(allowed[check].values())} are allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
