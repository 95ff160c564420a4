"""The command line: one module per verb, each exporting `command`; errors end in `main`."""

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from nearfield.errors import NearfieldError

VERBS = (
    "probe",
    "show",
    "diff",
    "report",
    "tune",
    "run",
    "compare",
    "export",
    "plan",
    "halo",
    "mpi",
    "topology",
    "doctor",
)


class Verbs(TyperGroup):
    """Imports a verb when it is asked for: `nearfield run` comes before every mpirun, and must not wait for what others
    need."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands: dict[str, Any] = dict.fromkeys(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS and not self.commands[cmd_name]:
            module = importlib.import_module(f"nearfield.cli.{cmd_name}")
            verb = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            verb.command(name=cmd_name, context_settings=getattr(module, "CONTEXT", None))(module.command)
            self.commands[cmd_name] = typer.main.get_command(verb)
        return self.commands.get(cmd_name)


app = typer.Typer(
    name="nearfield",
    cls=Verbs,
    callback=lambda: None,  # a group, though Typer sees no commands
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Measure what caches, core distance, memory layout, pages and load do to MPI here, and make it faster.",
    epilog="Start with [bold]nearfield probe --quick[/bold], then [bold]nearfield report[/bold].",
)


def main() -> None:
    """Runs the command line; every error a user can act on ends here, as one line and an exit code."""
    try:
        app()
    except NearfieldError as error:
        tell(error)
        sys.exit(error.exit_code)


def tell(error: NearfieldError) -> None:
    from rich.console import Console  # takes a while, and most commands end well
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    if error.remedy:
        console.print(f"  [dim]→[/dim] {escape(error.remedy)}")
