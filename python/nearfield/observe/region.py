"""Selects the part of a program whose accesses are recorded: a function, or the region between calls of
MPI_Pcontrol."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.executables import find_executable
from nearfield.mpi.detect_command import program_index
from nearfield.observe.symbols import function_symbols_of

PCONTROL = "pcontrol"


def format_region(argv: Sequence[str], name: str) -> str:
    """Returns the value of NEARFIELD_OBSERVE_REGION (src/preload/observe/recorder.cpp) for a function of the command's
    program. `name` is the function's source or symbol name, or PCONTROL. Raises UsageError with the most similar
    function if there is none."""
    if name == PCONTROL:
        return name
    word = argv[program_index(argv)]
    program = find_executable(word) or word
    functions = _function_range_by_name(program)
    offset_and_size = functions.get(name) or functions.get(f"{name}_")  # Fortran appends an underscore
    if not offset_and_size:
        similar_names = difflib.get_close_matches(name, functions, n=1, cutoff=0.65)
        remedy = (
            f"did you mean '{similar_names[0]}'?" if similar_names else f"name a function of the program, or {PCONTROL}"
        )
        raise UsageError(f"{Path(program).name} has no function '{name}' of its own", remedy)
    return f"{offset_and_size[0]:#x},{offset_and_size[1]},{name}"


def _function_range_by_name(program: str) -> dict[str, tuple[int, int]]:
    """Returns name -> (offset, size in bytes) for each function, by its mangled and its demangled name."""
    return {
        symbol.name.partition("(")[0]: (symbol.offset, symbol.size_bytes)
        for demangled in (False, True)
        for symbol in function_symbols_of(program, demangled=demangled)
    }
