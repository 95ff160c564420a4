"""Are functions named that symbols cover, and no others, and does the user learn what would give more names?"""

import shutil
import subprocess
from pathlib import Path

import pytest

from nearfield.cli.verbs.observe_show import _make_call_table
from nearfield.notes import Note, NoteRule, note_text, notes_as_dicts, notes_as_sarif
from nearfield.notes import SourcePlace as NotePlace
from nearfield.observe.source_lines import UNKNOWN_NAME, SourceLine, find_source_lines, line_of_call
from nearfield.observe.summary import CallSums, RankSummary, missing_function_names_advice
from nearfield.observe.symbols import debugging_package, function_symbols_of, missing_names_advice

# The one function that others may link to comes first; what comes behind it has no symbol in a stripped library.
SOURCE = """
int small(int x) { return x + 1; }
static __attribute__((noinline, noclone, section(".text.z"))) int behind(int x) {
  int y = 0;
  for (int i = 0; i < x; ++i) y += small(i) * x;
  return y;
}
static int (*volatile called)(int) = behind;
int (*table(void))(int) { return called; }
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same library as it was compiled, without its local symbols, and with lines."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "work.c").write_text(SOURCE)
    found = {}
    for name, flags in (("whole", []), ("stripped", ["-s"]), ("lines", ["-g"])):
        found[name] = folder / name / "libwork.so"
        found[name].parent.mkdir()
        words = ["cc", "-O1", "-shared", "-fPIC", *flags, "-o", str(found[name]), str(folder / "work.c")]
        subprocess.run(words, check=True, timeout=60)
    return found


def inside(library: Path, name: str) -> int:
    """Returns the offset behind the first bytes of a function."""
    return (
        next(symbol.offset for symbol in function_symbols_of(str(library), demangled=False) if symbol.name == name) + 4
    )


def test_a_function_is_named_only_where_the_symbol_reaches(libraries: dict[str, Path]) -> None:
    """Is a place behind the last symbol of a stripped library named by its offset, and not by that symbol?"""
    behind, small = inside(libraries["whole"], "behind"), inside(libraries["whole"], "small")
    path = str(libraries["stripped"])
    found = find_source_lines([(path, behind), (path, small)])
    assert str(found[path, behind]) == f"libwork.so+{behind:#x}" and not found[path, behind].is_resolved
    assert str(found[path, small]) == f"libwork.so+{small:#x} (small)"
    assert found[path, behind].merge_by_function() == SourceLine(UNKNOWN_NAME, 0, UNKNOWN_NAME, path)
    whole = str(libraries["whole"])
    assert find_source_lines([(whole, behind)])[whole, behind].function == "behind"


def test_lines_come_before_symbols(libraries: dict[str, Path]) -> None:
    """Is the line of source reported where the library has debugging information?"""
    path, behind = str(libraries["lines"]), inside(libraries["lines"], "behind")
    line = find_source_lines([(path, behind)])[path, behind]
    assert str(line) == f"work.c:{line.number} (behind)" and line.number in (3, 4, 5)


def test_an_object_that_is_not_there_has_offsets() -> None:
    """Is a place known by its offset where the file is gone, or nothing was written down?"""
    assert str(find_source_lines([("/none/lib.so", 64)])["/none/lib.so", 64]) == "lib.so+0x40"
    assert str(line_of_call({}, "MPI_Send", [("/none/lib.so", 64)])) == "lib.so+0x40"


def test_what_gives_names_is_reported_once(libraries: dict[str, Path]) -> None:
    """Is the package named that a file of the distribution is from, and what to do with a file of one's own?"""
    own = missing_names_advice([str(libraries["stripped"])] * 3)
    assert own.count("libwork.so") == 1 and "compiled with -g, not stripped" in own
    assert missing_names_advice([""]) == ""
    assert (
        missing_function_names_advice([SourceLine("a.c", 3, "f"), SourceLine(UNKNOWN_NAME, 0, "f", "lib.so", 3)]) == ""
    )
    if shutil.which("dpkg-query"):
        assert debugging_package("/bin/ls") == "coreutils-dbgsym"
        assert "install coreutils-dbgsym from Debian's debug archive" in missing_names_advice(["/bin/ls"])


def test_places_without_lines_differ() -> None:
    """Do tables, notes, JSON and SARIF have the offset of a call in a stripped library?"""
    lines = [
        SourceLine(UNKNOWN_NAME, 0, UNKNOWN_NAME, "/lib/libsolver.so.3", offset) for offset in (0x7BC163, 0x7BC1A0)
    ]
    table = _make_call_table(
        [RankSummary(0, calls=[CallSums("MPI_Allreduce", line) for line in lines])], shows_all=True
    )
    assert [texts[1].plain for texts, _ in table.rows] == ["libsolver.so.3+0x7bc163", "libsolver.so.3+0x7bc1a0"]
    note = Note(
        NoteRule("x", "A thing", ""), NotePlace("/lib/libsolver.so.3", 0, function="f", offset=0x7BC163), "it is"
    )
    assert note_text(note).startswith("/lib/libsolver.so.3+0x7bc163 (f): note: it is")
    assert notes_as_dicts([note])[0]["offset"] == 0x7BC163
    place = notes_as_sarif([note])["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["address"]["relativeAddress"] == 0x7BC163 and "region" not in place
