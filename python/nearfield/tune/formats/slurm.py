"""A Slurm TaskProlog: what it prints as `export NAME=value` is set for every task."""

import shlex
from collections.abc import Mapping

from nearfield.tune.formats.format import Format


def _write(family: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#!/bin/sh",
        *(f"# {line}" for line in [*comments, "For TaskProlog in slurm.conf, or srun --task-prolog."]),
    ]
    return "\n".join([*lines, *(f"echo {shlex.quote(f'export {n}={v}')}" for n, v in environment.items()), ""])


SPEC = Format("slurm", "TaskProlog script", _write)
