"""Makes command lines that start this nearfield again, which users can copy."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def command(*words: object, anywhere: bool = False) -> str:
    """Returns a verb and its arguments as a line for the shell, in this folder or in any."""
    return f"{program(anywhere)} {' '.join(quoted(str(word)) for word in words)}"


def typed() -> str:
    """The command line that this process was started with, as people type it."""
    return " ".join(["nearfield", *map(quoted, sys.argv[1:])])


def quoted(word: str) -> str:
    """Returns a word as the shell reads it, in characters that every file can hold: bytes that are not UTF-8, as names
    of files may have them, become $'\\xe9'."""
    try:
        word.encode()
        return shlex.quote(word)
    except UnicodeEncodeError:
        safe = "".join(chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\x{b:02x}" for b in os.fsencode(word))
        return f"$'{safe}'"


def program(anywhere: bool = False) -> str:
    """Returns nearfield's name if the shell finds this one by it, else the path by which it was called, else its module
    (in another program that has imported nearfield)."""
    installed = Path(sys.executable).with_name("nearfield")
    found = shutil.which("nearfield")
    called = Path(sys.argv[0]).absolute()
    if found and Path(found).absolute() in (installed, called):
        return "nearfield"
    if called.name == "nearfield" and called.is_file():
        return shlex.quote(str(called) if anywhere else sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m nearfield"
