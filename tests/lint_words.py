"""Identifiers have the field's words: fails if a name contains a word of the deny-list.

Words that code had before this list are counted by folder in lint_words.toml. A count may only fall: `--update` writes
the counts of now, and refuses to raise one.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tomlkit

ROOT = Path(__file__).parents[1]
COUNTS = Path(__file__).with_suffix(".toml")
# Word -> what to say instead. Words count as parts of snake_case and CamelCase names, too.
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
NATIVE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def words_of(name: str) -> list[str]:
    """Returns the parts of a name: 'tell_clocks' and 'TellClocks' as 'tell' and 'clocks'."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")


def names_in(file: Path) -> Iterator[tuple[str, int]]:
    """Yields the identifiers of a file with their lines."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(text)):  # the tokens of an f-string depend on the version of Python
            for field in ("id", "attr", "arg", "name", "asname"):
                if isinstance(name := getattr(node, field, None), str):
                    yield name, getattr(node, "lineno", 0)
    else:
        code = NATIVE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, line in enumerate(code.splitlines(), 1):
            yield from ((name, number) for name in re.findall(r"[A-Za-z_]\w*", line))


def files() -> Iterator[Path]:
    """Yields the source files of the project."""
    for folder in ("src", "include", "python", "tests", "bench", "examples"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".cpp", ".hpp", ".c", ".h"):
                yield file


def folder_of(file: Path) -> str:
    return "/".join(file.relative_to(ROOT).parts[:-1][:4])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the counts of now")
    parser.add_argument("--show", metavar="FOLDER", help="list the names in this folder")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for file in files():
        for name, line in names_in(file):
            if denied := [word for word in words_of(name) if word in DENIED]:
                found[folder_of(file)] += 1
                if options.show and folder_of(file).startswith(options.show):
                    print(f"{file.relative_to(ROOT)}:{line}: {name}: {DENIED[denied[0]]}")
    allowed = tomlkit.parse(COUNTS.read_text()).unwrap()
    worse = [f"{one}: {found[one]} denied names, {allowed.get(one, 0)} before (--show {one})"
             for one in found if found[one] > allowed.get(one, 0)]  # fmt: skip
    if worse:
        print("\n".join(worse))
        return 1
    if options.update:
        COUNTS.write_text(tomlkit.dumps(dict(sorted((one, count) for one, count in found.items() if count))))
    print(f"{sum(found.values())} denied names are left, at most {sum(allowed.values())} are allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
