"""The text of a machine.toml to start from: another machine's, as it is written; a profile's; or this machine's, as far
as its topology tells, with a comment for each value that only measuring gives."""

from __future__ import annotations

import re
from pathlib import Path

from nearfield import itself
from nearfield.errors import UsageError
from nearfield.machine.captured import UNMEASURED, captured
from nearfield.machine.dump import as_toml
from nearfield.machine.files import load_machine, machine_text
from nearfield.machine.quantity import Sourced
from nearfield.profile import Profile, records
from nearfield.profile import schema as profile_schema

_HEAD = """\
# {what}
# Change what differs, and where each value is from. The keys: docs/machine.md of nearfield. Is it right?
#   {check}
"""
_OPEN = """\
# Lines like '# latency_cycles = ...' are of values that only measuring tells, with usual ones in them. Measure with
#   {probe}
# and write this file anew with --profile {profile}, or fill them in and say where they are from.
"""


def of_machine(name: str, file: Path) -> str:
    """A described machine's text with its comments and sources, or a profile's machine, under the file's name. Errors
    as `load_machine`."""
    machine = load_machine(name)
    found = machine_text(name)
    text = found[1].decode() if found else as_toml(machine)
    return _head(f"To start from: {name}.", file) + _renamed(text, file)


def of_here(here: profile_schema.Machine, profile: Profile | None, file: Path) -> str:
    """`here`: what this machine says of itself. UsageError if that says nothing of caches, or `profile` is another
    machine's."""
    if profile:
        _require_same(here, profile)
        return _head(f"This machine, as the profile {profile.path} measured it.", file) + _renamed(
            as_toml(captured(profile)), file
        )
    machine = captured(_unmeasured(here), "this machine")
    machine.title, machine.study = here.cpu_model, "what this machine says of itself (hwloc, kernel)"
    text = as_toml(machine, _how_to_get).replace('source = "machine.toml: ', 'source = "hwloc: ')
    measured = _OPEN.format(probe=itself.command("probe", "--quick"), profile="nearfield-profile")
    return _head("This machine, as far as it says.", file) + measured + _renamed(text, file)


def _head(what: str, file: Path) -> str:
    return _HEAD.format(what=what, check=itself.command("machine", "check", file)) + "\n"


def _renamed(text: str, file: Path) -> str:
    return re.sub(r"^name = .*$", f'name = "{file.stem}"', text, count=1, flags=re.MULTILINE)


def _how_to_get(fact: Sourced) -> str:
    return "only measuring tells" if fact.reason.startswith(UNMEASURED) else ""


def _require_same(here: profile_schema.Machine, profile: Profile) -> None:
    there = profile.machine
    if (there.cpu_model, there.cores) != (here.cpu_model, here.cores):
        raise UsageError(
            f"the profile {profile.path} is not of this machine: it has {there.cores} cores of {there.cpu_model}, "
            f"and this one {here.cores} of {here.cpu_model}",
            f"To start from that machine: {itself.command('machine', 'new', '--from', profile.path)}",
        )


def _unmeasured(here: profile_schema.Machine) -> Profile:
    """A profile without a record."""
    run = profile_schema.Run.model_construct(clock=profile_schema.RunClock(), calibration=None, switch=[])
    return Profile(Path(), here, run, records.from_rows([]), "")
