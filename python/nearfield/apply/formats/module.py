"""Writes a modulefile for both Environment Modules and Lmod."""

import re
from collections.abc import Mapping

from nearfield.apply.formats.format import (
    PRELOAD_VARIABLE,
    ExportFormat,
    format_comment_lines,
    format_preloaded_libraries,
    list_preloaded_libraries,
)


def _write_modulefile(family: str, version: str, comments: list[str], environment: Mapping[str, str]) -> str:
    lines = [
        "#%Module1.0",
        *format_comment_lines(comments),
        "proc ModulesHelp { } {",
        *(f"    puts stderr {quote_tcl_word(line)}" for line in comments),
        "}",
        f"module-whatis {quote_tcl_word(comments[0])}",
        "# Another version of this module sets the same variables.",
        "conflict [lindex [split [module-info name] /] 0]",
        "# Where this MPI is a module, too, name it here:  prereq NAME",
        "# To use the defaults of the MPI, unload this module:  module unload NAME",
    ]
    setting = [
        f"prepend-path {name} {quote_tcl_word(format_preloaded_libraries(environment))}"
        if name == PRELOAD_VARIABLE
        else f"setenv {name} {quote_tcl_word(value)}"
        for name, value in environment.items()
    ]
    if needed := list_preloaded_libraries(environment):
        tests = " && ".join(f"[file readable {quote_tcl_word(library)}]" for library in needed)
        setting = [f"if {{ [module-info mode unload] || ({tests}) }} {{", *(f"    {line}" for line in setting), "}"]
    return "\n".join([*lines, *setting, ""])


def quote_tcl_word(text: str) -> str:
    """Returns the text as one word of Tcl, also inside braces, in which nothing is a variable or a command."""
    escaped = re.sub(r'[\\"$\[\]{}]', r"\\\g<0>", " ".join(text.split()))
    return f'"{escaped}"'


SPEC = ExportFormat("module", "modulefile for Environment Modules and Lmod", _write_modulefile)
