"""The pages of the site that are made from the sources, and the manual pages: neither is committed.

python docs/generate_reference.py [FOLDER]    writes the manual pages, into build/man if no folder is named

MkDocs calls `on_files` (mkdocs.yml names this file as a hook), which adds the generated pages to those of docs/. The
commands come from the definitions of the command line, so that pages and --help cannot disagree.
"""

from __future__ import annotations

import html
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import halo_reference
import typer

import nearfield
from nearfield.cli.help import help_tables
from nearfield.cli.verbs import app

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
GENERATED = (
    "reference/commands.md",
    "reference/halo-c.md",
    "reference/halo-cpp.md",
    "reference/halo-fortran.md",
)
Row = tuple[str, str]
_COMMANDS = f"""This is what `nearfield COMMAND --help` prints in version {nearfield.__version__}. Lists take `--json`.
[Exit codes](exit-codes.md) and [environment variables](environment.md) have pages of their own. `make docs` also writes
manual pages: `man -l build/man/nearfield-tune.1`."""


@dataclass(frozen=True)
class Page:
    """What the help of one command says, in pieces. Paragraphs that begin with a blank are examples."""

    name: str
    usage: str
    paragraphs: list[str]
    tables: dict[str, list[Row]]
    epilog: str

    @property
    def summary(self) -> str:
        """Returns the first paragraph, in one line."""
        return " ".join(self.paragraphs[0].split())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to the files of the site."""
    from mkdocs.structure.files import File

    for name, text in site_pages().items():
        files.append(File.generated(config, name, content=_linked(text)))
    return files


def site_pages() -> dict[str, str]:
    """Returns the generated pages of the site: their paths below docs/, and their texts."""
    commands = "".join(_section(page) for page in command_pages())
    made = [
        f"# Commands\n\n{_COMMANDS}\n\n{commands}",
        halo_reference.c_page(),
        halo_reference.cpp_page(),
        halo_reference.fortran_page(),
    ]
    return dict(zip(GENERATED, made, strict=True))


def _linked(text: str) -> str:
    """Returns a page below reference/ with links where it names other pages by their paths, as sources do."""

    def link(match: re.Match[str]) -> str:
        exists = (ROOT / "docs" / match[1]).is_file() or match[1] in GENERATED
        return f"[{match[0]}](../{match[1]})" if exists else match[0]

    return re.sub(r"\bdocs/([\w/-]+\.md)", link, text)


def manual_pages() -> dict[str, str]:
    """Returns the manual pages: names of files, and texts in the man macros of troff."""
    pages = list(command_pages())
    others = [page.name.replace(" ", "-") for page in pages]
    return {f"{page.name.replace(' ', '-')}.1": _manual(page, others) for page in pages}


# ---- reading the definitions


def command_pages() -> Iterator[Page]:
    """Yields a page for nearfield itself, for every verb and for the commands of verbs, in the order of the help."""
    top = typer.main.get_command(app)
    context = top.make_context("nearfield", [], resilient_parsing=True)
    yield _page(top, context)
    for name in top.list_commands(context):  # type: ignore[attr-defined]
        _, verb, _ = top.resolve_command(context, [name])  # type: ignore[attr-defined]
        own = verb.make_context(name, [], parent=context, resilient_parsing=True)
        yield _page(verb, own)
        for inner in getattr(verb, "commands", {}):
            sub = verb.get_command(own, inner)
            yield _page(sub, sub.make_context(inner, [], parent=own, resilient_parsing=True))
        for inner in getattr(verb, "further", {}):
            typed, sub, _ = top.resolve_command(context, [name, inner])  # type: ignore[attr-defined]
            yield _page(sub, sub.make_context(typed, [], parent=context, resilient_parsing=True))


def _page(command: Any, context: Any) -> Page:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    paragraphs = [part.rstrip() for part in inspect.cleandoc(command.help or "").split("\n\n")]
    tables = dict(help_tables(command, context))
    return Page(context.command_path, usage, paragraphs, tables, " ".join((command.epilog or "").split()))


# ---- the page of the site


def _section(page: Page) -> str:
    lines = [f"{'##' if page.name.count(' ') < 2 else '###'} {page.name}", "", "```text", page.usage, "```", ""]
    examples: list[str] = []
    for paragraph in [*page.paragraphs, page.epilog]:
        if paragraph.startswith("  "):
            examples.append(paragraph.strip())
            continue
        lines += _fenced(examples)
        examples = []
        lines += [_escaped(" ".join(paragraph.split())), ""]
    lines += _fenced(examples)
    for title, rows in page.tables.items():
        lines += [f"| {title} | |", "| --- | --- |"]
        lines += [f"| {_code(name)} | {_escaped(words)} |" for name, words in rows]
        lines.append("")
    return "\n".join(lines) + "\n"


def _fenced(examples: list[str]) -> list[str]:
    return ["```sh", *examples, "```", ""] if examples else []


def _code(name: str) -> str:
    return f"`{name}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    """Returns prose whose angle brackets, stars, pipes and names in brackets stand for themselves, but in code."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = (re.sub(r"([*_\[\]])", r"\\\1", html.escape(part, quote=False)) for part in parts[::2])
    return "".join(piece for pair in zip(plain, [*parts[1::2], ""], strict=True) for piece in pair).replace("|", "\\|")


# ---- manual pages


def _manual(page: Page, others: list[str]) -> str:
    name = page.name.replace(" ", "-")
    lines = [f'.TH "{name.upper()}" "1" "" "nearfield {nearfield.__version__}" "nearfield"', ".SH NAME"]
    lines += [f"{_roff(name)} \\- {_roff(page.summary)}", ".SH SYNOPSIS", f".B {_roff(page.usage)}", ".SH DESCRIPTION"]
    for paragraph in page.paragraphs:
        prose = not paragraph.startswith("  ")
        lines += [".PP", _roff(" ".join(paragraph.split()))] if prose else [".PP", ".EX", _roff(paragraph), ".EE"]
    for title, rows in page.tables.items():
        lines.append(f".SH {title.upper()}")
        for key, words in rows:
            lines += [".TP", f"\\fB{_roff(key)}\\fR", _roff(words)]
    if page.epilog:
        lines += [".PP", _roff(page.epilog)]
    seen = ", ".join(f"\\fB{_roff(other)}\\fR(1)" for other in others if _related(other, name))
    lines += [".SH SEE ALSO", seen or "\\fBnearfield\\fR(1)"]
    return "\n".join(lines) + "\n"


def _related(other: str, name: str) -> bool:
    """Returns whether a page refers to another one: to those that it contains, and to the one that contains it."""
    return other != name and (other.rpartition("-")[0] == name or name.rpartition("-")[0] == other)


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def main() -> None:
    """Writes the manual pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "man"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manual_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"manual pages: man -l {folder}/nearfield.1")


if __name__ == "__main__":
    main()
