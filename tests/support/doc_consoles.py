"""The console blocks of README.md and of the pages below docs/: commands, and what they print.

A console block is one that is fenced as `console`, or that has a line "$ COMMAND". A comment before it says where its
digits are from:

    <!-- console: SETUP -->                 the commands are run, and must print what stands there
    <!-- measured: MACHINE, COMMAND -->     measured once, there, by that command

SETUP is the name of a function in SETUPS, which makes the folder that the commands run in: `plain` if they need nothing
but files of the repository, `programs` if they rewrite programs (then what goes to stderr is shown, too). A line
"$ nearfield ..." is a command; the lines up to the next one are what it must print to stdout. A line "..." stands for
any lines. What depends on the speed of this host is left out of the comparison, where a pattern of VARYING knows it. A
page that is generated whole is not among PAGES.

python tests/support/doc_consoles.py    runs the commands and writes what they print into these pages
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))))
LONGEST_S = 170  # of one command on a loaded machine
_BLOCK = re.compile(r"(<!-- console: (\S+) -->\n```console\n)(.*?)(```\n)", re.DOTALL)
_FENCED = re.compile(
    r"(?P<before>^[^\n]*\n)?^(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE
)
_MEASURED = re.compile(r"<!-- measured: [^,]+, .+ -->")
VARYING = (re.compile(r"simulated in \S+ \S+: [\d,.]+( million)?"),)  # how fast this host is


def _plain(folder: Path) -> None:
    """Lets commands read the repository's files by the paths that the pages show."""
    for name in ("tests", "machines"):
        (folder / name).symlink_to(ROOT / name)


def _programs(folder: Path) -> None:
    """Puts the programs that `rewrite` is shown with into the folder."""
    for source in (ROOT / "tests/programs/listing1.c", *(ROOT / "tests/data/documented").glob("*.c")):
        shutil.copy(source, folder)


SETUPS: dict[str, Callable[[Path], None]] = {"plain": _plain, "programs": _programs}
WITH_STDERR = ("programs",)  # whose notes belong to what is shown


@dataclass(frozen=True)
class Block:
    """A console block of a page."""

    page: str
    setup: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0][2:60]}"

    def render(self) -> str:
        """Returns the block with what its commands print now."""
        with tempfile.TemporaryDirectory() as folder:
            SETUPS[self.setup](Path(folder))
            errors = subprocess.STDOUT if self.setup in WITH_STDERR else subprocess.PIPE
            return "\n".join(_run(command, Path(folder), errors) for command in commands(self.text))


def blocks() -> list[Block]:
    """Returns the marked blocks of all pages."""
    return [
        Block(page, match[2], match[3]) for page in PAGES for match in _BLOCK.finditer((ROOT / page).read_text("utf-8"))
    ]


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page, with the line before it."""

    page: str
    before: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.strip().splitlines()[0][:60] if self.text.strip() else ''}"

    @property
    def is_console(self) -> bool:
        """Says whether it shows what a command printed."""
        return self.language == "console" or re.search(r"^\$ ", self.text, re.MULTILINE) is not None

    @property
    def says_whence(self) -> bool:
        """Says whether its output is checked, or marked as measured."""
        checked = re.fullmatch(rf"<!-- console: ({'|'.join(SETUPS)}) -->", self.before)
        return checked is not None or _MEASURED.fullmatch(self.before) is not None


def fences() -> list[Fence]:
    """Returns all fenced blocks of all pages."""
    return [
        Fence(page, (match["before"] or "").strip(), match["language"].strip(), match["text"])
        for page in PAGES
        for match in _FENCED.finditer((ROOT / page).read_text("utf-8"))
    ]


def commands(text: str) -> Iterator[str]:
    """Yields the commands of a block, without the dollar sign."""
    for line in text.splitlines():
        if line.startswith("$ "):
            yield line[2:]


def agree(shown: str, printed: str) -> bool:
    """Returns whether a block shows what is printed, but for what varies from run to run and lines left out."""
    parts = (re.escape(part) for part in re.split(r"^\.\.\.\n", _mask_varying(shown), flags=re.MULTILINE))
    return re.fullmatch("(?:.*\n)*?".join(parts), _mask_varying(printed)) is not None


def _mask_varying(text: str) -> str:
    for pattern in VARYING:
        text = pattern.sub("(varies)", text)
    return text


def _run(command: str, folder: Path, errors: int) -> str:
    program, *words = shlex.split(command, comments=True)
    if program != "nearfield":
        raise ValueError(f"a checked block runs nearfield, not {command}")
    done = subprocess.run(
        [sys.executable, "-m", "nearfield", *words], cwd=folder, stdout=subprocess.PIPE, stderr=errors,
        text=True, timeout=LONGEST_S, env={**os.environ, "COLUMNS": "120", "PYTHONPATH": ""}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"{command} ends with exit code {done.returncode}: {done.stderr or done.stdout}")
    return f"$ {command}\n{done.stdout.rstrip()}\n"


def _rewritten(page: str) -> str:
    """Returns the page with what its commands print now; a block that agrees with it stays."""

    def block(match: re.Match[str]) -> str:
        made = Block(page, match[2], match[3]).render()
        return f"{match[1]}{match[3] if agree(match[3], made) else made}{match[4]}"

    return _BLOCK.sub(block, (ROOT / page).read_text("utf-8"))


if __name__ == "__main__":
    for name in PAGES:
        (ROOT / name).write_text(_rewritten(name), encoding="utf-8")
