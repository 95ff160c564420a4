"""Suggests to the reader of a report which commands to run next: at most three, each with its purpose."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.profile import Profile
from nearfield.rules.schema import Rules
from nearfield.ui.html import escape_html, tag, text

MAX_STEPS = 3
EXAMPLE_PROGRAM_ARGUMENTS = ("--", "mpirun", "-n", "2", "./program")
Step = tuple[str, str]  # (purpose, command line)


def next_steps_html(profile: Profile, tuned_rules: Rules | None, apply_command: str) -> str:
    """Returns the HTML of the box with suggested commands. `tuned_rules` are the rules that `nearfield tune` found for
    this MPI, if any, and `apply_command` is the command line that runs programs with them."""
    steps = (
        _steps_from_simulated_profile(profile)
        if profile.run.backend == "sim"
        else _steps_from_measured_profile(profile, tuned_rules, apply_command)
    )
    if not profile.run.complete:
        steps = [("Complete this profile", profile.completed_by), *steps]
    items = "".join(
        tag("li", f"{text(why)}: {tag('code', escape_html(command))}") for why, command in steps[:MAX_STEPS]
    )
    return tag("div", tag("h3", "Next commands") + tag("ol", items), class_="next")


def _steps_from_measured_profile(profile: Profile, tuned_rules: Rules | None, apply_command: str) -> list[Step]:
    folder = profile.path.resolve()
    advise = (
        "See where a program loses time",
        own_command.command_line("advise", "-p", folder, *EXAMPLE_PROGRAM_ARGUMENTS, works_in_any_folder=True),
    )
    if tuned_rules and tuned_rules.best_rule_for_all_pairs().parameters:
        return [
            ("Run a program with the tuned parameters", apply_command),
            ("Measure its gain", apply_command.replace(" run ", " compare ", 1)),
            advise,
        ]
    tune = own_command.command_line(
        "tune", "--mpi", profile.run.mpi.name, "-o", folder / "rules.toml", works_in_any_folder=True
    )
    return [("Search for faster parameters of this MPI", tune), advise, _comparison_step(folder)]


def _steps_from_simulated_profile(profile: Profile) -> list[Step]:
    folder = profile.path.resolve()
    steps = [
        _comparison_step(folder),
        ("See every number", own_command.command_line("show", folder, works_in_any_folder=True)),
    ]
    if profile.run.simulated:
        steps.insert(
            0,
            (
                "See the machine",
                own_command.command_line("machine", "show", profile.run.simulated, works_in_any_folder=True),
            ),
        )
    return steps


def _comparison_step(folder: Path) -> Step:
    return "Compare with another profile", own_command.command_line("diff", folder, "OTHER", works_in_any_folder=True)
