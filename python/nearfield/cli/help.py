"""Prints the help of every verb. Paragraphs are wrapped at the terminal's width. An indented line of a docstring is an
example, which is never wrapped, so that users can copy it; in it, `nearfield` is replaced by the command by which the
shell finds this nearfield."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.cli.renamed_options import with_current_names
from nearfield.ui.terminal import Column, Table, Terminal

# Title in the list of all verbs -> verbs.
VERBS_BY_TASK = {
    "First look, builds": ("demo", "build"),
    "Measure a machine and its MPI": ("doctor", "mpi", "topology", "probe", "show", "diff", "verify", "report"),
    "Make unmodified programs faster": ("forecast", "tune", "rules", "compare", "run", "export", "site"),
    "Split a grid, exchange halos": ("plan", "halo"),
    "Find and repair lost time in a code": ("cc", "cxx", "fc", "observe", "advise", "rewrite"),
    "Simulate another machine": ("machine", "simulate"),
    "Check the claims of papers": ("reproduce",),
}
VERBS = tuple(verb for verbs in VERBS_BY_TASK.values() for verb in verbs)
_NEARFIELD_CALL_PATTERN = re.compile(rf"(?<![\w./-])nearfield(?= (?:{'|'.join(VERBS)})\b)")


class Command(TyperCommand):
    """A verb whose help is printed by this module. `further` maps names to the verb's subcommands."""

    further: Mapping[str, TyperCommand] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as typer does, but accepts renamed options. If an option lacks its value, raises UsageError with a
        description of the value."""
        try:
            return super().parse_args(ctx, with_current_names(ctx, self, args))
        except Exception as error:
            name = getattr(error, "option_name", "")
            option = next((one for one in self.params if name in one.opts), None)
            if "requires an argument" not in str(error) or option is None:
                raise
            usage = f"{name} {option.metavar or 'VALUE'}: {getattr(option, 'help', None) or ''}"
            raise UsageError(f"{name} needs a value", usage) from error

    def format_help(self, ctx: Any, formatter: Any) -> None:
        print_help(self, ctx, Terminal())


class Group(TyperGroup):
    """A verb with subcommands, or the group of all verbs."""

    def commands_by_title(self, ctx: Any) -> Mapping[str, Iterable[str]]:
        """Returns title -> names of the commands that the help lists below the title."""
        return {"Commands": self.list_commands(ctx)}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        print_help(self, ctx, Terminal())


def use_own_help(app: typer.Typer) -> typer.Typer:
    """Configures the app so that this module prints the help of its commands. Returns the app."""
    app.info.cls = Group
    for one in app.registered_commands:
        one.cls = Command
    return app


def print_help(command: Any, ctx: Any, console: Terminal) -> None:
    """Prints the help of a command: usage, text, arguments, options and subcommands."""
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    console.print(Text("Usage: ", style="bold").append(with_own_name(usage), style="not bold"))
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        console.print()
        _print_paragraph(with_own_name(paragraph), console)
    for title, rows in help_tables(command, ctx):
        console.print()
        console.print(Text(title, style="bold"))
        console.print(_help_table(rows))
    if command.epilog:
        console.print()
        console.print(with_own_name(command.epilog))


def with_own_name(text: str) -> str:
    """Replaces `nearfield` in every `nearfield VERB` of the text by the command by which the shell finds this
    nearfield."""
    return _NEARFIELD_CALL_PATTERN.sub(lambda _: own_command.own_executable(), text)


def _print_paragraph(text: str, console: Terminal) -> None:
    """Prints a paragraph wrapped, or an example unwrapped."""
    if text.startswith("  "):
        console.print(Text(text.rstrip(), style="cyan"), soft_wrap=True)
    else:
        console.print(Text(" ".join(text.split())))


def help_tables(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields (title, rows) for each table of the help; a row is (name, description)."""
    parameters = command.get_params(ctx)
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        records = (one.get_help_record(ctx) for one in parameters if one.param_type_name == kind)
        if rows := [(name, " ".join(words.replace("\\[", "[").split())) for name, words in filter(None, records)]:
            yield title, rows
    listed = {"Commands": command.further} if getattr(command, "further", {}) else {}
    if isinstance(command, Group):
        titled = command.commands_by_title(ctx).items()
        listed = {title: {name: command.get_command(ctx, name) for name in names} for title, names in titled}
    for title, commands in listed.items():
        summaries = {name: inspect.cleandoc(one.help or "").partition("\n\n")[0] for name, one in commands.items()}
        yield title, [(name, " ".join(summary.split())) for name, summary in summaries.items()]


def _help_table(rows: list[tuple[str, str]]) -> Table:
    table = Table(Column(key=True), Column(prose=True))
    for name, words in rows:
        table.add_row(Text(f"  {name}", style="cyan"), Text(with_own_name(words)))
    return table
