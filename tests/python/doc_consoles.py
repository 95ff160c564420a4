"""The console blocks of README.md and docs/*.md: commands, and what they print, so that no page shows other digits.

A block is checked if this line stands before it:

    <!-- console: SETUP -->

SETUP is the name of a function in SETUPS, which makes the folder that the commands run in: `plain` if they need nothing
but files of the repository. A line "$ nearfield ..." is a command; the lines up to the next one are what it must print
to stdout. A line "..." stands for any lines. What depends on the speed of this host is left out of the comparison,
where a pattern of VARYING knows it.

python tests/python/doc_consoles.py    runs the commands and writes what they print into these pages
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))))
LONGEST_S = 170  # of one command on a loaded machine
_BLOCK = re.compile(r"(<!-- console: (\S+) -->\n```\n)(.*?)(```\n)", re.DOTALL)
VARYING = (re.compile(r"simulated in \S+ \S+: [\d,.]+( million)?"),)  # how fast this host is


def _plain(folder: Path) -> None:
    """Lets commands read the repository's files by the paths that the pages show."""
    for name in ("tests", "machines"):
        (folder / name).symlink_to(ROOT / name)


SETUPS: dict[str, Callable[[Path], None]] = {"plain": _plain}


@dataclass(frozen=True)
class Block:
    """A console block of a page."""

    page: str
    setup: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0][2:60]}"

    def printed(self) -> str:
        """Returns the block with what its commands print now."""
        with tempfile.TemporaryDirectory() as folder:
            SETUPS[self.setup](Path(folder))
            return "\n".join(_run(command, Path(folder)) for command in commands(self.text))


def blocks() -> list[Block]:
    """Returns the marked blocks of all pages."""
    return [
        Block(page, match[2], match[3]) for page in PAGES for match in _BLOCK.finditer((ROOT / page).read_text("utf-8"))
    ]


def commands(text: str) -> Iterator[str]:
    """Yields the commands of a block, without the dollar sign."""
    for line in text.splitlines():
        if line.startswith("$ "):
            yield line[2:]


def agree(shown: str, printed: str) -> bool:
    """Returns whether a block shows what is printed, but for what varies from run to run and lines left out."""
    parts = (re.escape(part) for part in re.split(r"^\.\.\.\n", _settled(shown), flags=re.MULTILINE))
    return re.fullmatch("(?:.*\n)*?".join(parts), _settled(printed)) is not None


def _settled(text: str) -> str:
    for pattern in VARYING:
        text = pattern.sub("(varies)", text)
    return text


def _run(command: str, folder: Path) -> str:
    program, *words = shlex.split(command, comments=True)
    if program != "nearfield":
        raise ValueError(f"a checked block runs nearfield, not {command}")
    done = subprocess.run(
        [sys.executable, "-m", "nearfield", *words], cwd=folder, capture_output=True, text=True, timeout=LONGEST_S,
        env={**os.environ, "COLUMNS": "120", "PYTHONPATH": ""}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"{command} ends with exit code {done.returncode}: {done.stderr}")
    return f"$ {command}\n{done.stdout.rstrip()}\n"


def _rewritten(page: str) -> str:
    """Returns the page with what its commands print now; a block that agrees with it stays."""

    def block(match: re.Match[str]) -> str:
        made = Block(page, match[2], match[3]).printed()
        return f"{match[1]}{match[3] if agree(match[3], made) else made}{match[4]}"

    return _BLOCK.sub(block, (ROOT / page).read_text("utf-8"))


if __name__ == "__main__":
    for name in PAGES:
        (ROOT / name).write_text(_rewritten(name), encoding="utf-8")
