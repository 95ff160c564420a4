"""Replaces a piece of a module of nearfield.rewrite when it is loaded, by tests/injected_bugs/rewrite.toml."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tomlkit

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "nearfield" / "rewrite"
BUGS: dict[str, dict[str, Any]] = {
    bug["name"]: bug
    for bug in tomlkit.parse((ROOT / "tests" / "injected_bugs" / "rewrite.toml").read_text()).unwrap()["bug"]
}


def changed(bug: dict[str, Any]) -> str:
    """Returns the text of the module with the bug."""
    text = (PACKAGE / bug["file"]).read_text()
    assert text.count(bug["old"]) == 1, f"'{bug['old']}' occurs {text.count(bug['old'])} times in {bug['file']}"
    return str(text.replace(bug["old"], bug["new"]))


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from a changed text."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> object:
        return compile(self._text, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, bug: dict[str, Any]) -> None:
        self._name = f"nearfield.rewrite.{Path(bug['file']).stem}"
        self._loader = _Loader(self._name, str(PACKAGE / bug["file"]), changed(bug))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._loader.path, loader=self._loader)


def install(name: str) -> None:
    """Makes every later import of the bug's module get the bug."""
    sys.meta_path.insert(0, _Finder(BUGS[name]))
