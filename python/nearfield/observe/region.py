"""Selects the part of a program whose accesses are recorded: a function, or the region between calls of
MPI_Pcontrol."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.executables import which
from nearfield.mpi.detect_command import program_index
from nearfield.observe.symbols import functions_of

PCONTROL = "pcontrol"


def region_of(argv: Sequence[str], name: str) -> str:
    """Returns the value of NEARFIELD_OBSERVE_REGION (src/preload/observe/recorder.cpp) for a function of the command's
    program, given by its source or symbol name. Raises UsageError with the most similar function if there is none."""
    if name == PCONTROL:
        return name
    word = argv[program_index(argv)]
    program = which(word) or word
    functions = _function_ranges(program)
    found = functions.get(name) or functions.get(f"{name}_")  # Fortran appends an underscore
    if not found:
        near = difflib.get_close_matches(name, functions, n=1, cutoff=0.65)
        remedy = f"did you mean '{near[0]}'?" if near else f"name a function of the program, or {PCONTROL}"
        raise UsageError(f"{Path(program).name} has no function '{name}' of its own", remedy)
    return f"{found[0]:#x},{found[1]},{name}"


def _function_ranges(program: str) -> dict[str, tuple[int, int]]:
    """Returns name -> (offset, size in bytes) for each function, by its mangled and its demangled name."""
    return {
        symbol.name.partition("(")[0]: (symbol.offset, symbol.size_bytes)
        for demangled in (False, True)
        for symbol in functions_of(program, demangled=demangled)
    }
