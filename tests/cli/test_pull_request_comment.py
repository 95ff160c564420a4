"""Does the comment on a pull request say what `compare` and `advise` decided, and nothing that they did not?

The outputs in tests/data/pull_request are recorded ones; each test changes a copy where it needs another outcome."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging/github-action/comment.py"
RECORDED = ROOT / "tests/data/pull_request"


def recorded(folder: Path, name: str) -> Path:
    """Returns a copy of recorded outputs."""
    return Path(shutil.copytree(RECORDED / name, folder / name))


def comment(folder: Path, command: str = "mpirun -n 2 ./app") -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, command], capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
    return done.stdout


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def compare_outcome(folder: Path, low: float, high: float, code: int, n: int = 10) -> None:
    """Lets `compare` have had this interval and exit code."""
    change(folder / "compare.json", gain={"value": (low + high) / 2, "low": low, "high": high, "n": n})
    (folder / "compare.code").write_text(str(code))


def test_a_busy_runner_decides_nothing(tmp_path: Path) -> None:
    """Does each part say that it cannot tell, and why?"""
    text = comment(recorded(tmp_path, "busy"))
    assert "no difference that these runs can show" in text and "**not decided**" in text
    assert "Other programs took 100% of the cores' time" in text
    assert "**Cannot tell**: no MPI call of this run could be judged." in text
    assert "faster" not in text and "No loss" not in text and "| lost |" not in text


@pytest.mark.parametrize(
    ("interval", "code", "words", "absent"),
    [
        ((1.2, 1.3), 0, "tuned is faster: 1.250x", "slower"),
        ((0.8, 0.9), 1, "**slower than allowed**", "faster"),
        ((0.8, 0.9), 0, "tuned is slower: 0.850x", "than allowed"),
        ((0.9, 1.1), 6, "**not decided**", "faster"),
    ],
)
def test_a_verdict_is_that_of_compare(
    interval: tuple[float, float], code: int, words: str, absent: str, tmp_path: Path
) -> None:
    folder = recorded(tmp_path, "busy")
    compare_outcome(folder, *interval, code)
    part = comment(folder).partition("### Where")[0]
    assert words in part and absent not in part


def test_too_few_runs_are_no_verdict(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "busy")
    compare_outcome(folder, 1.2, 1.3, 0, n=5)
    text = comment(folder)
    assert "a verdict needs at least 6 runs of each" in text and "faster" not in text


def test_notes_become_rows(tmp_path: Path) -> None:
    """Does each note have the loss, the line and the advice, and is the failed `compare` shown with its message?"""
    text = comment(recorded(tmp_path, "noted"))
    rows = [line for line in text.splitlines() if line.startswith("| 1")]
    assert len(rows) == 2 and all(row.count("|") == 5 for row in rows)
    assert "171 us, 0.42 %" in rows[0] and "advised.c:32</code>" in rows[0] and "cold send: 10 MiB" in rows[0]
    assert (
        "`nearfield compare` ended with exit code 2." in text and "    error: there are no rules at nosuch.toml" in text
    )


def test_many_notes_are_counted(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "noted")
    note = json.loads((folder / "advise.json").read_text())["notes"][0]
    change(folder / "advise.json", notes=[note] * 13)
    text = comment(folder)
    assert text.count("cold send") == 10 and "3 more notes" in text


def test_no_loss_is_said_only_if_all_was_judged(tmp_path: Path) -> None:
    """Is a run without notes called free of losses only by the headline of `advise`, or without one?"""
    folder = recorded(tmp_path, "noted")
    change(folder / "advise.json", notes=[])
    assert "No loss is large enough for a note." in comment(folder)
    change(folder / "advise.json", notes=[], headline="cannot tell for 3 of 8 calls")
    assert "No loss" not in comment(folder) and "cannot tell for 3 of 8 calls" in comment(folder)


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "not a table", "no code", "code 5"])
def test_a_command_without_a_result_is_a_failure(damage: str, tmp_path: Path) -> None:
    """Is nothing said of the program if the output is damaged, missing, or of a command that failed?"""
    folder = recorded(tmp_path, "busy")
    for name in ("compare", "advise"):
        file, code = folder / f"{name}.json", folder / f"{name}.code"
        if damage == "missing":
            file.unlink()
        elif damage == "no code":
            code.unlink()
        elif damage == "code 5":
            code.write_text("5")
        else:
            file.write_text({"empty": "", "cut": file.read_text()[:-9], "not a table": "[]"}[damage])
    text = comment(folder)
    assert text.count("**Cannot tell**: `nearfield") == 2 and "of the baseline" not in text and "No loss" not in text


def test_what_was_measured_before_is_blamed_if_it_failed(tmp_path: Path) -> None:
    """Are the messages of `tune` and `probe` shown if these failed first?"""
    folder = recorded(tmp_path, "noted")
    (folder / "tune.code").write_text("3")
    (folder / "tune.txt").write_text("\x1b[31merror: no usable MPI\x1b[0m\n\n")
    assert "`nearfield tune` wrote:\n\n    error: no usable MPI\n" in comment(folder)


def test_nothing_in_a_name_becomes_markdown(tmp_path: Path) -> None:
    """Are mentions, links, tables and tags in a command, a path or a message shown as they are?"""
    folder = recorded(tmp_path, "noted")
    evil = "a|b <img src=x> @all [x](y) `c` </code>\n## h"
    note = {
        **json.loads((folder / "advise.json").read_text())["notes"][0],
        "message": evil,
        "advice": evil,
        "file": evil,
    }
    change(folder / "advise.json", notes=[note], warnings=[evil], remarks=[evil], headline=evil)
    text = comment(folder, evil)
    for mark in ("<img", "@all", " [x](y)", "`c`", "\n## h", "a|b"):
        assert mark not in text, mark
    assert text.count("</code>") == text.count("<code>") == 2


def test_a_long_comment_fits(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "noted")
    change(folder / "advise.json", remarks=["x" * 200] * 600)
    text = comment(folder)
    assert len(text) < 65_536 and text.endswith("The rest is left out: see the log of the job.\n")
    assert text.startswith("<!-- nearfield: compare and advise -->\n")
