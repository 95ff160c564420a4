"""A Slurm TaskProlog: what it prints as `export NAME=value` is set for every task."""

import shlex
from collections.abc import Mapping

from nearfield.tune.formats.format import PRELOAD, Format, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#!/bin/sh",
        *(f"# {line}" for line in [*comments, "For TaskProlog in slurm.conf, or srun --task-prolog."]),
    ]
    for name, value in environment.items():
        ours = preloaded(environment) if name == PRELOAD else value
        theirs = f"${{{PRELOAD}:+:${PRELOAD}}}" if name == PRELOAD else ""  # the task's, which the prolog has
        lines.append(f"echo {shlex.quote(f'export {name}={ours}')}" + (f'"{theirs}"' if theirs else ""))
    return "\n".join([*lines, ""])


SPEC = Format("slurm", "TaskProlog script", _write)
