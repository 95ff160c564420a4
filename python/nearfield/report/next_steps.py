"""Suggests the next commands to a reader of the report: at most three, each with its purpose."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.profile import Profile
from nearfield.rules.schema import Rules
from nearfield.ui.html import escape_html, tag, text

MAX_STEPS = 3
PROGRAM = ("--", "mpirun", "-n", "2", "./program")
Step = tuple[str, str]  # (purpose, command line)


def next_steps(profile: Profile, tuned: Rules | None, apply: str) -> str:
    """Returns the HTML of the box with suggested commands. `tuned` are the rules that `tune` found, and `apply` is the
    command line that runs programs under them."""
    found = _of_simulated(profile) if profile.run.backend == "sim" else _of_measured(profile, tuned, apply)
    if not profile.run.complete:
        found = [("Complete this profile", profile.completed_by), *found]
    items = "".join(
        tag("li", f"{text(why)}: {tag('code', escape_html(command))}") for why, command in found[:MAX_STEPS]
    )
    return tag("div", tag("h3", "Next commands") + tag("ol", items), class_="next")


def _of_measured(profile: Profile, tuned: Rules | None, apply: str) -> list[Step]:
    folder = profile.path.resolve()
    advise = ("See where a program loses time", own_command.line("advise", "-p", folder, *PROGRAM, anywhere=True))
    if tuned and tuned.best_for_all().parameters:
        return [
            ("Run a program with the tuned parameters", apply),
            ("See what they are worth to it", apply.replace(" run ", " compare ", 1)),
            advise,
        ]
    tune = own_command.line("tune", "--mpi", profile.run.mpi.name, "-o", folder / "rules.toml", anywhere=True)
    return [("Search for faster parameters of this MPI", tune), advise, _compared(folder)]


def _of_simulated(profile: Profile) -> list[Step]:
    folder = profile.path.resolve()
    steps = [_compared(folder), ("See every number", own_command.line("show", folder, anywhere=True))]
    if profile.run.simulated:
        steps.insert(0, ("See the machine", own_command.line("machine", "show", profile.run.simulated, anywhere=True)))
    return steps


def _compared(folder: Path) -> Step:
    return "Compare with another profile", own_command.line("diff", folder, "OTHER", anywhere=True)
