"""The typer application: one module per verb, which exports `command`, or `app` if the verb has subcommands."""

import ast
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

import nearfield
from nearfield.cli.help import VERBS, VERBS_BY_TASK, Group, use_own_help


class Verbs(Group):
    """The group of all verbs. Imports a verb only when it is run or completed, for a fast start-up. Lists of verbs show
    docstrings that are read from the source files."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands: dict[str, Any] = dict.fromkeys(VERBS)

    def commands_by_title(self, ctx: Any) -> Mapping[str, Iterable[str]]:
        return VERBS_BY_TASK

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS and not self.commands[cmd_name]:
            self.commands[cmd_name] = TyperCommand(cmd_name, help=_summary(cmd_name))
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if not found or not name:  # during shell completion, there may be no verb yet
            return name, found, rest
        if rest and (inner := subcommands(name).get(rest[0])):
            return f"{name} {rest[0]}", _import_verb(inner, rest[0]), rest[1:]
        return name, _import_verb(name, name), rest


def subcommands(verb: str) -> dict[str, str]:
    """Returns the subcommands of a verb: name -> module."""
    return getattr(importlib.import_module(f"nearfield.cli.verbs.{verb}"), "FURTHER", {})


def _import_verb(module_name: str, name: str) -> Any:
    """Imports a verb's module. Returns its `app` if the verb has subcommands, otherwise its `command`, as a click
    command."""
    module = importlib.import_module(f"nearfield.cli.verbs.{module_name}")
    if hasattr(module, "app"):
        module.app.info.name = name
        return typer.main.get_command(use_own_help(module.app))
    verb = typer.Typer(add_completion=False)
    verb.command(name=name, context_settings=getattr(module, "CONTEXT", None))(module.command)
    made: Any = typer.main.get_command(use_own_help(verb))
    if inner := subcommands(module_name):
        made.further = {one: TyperCommand(one, help=_summary(file)) for one, file in inner.items()}
    return made


def _summary(module_name: str) -> str:
    """Returns the docstring of the module's function `command`, or of the module."""
    source = ast.parse(Path(__file__).with_name(f"{module_name}.py").read_text(encoding="utf-8"))
    command = next((n for n in source.body if isinstance(n, ast.FunctionDef) and n.name == "command"), source)
    return ast.get_docstring(command) or ""


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"nearfield {nearfield.__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Handles options before a verb, such as --version."""


app = typer.Typer(
    name="nearfield",
    cls=Verbs,
    callback=_options,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Measure how caches, core distance, memory layout, pages and load affect this machine's MPI, and speed it up.",
    epilog="Start with `nearfield probe --quick`, then `nearfield report`.",
)
