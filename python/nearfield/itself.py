"""Makes command lines that start this nearfield again, which users can copy."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def command(*words: object, anywhere: bool = False) -> str:
    """Returns a verb and its arguments as a line for the shell, in this folder or in any."""
    return f"{program(anywhere)} {shlex.join(map(str, words))}"


def typed() -> str:
    """The command line that this process was started with, as people type it."""
    return shlex.join(["nearfield", *sys.argv[1:]])


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
