"""Are files and folders whose names are not UTF-8 read, written and printed, also in a locale that has only ASCII?

Linux lets every byte but two stand in a name; such names come with archives from other systems.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reader import DATA, ROOT

from nearfield.base import own_command

LOCALES = {"C.UTF-8": {}, "C": {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}}
COMMANDS = [
    "show NAME/p",
    "show NAME/none",
    "diff NAME/p NAME/q",
    "report NAME/p -o NAME/page.html",
    "export --rules NAME/rules.toml -o NAME/tuned.sh",
    "run -v --force --rules NAME/rules.toml -- true",
    "machine check NAME/leo3.toml",
    "machine new --from leo3 -o NAME/new.toml",
    "simulate allreduce --nodes 4 --sizes 1K -o NAME/simulated",
    "plan 64x64x64 -n 4 --on NAME/leo3.toml",
]


@pytest.mark.parametrize("locale", LOCALES)
def test_names_that_are_not_utf_8(locale: str, tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xff\xe9")
    folder = tmp_path / name
    folder.mkdir()
    shutil.copytree(DATA / "epyc-vm-quiet", folder / "p")
    shutil.copytree(DATA / "epyc-vm-busy", folder / "q")
    shutil.copy(DATA / "rules" / "openmpi-5.0.11.toml", folder / "rules.toml")
    shutil.copy(ROOT / "machines/leo3.toml", folder)
    environment = {**os.environ, "LC_ALL": locale, **LOCALES[locale]}
    for words in COMMANDS:
        command = [sys.executable, "-m", "nearfield", *words.replace("NAME", name).split()]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=100)
        assert done.returncode in range(7), (words, done.stderr)
        assert b"Traceback" not in done.stderr, words
    made = {path.name for path in folder.iterdir()}
    assert {"page.html", "tuned.sh", "new.toml", "simulated"} <= made


def test_a_command_with_such_names_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the command that profiles and pages hold give a shell the same words, in characters of UTF-8?"""
    names = [b"n\xff\xe9", b"it's \\ \xe9\n", "höhe".encode(), b"plain"]
    monkeypatch.setattr(sys, "argv", ["nearfield", *map(os.fsdecode, names)])
    line = own_command.original_command_line()
    words = line.encode().removeprefix(b"nearfield ")
    shown = subprocess.run(["bash", "-c", b"printf '%s\\0' " + words], check=True, capture_output=True, timeout=30)
    assert shown.stdout.split(b"\0")[:-1] == names
