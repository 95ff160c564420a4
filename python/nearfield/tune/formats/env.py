"""Writes a file for the shell's `source`."""

import shlex
from collections.abc import Mapping

from nearfield.tune.formats.format import PRELOAD, Format, commented, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = commented(comments)
    for name, value in environment.items():
        lines += _preloading(preloaded(environment)) if name == PRELOAD else [f"export {name}={shlex.quote(value)}"]
    return "\n".join([*lines, ""])


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
