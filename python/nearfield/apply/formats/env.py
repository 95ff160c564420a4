"""Writes a file for the shell's `source`."""

import shlex
from collections.abc import Mapping

from nearfield.apply.formats.format import (
    IS_ON_SHELL_TEST,
    PRELOAD_VARIABLE,
    ExportFormat,
    format_comment_lines,
    format_preloaded_libraries,
    list_preloaded_libraries,
)


def _write_shell_file(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    setting: list[str] = []
    for name, value in environment.items():
        setting += (
            _format_preload_lines(format_preloaded_libraries(environment))
            if name == PRELOAD_VARIABLE
            else [f"export {name}={shlex.quote(value)}"]
        )
    tests = [IS_ON_SHELL_TEST, *(f"[ -r {shlex.quote(library)} ]" for library in list_preloaded_libraries(environment))]
    setting = [f"if {' && '.join(tests)}; then", *(f"  {line}" for line in setting), "fi"]
    return "\n".join([*format_comment_lines(comments), *setting, ""])


def _format_preload_lines(library: str) -> list[str]:
    """Returns lines that put our library before other preloaded ones, once even if the file is read repeatedly."""
    quoted = shlex.quote(library)
    return [
        f'case ":${{{PRELOAD_VARIABLE}:-}}:" in',
        f"  *:{quoted}:*) ;;",
        f"  *) export {PRELOAD_VARIABLE}={quoted}${{{PRELOAD_VARIABLE}:+:${PRELOAD_VARIABLE}}} ;;",
        "esac",
    ]


SPEC = ExportFormat("env", "shell: source it, or put it into /etc/profile.d", _write_shell_file)
