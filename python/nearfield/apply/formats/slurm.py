"""Writes a Slurm TaskProlog, whose output `export NAME=value` sets a variable for every task."""

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


def _write_task_prolog(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#!/bin/sh",
        *format_comment_lines([*comments, "For TaskProlog in slurm.conf, or srun --task-prolog."]),
    ]
    lines.append(f"{IS_ON_SHELL_TEST} || exit 0")
    lines += [f"[ -r {shlex.quote(library)} ] || exit 0" for library in list_preloaded_libraries(environment)]
    for name, value in environment.items():
        ours = format_preloaded_libraries(environment) if name == PRELOAD_VARIABLE else value
        # the task's own, which the prolog has
        theirs = f"${{{PRELOAD_VARIABLE}:+:${PRELOAD_VARIABLE}}}" if name == PRELOAD_VARIABLE else ""
        setting = shlex.quote(f"export {name}={ours}") + (f'"{theirs}"' if theirs else "")
        lines.append(f"printf '%s\\n' {setting}")  # echo may read backslashes
    return "\n".join([*lines, ""])


SPEC = ExportFormat("slurm", "TaskProlog script", _write_task_prolog, is_executable=True)
