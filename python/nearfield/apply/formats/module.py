"""Writes a modulefile for both Environment Modules and Lmod."""

import re
from collections.abc import Mapping

from nearfield.apply.formats.format import PRELOAD, Format, comment_lines, libraries, preloaded


def _write(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#%Module1.0",
        *comment_lines(comments),
        "proc ModulesHelp { } {",
        *(f"    puts stderr {quote(line)}" for line in comments),
        "}",
        f"module-whatis {quote(comments[0])}",
        "# Another version of this module sets the same variables.",
        "conflict [lindex [split [module-info name] /] 0]",
        "# Where this MPI is a module, too, name it here:  prereq NAME",
        "# Who wants the defaults of the MPI unloads this module:  module unload NAME",
    ]
    setting = [
        f"prepend-path {name} {quote(preloaded(environment))}" if name == PRELOAD else f"setenv {name} {quote(value)}"
        for name, value in environment.items()
    ]
    if needed := libraries(environment):
        tests = " && ".join(f"[file readable {quote(library)}]" for library in needed)
        setting = [f"if {{ [module-info mode unload] || ({tests}) }} {{", *(f"    {line}" for line in setting), "}"]
    return "\n".join([*lines, *setting, ""])


def quote(text: str) -> str:
    """Returns the text as one word of Tcl, also inside braces, in which nothing is a variable or a command."""
    escaped = re.sub(r'[\\"$\[\]{}]', r"\\\g<0>", " ".join(text.split()))
    return f'"{escaped}"'


SPEC = Format("module", "modulefile for Environment Modules and Lmod", _write)
