"""The command line: one module per verb, each exporting `command`; errors end in `main`."""

import importlib
import sys

import typer
from rich.console import Console
from rich.markup import escape

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

app = typer.Typer(
    name="nearfield",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Measure what caches, core distance, memory layout, pages and load do to MPI here, and make it faster.",
    epilog="Start with [bold]nearfield probe --quick[/bold], then [bold]nearfield report[/bold].",
)
for verb in VERBS:
    module = importlib.import_module(f"nearfield.cli.{verb}")
    app.command(name=verb, context_settings=getattr(module, "CONTEXT", None))(module.command)


def main() -> None:
    """Runs the command line; every error a user can act on ends here, as one line and an exit code."""
    try:
        app()
    except NearfieldError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
        if error.remedy:
            console.print(f"  [dim]→[/dim] {escape(error.remedy)}")
        sys.exit(error.exit_code)
