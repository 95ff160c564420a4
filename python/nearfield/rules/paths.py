"""The locations of rules: one file for one MPI, or a folder with one file per MPI. This module has almost no imports,
so that `nearfield run` starts quickly."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_RULES_FILE, DEFAULT_RULES_FOLDER = "rules.toml", "nearfield-rules"


def default_rules_path() -> Path:
    """Returns the path named by NEARFIELD_RULES, else `rules.toml` in the current folder, else the folder
    `nearfield-rules` in it."""
    if named := os.environ.get("NEARFIELD_RULES"):
        return Path(named)
    return (
        Path(DEFAULT_RULES_FOLDER)
        if Path(DEFAULT_RULES_FOLDER).is_dir() and not Path(DEFAULT_RULES_FILE).is_file()
        else Path(DEFAULT_RULES_FILE)
    )


def list_rules_files(path: Path) -> list[Path]:
    """Returns the file itself, or all rules files of a folder in alphabetical order."""
    return sorted(path.glob("*.toml")) if path.is_dir() else [path]
