"""Prints the comment on a pull request, as Markdown, from what `nearfield compare` and `nearfield advise` printed.

    comment.py FOLDER COMMAND

FOLDER is what the script `measure` wrote: NAME.json (standard output), NAME.txt (standard error) and NAME.code (exit
code) for compare, observe and advise, and for tune and probe if they were run. A file that is missing or not JSON
becomes a sentence that says what failed. Nothing is called a gain, or free of losses, unless the command decided so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.paired import Gain
from nearfield.base.units import format_ns
from nearfield.cli.verbs.compare import verdict_on

MARKER = "<!-- nearfield: compare and advise -->"  # the first line, by which the next run finds the comment
MAX_NOTES = 10  # number of notes in the table; the rest is counted
MAX_LINES = 8  # number of lines of an error message
MAX_CHARACTERS = 60_000  # GitHub refuses a comment of more than 65,536 characters
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$@])")


def comment_text(folder: Path, command: str) -> str:
    """Returns the whole comment."""
    lines = [MARKER, "## MPI inside a node", "", f"Command: {_code(command)}", "", "### What tuning gains", ""]
    lines += _compare_lines(folder)
    lines += ["", "### Where the program loses time", ""]
    lines += _advise_lines(folder)
    text = "\n".join(lines)
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rpartition("\n")[0] + "\n\nThe rest is left out: see the log of the job."
    return text + "\n"


def _compare_lines(folder: Path) -> list[str]:
    """Returns the part on `nearfield compare`."""
    outcome = _printed(folder, "compare")
    if outcome is None:
        return _failure_lines(folder, "compare", ("tune",))
    gain = Gain(**{name: outcome["gain"][name] for name in ("value", "low", "high", "n")})
    lines = [f"**{_escape(verdict_on(gain))}** ({_escape(outcome['metric'])})"]
    if _code_of(folder, "compare") == NOT_DECIDED_EXIT_CODE:
        lines += ["", "Whether the tuned program is slower than allowed is **not decided**."]
    elif _code_of(folder, "compare") == 1:
        lines += ["", "The tuned program is **slower than allowed**."]
    if outcome["busy_share"] > 0.1:
        lines += ["", f"Other programs took {outcome['busy_share']:.0%} of the cores' time, which makes runs differ."]
    forecast = outcome["forecast"]
    if forecast and forecast["decided"]:
        lines += ["", f"MPI took {forecast['mpi_share']:.1%} of the first run."]
    return lines


def _advise_lines(folder: Path) -> list[str]:
    """Returns the part on `nearfield advise`."""
    found = _printed(folder, "advise")
    if found is None:
        return _failure_lines(folder, "advise", ("probe", "observe"))
    lines = [f"Warning: {_escape(warning)}" for warning in found["warnings"]]
    if not found["decided"]:
        lines.append("**Cannot tell**: no MPI call of this run could be judged.")
    if found["headline"]:
        lines.append(_escape(found["headline"]))
    lines = [line for pair in lines for line in (pair, "")]
    if notes := found["notes"]:
        lines += ["| lost | where | what | what to do |", "|---|---|---|---|"]
        lines += [_row(note) for note in notes[:MAX_NOTES]]
        if more := len(notes) - MAX_NOTES:
            lines += ["", f"{more} more notes are in the log of the job."] if more > 0 else []
    elif found["decided"] and not found["headline"]:
        lines.append("No loss is large enough for a note.")
    for note in found["undecided"]:
        lines += ["", f"Cannot tell: {_code(_place(note))}: {_escape(note['message'])}"]
    if remarks := found["remarks"]:
        lines += ["", "<details><summary>What was examined</summary>", ""]
        lines += [f"- {_escape(remark)}" for remark in remarks]
        lines += ["", "</details>"]
    return lines


def _row(note: dict[str, Any]) -> str:
    """Returns a note as a row of the table."""
    loss = note["loss"]
    lost = ""
    if loss:
        share = "" if loss["share"] is None else f", {loss['share'] * 100:.2g} %"
        lost = f"{format_ns(loss['seconds'] * 1e9)}{share}"
    cells = (_escape(lost), _code(_place(note)), _escape(note["message"]), _escape(note["advice"]))
    return f"| {' | '.join(cells)} |"


def _place(note: dict[str, Any]) -> str:
    """Returns the place of a note as 'src/a.c:12', with a path relative to the current folder if it lies below it."""
    path = Path(note["file"])
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    if note["line"]:
        return f"{path}:{note['line']}"
    return f"{path}+{note['offset']:#x}" if note["offset"] else str(path)


def _printed(folder: Path, name: str) -> dict[str, Any] | None:
    """Returns the JSON that a command printed; None if it printed none, since it failed."""
    if _code_of(folder, name) not in (0, 1, NOT_DECIDED_EXIT_CODE):
        return None
    try:
        printed = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return printed if isinstance(printed, dict) else None


def _code_of(folder: Path, name: str) -> int | None:
    """Returns the exit code of a command; None if it was not run."""
    try:
        return int((folder / f"{name}.code").read_text())
    except (OSError, ValueError):
        return None


def _failure_lines(folder: Path, name: str, before: Sequence[str]) -> list[str]:
    """Returns what a command that printed no result wrote instead, and the same of those of the commands `before` that
    failed, too."""
    lines = [f"**Cannot tell**: `nearfield {name}` ended with exit code {_code_of(folder, name)}."]
    for one in (*before, name):
        if _code_of(folder, one) in (None, 0):
            continue
        said = _error_text(folder, one)
        lines += ["", f"`nearfield {one}` wrote:", "", *(f"    {line}" for line in said)]
    return lines


def _error_text(folder: Path, name: str) -> list[str]:
    """Returns the last lines that a command wrote to standard error."""
    try:
        said = (folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ["nothing"]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in said.splitlines()]
    return [line for line in lines if line][-MAX_LINES:] or ["nothing"]


def _escape(text: str) -> str:
    """Returns a text so that Markdown shows it as it is, on one line, without links or mentions."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("\\@", "&#64;").replace("\\<", "&lt;")


def _code(text: str) -> str:
    """Returns a text as an HTML code span, in which Markdown changes nothing."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<code>{_SPECIAL.sub(lambda match: f'&#{ord(match[1])};', text) if text else ''}</code>"


if __name__ == "__main__":
    print(comment_text(Path(sys.argv[1]), sys.argv[2]), end="")
