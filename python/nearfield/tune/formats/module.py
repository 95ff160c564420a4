"""A modulefile, for Environment Modules and Lmod alike."""

from collections.abc import Mapping

from nearfield.tune.formats.format import Format


def _write(family: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = ["#%Module1.0", *(f"# {line}" for line in comments), f'module-whatis "{comments[0]}"']
    return "\n".join([*lines, *(f"setenv {name} {{{value}}}" for name, value in environment.items()), ""])


SPEC = Format("module", "modulefile for Environment Modules and Lmod", _write)
