"""Writes a machine.toml for the user to start from. It is a copy of another machine's file, or made from a profile, or
made from this machine's topology, with a comment for each value that must be measured."""

from __future__ import annotations

import re
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.machine.captured import UNMEASURED, captured
from nearfield.machine.files import as_toml, load_machine, machine_text
from nearfield.machine.quantity import Sourced
from nearfield.profile import Profile, records
from nearfield.profile import schema as profile_schema

_HEAD = """\
# {what}
# Change the values that differ, and say where each new value is from. nearfield's docs/reference/machine.md lists
# the keys.
# This checks the file:
#   {check}
"""
_OPEN = """\
# Lines like '# latency_cycles = ...' stand for values that must be measured; they hold usual values. Measure with
#   {probe}
# and write this file anew with --profile {profile}, or fill them in and say where they are from.
"""


def of_machine(name: str, file: Path) -> str:
    """Returns the text of a described machine with its comments and sources, or of the machine of a profile, under the
    name of the new file. Raises the errors of `load_machine`."""
    machine = load_machine(name)
    found = machine_text(name)
    text = found[1].decode() if found else as_toml(machine)
    return _head(f"To start from: {name}.", file) + _renamed(text, file, title=f"{file.stem}, changed from {name}")


def of_here(here: profile_schema.Machine, profile: Profile | None, file: Path) -> str:
    """Returns the text of this machine, which `here` describes. Raises UsageError if `here` knows no caches, or if
    `profile` was measured on another machine."""
    if profile:
        _require_same(here, profile)
        return _head(f"This machine, as the profile {profile.path} measured it.", file) + _renamed(
            as_toml(captured(profile)), file
        )
    machine = captured(_unmeasured(here), "this machine")
    machine.title, machine.study = here.cpu_model, "what this machine says of itself (hwloc, kernel)"
    text = as_toml(machine, _how_to_get).replace('source = "machine.toml: ', 'source = "hwloc: ')
    measured = _OPEN.format(probe=own_command.line("probe", "--quick"), profile="nearfield-profile")
    return _head("This machine, as far as it says.", file) + measured + _renamed(text, file)


def _head(what: str, file: Path) -> str:
    return _HEAD.format(what=what, check=own_command.line("machine", "check", file)) + "\n"


def _renamed(text: str, file: Path, title: str = "") -> str:
    """Returns the text under the name of its file, and under another title if one is given."""
    import tomlkit

    lines = {"name": file.stem} | ({"title": title} if title else {})

    def line(match: re.Match[str]) -> str:
        return f"{match[1]} = {tomlkit.item(lines.pop(match[1])).as_string()}" if match[1] in lines else match[0]

    return re.sub(r"^(name|title) = .*$", line, text, flags=re.MULTILINE)  # the first of each, for modes have names too


def _how_to_get(fact: Sourced) -> str:
    return "only measuring tells" if fact.reason.startswith(UNMEASURED) else ""


def _require_same(here: profile_schema.Machine, profile: Profile) -> None:
    there = profile.machine
    if (there.cpu_model, there.cores) != (here.cpu_model, here.cores):
        raise UsageError(
            f"the profile {profile.path} is not of this machine: it has {there.cores} cores of {there.cpu_model}, "
            f"and this one {here.cores} of {here.cpu_model}",
            f"To start from that machine: {own_command.line('machine', 'new', '--from', profile.path)}",
        )


def _unmeasured(here: profile_schema.Machine) -> Profile:
    run = profile_schema.Run.model_construct(clock=profile_schema.RunClock(), calibration=None, switch=[])
    return Profile(Path(), here, run, records.from_rows([]), "")
