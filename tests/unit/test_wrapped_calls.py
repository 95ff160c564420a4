"""Does the recorder know each MPI function that sends, receives or waits?"""

import re
from pathlib import Path

PRELOAD = Path(__file__).parents[2] / "src" / "preload"
# Functions that need an object whose creation the recorder refuses (MPI_Win_create, MPI_File_open, MPI_Psend_init), and
# one that has no effect in a simulation, where buffered sends need no buffer of the program.
NEEDS_NO_WRAPPER = re.compile(
    r"(Win|File)_\w+|R?(accumulate|get|put|get_accumulate)|Compare_and_swap|Fetch_and_op|Parrived|Buffer_detach",
    re.IGNORECASE,
)


def test_the_recorder_wraps_the_functions_of_the_table() -> None:
    table = (PRELOAD / "mpi" / "calls.def").read_text()
    names = re.findall(r"^(?:CALL|CALL_WITH_LARGE|COLLECTIVE_CALL)\((\w+),", table, re.MULTILINE)
    sources = "\n".join(file.read_text() for file in (PRELOAD / "observe" / "mpi").glob("*.cpp"))
    wrapped = set(re.findall(r"\w+", sources)) | {word.removeprefix("MPI_") for word in re.findall(r"MPI_\w+", sources)}
    assert len(names) > 100
    assert not [name for name in names if name not in wrapped and not NEEDS_NO_WRAPPER.fullmatch(name)]
