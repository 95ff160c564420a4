"""Does the recorder define each MPI function that sends, receives or waits?"""

import re
import subprocess
from pathlib import Path

from nearfield import mpi
from nearfield.mpi import Installation

CALLS = Path(__file__).parents[2] / "src" / "preload" / "mpi" / "calls.def"
# Functions that need an object whose creation the recorder refuses (MPI_Win_create, MPI_File_open, MPI_Psend_init), and
# one that has no effect in a simulation, where buffered sends need no buffer of the program.
NEEDS_NO_WRAPPER = re.compile(
    r"(Win|File)_\w+|R?(accumulate|get|put|get_accumulate)|Compare_and_swap|Fetch_and_op|Parrived|Buffer_detach",
    re.IGNORECASE,
)


def test_the_recorder_wraps_the_functions_of_the_table(installations: list[Installation]) -> None:
    library = mpi.build_target(installations[0], mpi.PROFILING_LAYER_TARGET)
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    defined = set(re.findall(r" MPI_(\w+)$", symbols, re.MULTILINE))
    names = re.findall(r"^(?:CALL|CALL_WITH_LARGE|COLLECTIVE_CALL)\((\w+),", CALLS.read_text(), re.MULTILINE)
    assert len(names) > 100
    assert not [name for name in names if name not in defined and not NEEDS_NO_WRAPPER.fullmatch(name)]
