"""Options that several commands share, so that each has the same name and help everywhere, and common checks of
options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearfield.base.errors import UsageError
from nearfield.cli import complete
from nearfield.ui.terminal import err

# click settings for commands that start a program: options after its name belong to the program, as in `mpirun -n 4`.
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}
# Default machine: that of a published study, the only one whose results can be compared with published ones.
DEFAULT_MACHINE = "power5-redstorm"
TODAYS_MACHINES = ("epyc-9654", "epyc-9755", "grace", "xeon-8470")
RULES_HELP = (
    "A file, or a folder of `tune --all-mpis`. Default: $NEARFIELD_RULES, else rules.toml or nearfield-rules here,"
)


def mpi_option(*, help: str) -> Any:
    """Returns a declaration of the option --mpi with this help text."""
    return typer.Option("--mpi", help=help, autocompletion=complete.mpis)


def machine_option(*, help: str) -> Any:
    """Returns a declaration of the option --on with this help text."""
    return typer.Option("--on", metavar="NAME|FILE|PROFILE", help=help, autocompletion=complete.machines)


def rules_option(*, help: str) -> Any:
    """Returns a declaration of the option --rules with this help text."""
    return typer.Option("--rules", metavar="FILE", help=help)


def profile_option(*, help: str) -> Any:
    """Returns a declaration of the option --profile with this help text."""
    return typer.Option("--profile", "-p", metavar="FOLDER", help=help, show_default=False)


def out_option(*, help: str, metavar: str = "FOLDER") -> Any:
    """Returns a declaration of the option --out with this help text."""
    return typer.Option("--out", "-o", metavar=metavar, help=help)


# ---- output formats

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print rows as CSV and nothing else.")]
SweepAsCsv = Annotated[bool, typer.Option("--csv", help="Print the rows of --sweep as CSV and nothing else.")]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Write the notes as SARIF 2.1.0, for editors and CI.")
]

# ---- program to run, and its MPI

Command = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command as without nearfield.")]
CompilerWords = Annotated[list[str], typer.Argument(metavar="ARGUMENTS...", help="The compiler's own arguments.")]
TraceOrCommand = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRACE | -- COMMAND...",
        help="A folder that `nearfield observe` made (default: the newest one here), or a command.",
        show_default=False,
    ),
]
Valgrind = Annotated[
    bool, typer.Option("--valgrind", help="Record loads and stores of a COMMAND that was compiled without hooks.")
]
Mpi = Annotated[str | None, mpi_option(help="Which MPI: a name of `nearfield mpi`, the beginning of one, or a path.")]
MpiOfCommand = Annotated[
    str | None, mpi_option(help="The MPI, if it cannot be detected from launcher or program (srun python ...).")
]
RulesOfCommand = Annotated[Path | None, rules_option(help=f"{RULES_HELP} of which the program's MPI chooses.")]
Force = Annotated[bool, typer.Option("--force", help="Use rules of another MPI or machine, too.")]
NoForecast = Annotated[
    bool, typer.Option("--no-forecast", help="Do not report the share of MPI in the run, and so the most to gain.")
]

# ---- simulations

SimulatedMachine = Annotated[
    str,
    machine_option(
        help="The machine, see `nearfield machine list`. The default, of 2004, is the one whose results can be "
        f"compared with published ones; of today are {', '.join(TODAYS_MACHINES)}."
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        help="Where NICs put incoming bytes: payload-l3,ddio:ways=4, or all; `nearfield simulate --list` has them.",
    ),
]
SweptKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A..B[:N]",
        help="Change a key of the machine's file over a range or a list, e.g. memory.latency_ns=80..200 "
        "(repeat for every combination); `nearfield machine show NAME -v` lists the keys.",
    ),
]
Sensitivity = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        help="Change each uncertain value of the machine's file alone, and show how far the results move.",
    ),
]
MemorySlowdown = Annotated[
    str,
    typer.Option(
        "--memory-slowdown", help="Memory slowdown factors, e.g. 1,7.5; for a program or a trace at most four."
    ),
]
FrequencyGhz = Annotated[
    float | None,
    typer.Option("--frequency", metavar="GHZ", help="Core frequency; memory keeps its bytes and latency in cycles."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes (default: one per core).")]


# ---- checks of options


def typed_options(ctx: typer.Context) -> list[str]:
    """Returns the names of the parameters that the user typed on the command line, in the order of the help."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def require_single_option(**options: object) -> None:
    """Raises UsageError if two or more of these options are set. Keyword `all_mpis` stands for --all-mpis."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other", "leave one of them out")


def require_single_format(as_json: bool, as_csv: bool) -> None:
    """Raises UsageError if both --json and --csv are set."""
    if as_json and as_csv:
        raise UsageError("--json and --csv are two formats", "Give one of them.")


def print_assumed_machine(ctx: typer.Context) -> None:
    """If the user named no machine with --on, prints that the default machine is an old one, and names current ones."""
    if "on" not in typed_options(ctx):
        err.print(f"{DEFAULT_MACHINE} is a machine of 2004; of today are {', '.join(TODAYS_MACHINES)} (--on)")
