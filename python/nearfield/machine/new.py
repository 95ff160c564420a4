"""Writes a machine file as a starting point for the user: a copy of another machine's file, a machine from a profile,
or the host's topology with a comment for each value that must be measured."""

from __future__ import annotations

import re
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.machine.captured import NOT_MEASURED_REASON, machine_from_profile, unmeasured_profile
from nearfield.machine.files import find_machine_text, load_machine, to_toml
from nearfield.machine.quantity import SourcedFact
from nearfield.profile import Profile
from nearfield.profile import schema as profile_schema

_FILE_HEAD = """\
# {what}
# Change the values that differ, and say where each new value is from. nearfield's docs/reference/machine.md lists
# the keys.
# This checks the file:
#   {check}
"""
_UNMEASURED_VALUES_NOTE = """\
# Lines like '# latency_cycles = ...' stand for values that must be measured; they hold usual values. Measure with
#   {probe}
# and write this file anew with --profile {profile}, or fill them in and say where they are from.
"""


def text_from_machine(name: str, file: Path) -> str:
    """Returns the text of a described machine's file, with its comments and sources, or of the machine of a profile.
    The new file's name replaces the old name. Raises the errors of `load_machine`."""
    machine = load_machine(name)
    path_and_content = find_machine_text(name)
    text = path_and_content[1].decode() if path_and_content else to_toml(machine)
    return _format_file_head(f"To start from: {name}.", file) + _with_file_name(
        text, file, title=f"{file.stem}, changed from {name}"
    )


def text_for_host(host: profile_schema.Machine, profile: Profile | None, file: Path) -> str:
    """Returns the text of a machine file for the host, whose topology `host` is, with values from `profile` if one is
    given. Raises UsageError if `host` has no caches, or if the profile was measured on another machine."""
    if profile:
        require_same_machine(host, profile)
        return _format_file_head(f"This machine, as the profile {profile.path} measured it.", file) + _with_file_name(
            to_toml(machine_from_profile(profile)), file
        )
    machine = machine_from_profile(unmeasured_profile(host), "this machine")
    machine.title, machine.study = host.cpu_model, "what this machine says of itself (hwloc, kernel)"
    text = to_toml(machine, _remark_if_unmeasured).replace('source = "machine.toml: ', 'source = "hwloc: ')
    measured = _UNMEASURED_VALUES_NOTE.format(
        probe=own_command.command_line("probe", "--quick"), profile="nearfield-profile"
    )
    return _format_file_head("This machine, as far as it says.", file) + measured + _with_file_name(text, file)


def _format_file_head(description: str, file: Path) -> str:
    return _FILE_HEAD.format(what=description, check=own_command.command_line("machine", "check", file)) + "\n"


def _with_file_name(text: str, file: Path, title: str = "") -> str:
    """Returns the text with the first `name` replaced by the file's stem, and the first `title` by `title` if one is
    given."""
    import tomlkit

    value_by_key = {"name": file.stem} | ({"title": title} if title else {})

    def replace_value(match: re.Match[str]) -> str:
        return (
            f"{match[1]} = {tomlkit.item(value_by_key.pop(match[1])).as_string()}"
            if match[1] in value_by_key
            else match[0]
        )

    # Only the first match of each key, since send modes have names, too.
    return re.sub(r"^(name|title) = .*$", replace_value, text, flags=re.MULTILINE)


def _remark_if_unmeasured(fact: SourcedFact) -> str:
    return "only measuring tells" if fact.reason.startswith(NOT_MEASURED_REASON) else ""


def require_same_machine(host: profile_schema.Machine, profile: Profile) -> None:
    """Raises UsageError if the profile was measured on a machine with another CPU model or number of cores."""
    measured = profile.machine
    if (measured.cpu_model, measured.cores) != (host.cpu_model, host.cores):
        raise UsageError(
            f"the profile {profile.path} is not of this machine: it has {measured.cores} cores of "
            f"{measured.cpu_model}, and this one {host.cores} of {host.cpu_model}",
            f"To start from that machine: {own_command.command_line('machine', 'new', '--from', profile.path)}",
        )
