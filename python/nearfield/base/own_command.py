"""Command lines that start this nearfield, for messages that tell the user to run a command."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def command_line(*arguments: object, works_in_any_folder: bool = False) -> str:
    """Returns the shell command that runs nearfield with these words (a verb and its arguments). The command works in
    this folder or, with `works_in_any_folder`, in every folder."""
    return f"{own_executable(works_in_any_folder)} {' '.join(quote_for_shell(str(word)) for word in arguments)}"


def original_command_line() -> str:
    """Returns the command line of this process as a user would type it."""
    return " ".join(["nearfield", *map(quote_for_shell, sys.argv[1:])])


def quote_for_shell(word: str) -> str:
    """Returns a word quoted for the shell. A word with bytes that are not UTF-8 (from file names) becomes $'\\xe9'
    syntax, so that the result is valid text for any file."""
    try:
        word.encode()
        return shlex.quote(word)
    except UnicodeEncodeError:
        safe = "".join(chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\x{b:02x}" for b in os.fsencode(word))
        return f"$'{safe}'"


def own_executable(works_in_any_folder: bool = False) -> str:
    """Returns the command that starts this nearfield: its name if it is the one on PATH, otherwise the path by which it
    was called. In another program that has imported nearfield, returns `python -m nearfield`."""
    installed = Path(sys.executable).with_name("nearfield")
    found = shutil.which("nearfield")
    called = Path(sys.argv[0]).absolute()
    if found and Path(found).absolute() in (installed, called):
        return "nearfield"
    if called.name == "nearfield" and called.is_file():
        return shlex.quote(str(called) if works_in_any_folder else sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m nearfield"
