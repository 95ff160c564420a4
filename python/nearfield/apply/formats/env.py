"""Writes a file for the shell's `source`."""

import shlex
from collections.abc import Mapping

from nearfield.apply.formats.format import IS_ON, PRELOAD, Format, comment_lines, libraries, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    setting: list[str] = []
    for name, value in environment.items():
        setting += _preloading(preloaded(environment)) if name == PRELOAD else [f"export {name}={shlex.quote(value)}"]
    tests = [IS_ON, *(f"[ -r {shlex.quote(library)} ]" for library in libraries(environment))]
    setting = [f"if {' && '.join(tests)}; then", *(f"  {line}" for line in setting), "fi"]
    return "\n".join([*comment_lines(comments), *setting, ""])


def _preloading(ours: str) -> list[str]:
    """Returns lines that put our library before other preloaded ones, once even if the file is read repeatedly."""
    quoted = shlex.quote(ours)
    return [
        f'case ":${{{PRELOAD}:-}}:" in',
        f"  *:{quoted}:*) ;;",
        f"  *) export {PRELOAD}={quoted}${{{PRELOAD}:+:${PRELOAD}}} ;;",
        "esac",
    ]


SPEC = Format("env", "shell: source it, or put it into /etc/profile.d", _write)
