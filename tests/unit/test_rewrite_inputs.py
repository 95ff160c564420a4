"""Does `nearfield rewrite` end with an error that names the cause, and no traceback, if it is given what it cannot
read; and are its diffs right whatever characters a file has?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs import app
from nearfield.rewrite.frontend.compile_commands import compiler_arguments_of, listed_source_files

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"


@pytest.mark.parametrize("name", ["heat.f90", "heat.F", "heat.f"])
def test_fortran_is_refused_with_what_else_there_is(tmp_path: Path, name: str) -> None:
    """Does a program in Fortran get the message that only C and C++ can be rewritten, and what there is for it?"""
    (tmp_path / name).write_text("program heat\nend program\n")
    error = CliRunner().invoke(app, ["rewrite", str(tmp_path / name)]).exception
    assert isinstance(error, UsageError) and "only C and C++ can be rewritten" in str(error)
    assert all(word in str(error.remedy) for word in ("tune", "run", "compare", "observe", "advise", "halo"))


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
@pytest.mark.parametrize("character", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_a_diff_applies_whatever_separates_words(tmp_path: Path, character: str) -> None:
    """Does the printed diff apply to a file with characters at which Python breaks lines, but no compiler does?"""
    file = tmp_path / "listing.c"
    file.write_text(LISTING.read_text().replace("int main", f"/* {character} */\nint main", 1), encoding="utf-8")
    diff = CliRunner().invoke(app, ["rewrite", str(file), "--only", "warm-send"]).stdout_bytes
    done = subprocess.run(["patch", "-p1", "-d", "/", "--dry-run"], input=diff, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page, sarif = tmp_path / "page.html", tmp_path / "notes.sarif"
    words = ["rewrite", str(file), "--only", "warm-send", "--report", str(page), "--sarif", str(sarif)]
    assert CliRunner().invoke(app, words).exit_code == 0
    (note,) = json.loads(sarif.read_text())["runs"][0]["results"]
    (change,) = note["fixes"][0]["artifactChanges"][0]["replacements"]
    first, last = change["deletedRegion"]["startLine"], change["deletedRegion"].get("endLine")
    lines = file.read_text(encoding="utf-8").split("\n")
    assert "MPI_Sendrecv" in lines[first - 1] and "tmp[i][j]" in "\n".join(lines[first - 1 : last])


def test_a_name_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    """Does a file whose name libclang cannot take end with a message, and not with a traceback?"""
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.c"))
    try:
        file.write_text(LISTING.read_text())
    except OSError:
        pytest.skip("this file system has only names that are UTF-8")
    error = CliRunner().invoke(app, ["rewrite", str(file)]).exception
    assert isinstance(error, UsageError) and "not UTF-8" in str(error), error
    str(error).encode()  # it can be printed


GOOD = {"directory": "/", "file": "good.c", "command": "cc -c good.c"}
DAMAGED: dict[str, tuple[dict[str, Any] | list[Any] | str | int, str]] = {
    "NUL in a name": ({**GOOD, "file": "x\0.c"}, "'file' has a NUL"),
    "NUL in a folder": ({**GOOD, "directory": "/x\0"}, "'directory' has a NUL"),
    "lone surrogate in a name": ({**GOOD, "file": "\ud800.c"}, "lone surrogate"),
    "lone surrogate in an argument": ({**GOOD, "arguments": ["cc", "-D\udc00"]}, "lone surrogate"),
    "unclosed quote": ({**GOOD, "command": "cc -D'x good.c"}, "'command' cannot be split into words"),
    "number for arguments": ({**GOOD, "arguments": 7}, "'arguments' is no list"),
    "number among arguments": ({**GOOD, "arguments": ["cc", 7]}, "'arguments' has 7 in place"),
    "number for a file": ({**GOOD, "file": 7}, "'file' has 7 in place"),
    "list for a file": ({**GOOD, "file": [7]}, "'file' has [7] in place"),
    "null for a command": ({**GOOD, "command": None}, "'command' has null in place"),
    "long name": ({**GOOD, "file": "x" * 5000}, "'file' names no file"),
    "text for an entry": ("good.c", "it is no object"),
    "list for an entry": ([], "it is no object"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_entry_is_named(tmp_path: Path, name: str) -> None:
    """Does an error name the file and the number of the damaged entry, whatever is read from the file?"""
    entry, said = DAMAGED[name]
    database = tmp_path / "compile_commands.json"
    database.write_text(json.dumps([GOOD, entry]))
    for read in (lambda: compiler_arguments_of(LISTING, tmp_path), lambda: listed_source_files(database)):
        with pytest.raises(UsageError) as raised:
            read()
        assert str(raised.value).startswith(f"{database}, entry 2: ") and said in str(raised.value)
        str(raised.value).encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [("[" * 200_000, "nested too deeply"), ("[1,", "is no JSON"), ("{}", "is no list"), ("7", "is no list"),
     (b"\xff\xfe[]", "is no JSON")],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, text: str | bytes, said: str) -> None:
    database = tmp_path / "compile_commands.json"
    database.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as raised:
        compiler_arguments_of(LISTING, database)
    assert str(database) in str(raised.value) and said in str(raised.value)


def test_only_reasons_about_requested_records_are_printed(tmp_path: Path) -> None:
    """With a patch in hand: are other places counted in one line, and explained with -v only?"""
    text = LISTING.read_text()
    other = (
        "void other(double *a, double *b, int n, int up) {\n  MPI_Send(a, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);\n"
        "  for (int i = 0; i < n; i++) b[i] = a[i];\n}\n"
    )
    file = tmp_path / "two.c"
    file.write_text(text.replace("int main", f"{other}int main", 1))
    plain, verbose = (CliRunner().invoke(app, ["rewrite", str(file), *more]).output for more in ([], ["-v"]))
    assert "communication stays" not in plain and "1 other place is not changed (-v prints the reasons)." in plain
    assert "communication stays where it is" in verbose and "-v prints" not in verbose
