"""Does the help of every verb read well in any terminal and in a pipe, and can its examples be copied?"""

from __future__ import annotations

import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from doc_consoles import fences

from nearfield.base import own_command
from nearfield.cli.help import VERBS, print_help
from nearfield.cli.verbs import app
from nearfield.ui.terminal import Terminal

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 120, 200, None)


def commands() -> dict[str, Any]:
    """Contexts of nearfield itself, of every verb and of what verbs have of their own, by what is typed."""
    found = {"nearfield": typer.main.get_command(app).make_context("nearfield", [], resilient_parsing=True)}
    for name in found["nearfield"].command.list_commands(found["nearfield"]):
        _, verb, _ = found["nearfield"].command.resolve_command(found["nearfield"], [name])
        own = verb.make_context(name, [], parent=found["nearfield"], resilient_parsing=True)
        found[f"nearfield {name}"] = own
        for inner in getattr(verb, "commands", {}):
            sub = verb.get_command(own, inner)
            found[f"nearfield {name} {inner}"] = sub.make_context(inner, [], parent=own, resilient_parsing=True)
        for inner in getattr(verb, "further", {}):
            typed, sub, _ = found["nearfield"].command.resolve_command(found["nearfield"], [name, inner])
            found[f"nearfield {typed}"] = sub.make_context(typed, [], parent=found["nearfield"], resilient_parsing=True)
    return found


COMMANDS = commands()


def help_lines(ctx: Any, width: int | None) -> list[str]:
    """The lines of its help, in a terminal of that width or in a pipe."""
    out = io.StringIO()
    console = Terminal(file=out, width=width, force_terminal=True, color_system=None) if width else Terminal(file=out)
    print_help(ctx.command, ctx, console)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def paragraphs(ctx: Any) -> tuple[list[str], list[str]]:
    """Prose, with one blank between words, and examples as they are written."""
    parts = inspect.cleandoc(ctx.command.help).split("\n\n")
    examples = [part.rstrip() for part in parts if part.startswith("  ")]
    return [" ".join(part.split()) for part in parts if not part.startswith("  ")], examples


LARGE = ["polars", "plotly", "optuna", "clang.cindex", "islpy", "numpy", "rich.progress"]
# What measures, simulates, judges and shows, and the models of the files that these read.
WORK = [
    "advise", "base.toml", "doctor", "forecast", "halo", "machine", "measure.live", "measure.sim.cases", "observe",
    "plan", "profile.schema", "report", "reproduce", "rewrite", "simulate", "tune.rules",
]  # fmt: skip


def test_no_help_waits_for_what_it_does_not_use() -> None:
    """Are data frames, plots, the optimizer, the parser, the polyhedra and the packages that do a command's work left
    alone until a command uses them?"""
    names = [*LARGE, *(f"nearfield.{name}" for name in WORK)]
    script = f"import sys, test_help; print(*(name for name in {names} if name in sys.modules))"
    paths = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1] / "support")))
    command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("typed", COMMANDS)
def test_prose_flows_and_nothing_that_is_typed_is_broken(
    typed: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is every line as full as words allow, every example on a line, and the name of every option whole?"""
    monkeypatch.setattr(own_command, "own_executable", lambda: "nearfield")
    ctx = COMMANDS[typed]
    lines = help_lines(ctx, width)
    prose, examples = paragraphs(ctx)
    assert not [paragraph for paragraph in prose if paragraph.startswith("nearfield ")], "an example that flows"
    for example in examples:
        assert example in lines
    as_blocks = "\n".join(lines).split("\n\n")
    flowing = {" ".join(block.split()): block.splitlines() for block in as_blocks}
    for paragraph in prose:
        for line, after in zip(flowing[paragraph], flowing[paragraph][1:], strict=False):
            assert width and len(line) <= width < len(f"{line} {after.split()[0]}"), line
    words = " ".join(lines).split()
    for parameter in ctx.command.get_params(ctx):
        for name in parameter.opts if parameter.param_type_name == "option" else ():
            assert {name, f"{name},"} & set(words), name


def test_examples_start_this_nearfield(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do examples, prose and the help of options name it as it was called, and do names of files stay?"""
    monkeypatch.setattr(own_command, "own_executable", lambda: "venv/bin/nearfield")
    lines = help_lines(COMMANDS["nearfield halo"], None) + help_lines(COMMANDS["nearfield probe"], None)
    assert "    venv/bin/nearfield halo --costs nearfield-profile > costs" in lines
    assert "    mpicc app.c $(venv/bin/nearfield halo --flags)" in lines
    assert any("a name of `venv/bin/nearfield mpi`" in line for line in lines)
    assert any("`from nearfield.halo import Grid`" in line for line in lines)


VERB = "|".join(VERBS)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def examples() -> list[str]:
    """The commands of the help and of the blocks of README and docs."""
    blocks = [part for ctx in COMMANDS.values() for part in paragraphs(ctx)[1]]
    blocks += [fence.text for fence in fences() if fence.language in ("sh", "console")]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    own = (re.match(rf"nearfield (?:{VERB})\b.*?(?=$|\s+[|>#&]|;)", line) for line in lines)
    within = (re.search(rf"(?<=\$\()nearfield (?:{VERB})\b[^)]*", line) for line in lines)
    return list(dict.fromkeys(call.group() for call in (*own, *within) if call))


def mentions() -> list[str]:
    """Commands in the text of README and docs, which may leave out what they are not about."""
    inline = (" ".join(one.split()) for page in PAGES for one in re.findall(r"`(nearfield\s[^`]+)`", page.read_text()))
    return [one.partition(" | ")[0] for one in dict.fromkeys(inline) if re.match(rf"nearfield (?:{VERB})\b", one)]


def parse(line: str) -> None:
    top = COMMANDS["nearfield"]
    name, verb, rest = top.command.resolve_command(top, shlex.split(line)[1:])
    ctx = verb.make_context(name, rest, parent=top)
    if hasattr(verb, "commands"):
        inner, sub, rest = verb.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        sub.make_context(inner, rest, parent=ctx)


@pytest.mark.parametrize("line", examples())
def test_the_command_line_understands_every_example(line: str) -> None:
    """Does it know all options of each example, with their values? Nothing is run."""
    parse(line)


@pytest.mark.parametrize("line", mentions())
def test_the_command_line_understands_what_pages_mention(line: str) -> None:
    try:
        parse(line)
    except Exception as error:
        assert type(error).__name__ in ("MissingParameter", "Exit"), (
            error
        )  # typer has click's errors in places of its own
