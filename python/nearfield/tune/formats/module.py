"""A modulefile, for Environment Modules and Lmod alike."""

from collections.abc import Mapping

from nearfield.tune.formats.format import PRELOAD, Format, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = ["#%Module1.0", *(f"# {line}" for line in comments), f'module-whatis "{comments[0]}"']
    for name, value in environment.items():
        adds = name == PRELOAD
        lines.append(f"prepend-path {name} {{{preloaded(environment)}}}" if adds else f"setenv {name} {{{value}}}")
    return "\n".join([*lines, ""])


SPEC = Format("module", "modulefile for Environment Modules and Lmod", _write)
