"""Writes a Slurm TaskProlog, whose output `export NAME=value` sets a variable for every task."""

import shlex
from collections.abc import Mapping

from nearfield.apply.formats.format import IS_ON, PRELOAD, Format, comment_lines, libraries, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#!/bin/sh",
        *comment_lines([*comments, "For TaskProlog in slurm.conf, or srun --task-prolog."]),
    ]
    lines.append(f"{IS_ON} || exit 0")
    lines += [f"[ -r {shlex.quote(library)} ] || exit 0" for library in libraries(environment)]
    for name, value in environment.items():
        ours = preloaded(environment) if name == PRELOAD else value
        theirs = f"${{{PRELOAD}:+:${PRELOAD}}}" if name == PRELOAD else ""  # the task's own, which the prolog has
        setting = shlex.quote(f"export {name}={ours}") + (f'"{theirs}"' if theirs else "")
        lines.append(f"printf '%s\\n' {setting}")  # echo may read backslashes
    return "\n".join([*lines, ""])


SPEC = Format("slurm", "TaskProlog script", _write, executable=True)
