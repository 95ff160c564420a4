"""A file for `source`."""

import shlex
from collections.abc import Mapping

from nearfield.tune.formats.format import Format


def _write(family: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [f"# {line}" for line in comments]
    return "\n".join([*lines, *(f"export {name}={shlex.quote(value)}" for name, value in environment.items()), ""])


SPEC = Format("env", "shell: source it, or put it into /etc/profile.d", _write)
