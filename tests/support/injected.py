"""Replaces a piece of a module of nearfield when it is loaded, by one of the files of tests/injected_bugs.

As a plugin of pytest (`-p injected`) it injects the mistake that NEARFIELD_INJECTED_BUG names, as FILE:NAME.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tomlkit

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "rewrite": "rewrite",
    "hostile": "rewrite",
    "proof": "rewrite",
    "rewrite_refusals": "rewrite",
    "judgement": "rules",
}  # file of mistakes -> the package of those that name none
Bug = dict[str, Any]


def bugs_of(file: str) -> dict[str, Bug]:
    """Returns the mistakes of tests/injected_bugs/FILE.toml by name."""
    listed = tomlkit.parse((ROOT / "tests" / "injected_bugs" / f"{file}.toml").read_text()).unwrap()["bug"]
    return {bug["name"]: {"package": PACKAGES[file], **bug} for bug in listed}


BUGS = bugs_of("rewrite")


def _file_of(bug: Bug) -> Path:
    return ROOT / "python" / "nearfield" / bug["package"] / bug["file"]


def inject(bug: Bug) -> str:
    """Returns the text of the module with the bug."""
    text = _file_of(bug).read_text()
    assert text.count(bug["old"]) == 1, f"'{bug['old']}' occurs {text.count(bug['old'])} times in {bug['file']}"
    return str(text.replace(bug["old"], bug["new"]))


def last_line_of_tests(bug: str, *arguments: str | Path) -> str:
    """Returns the last line of pytest with these arguments and a mistake, FILE:NAME; with "", of pytest without one."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "injected", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "NEARFIELD_INJECTED_BUG": bug}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [done.stderr])[-1]


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from a changed text."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> object:
        return compile(self._text, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, bug: Bug) -> None:
        self._name = f"nearfield.{bug['package']}.{'.'.join(Path(bug['file']).with_suffix('').parts)}"
        self._loader = _Loader(self._name, str(_file_of(bug)), inject(bug))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._loader.path, loader=self._loader)


def install(bug: Bug) -> None:
    """Makes every later import of the bug's module get the bug."""
    sys.meta_path.insert(0, _Finder(bug))


if found := os.environ.get("NEARFIELD_INJECTED_BUG"):
    file, _, name = found.partition(":")
    install(bugs_of(file)[name])
