"""Where rules are stored: in one file for one MPI, or in a folder with a file for each MPI. This module imports next to
nothing, so that `nearfield run` starts quickly."""

from __future__ import annotations

import os
from pathlib import Path

FILE, FOLDER = "rules.toml", "nearfield-rules"


def default_rules() -> Path:
    """Returns what NEARFIELD_RULES names, else `rules.toml` in this folder, else the folder `nearfield-rules` in it."""
    if named := os.environ.get("NEARFIELD_RULES"):
        return Path(named)
    return Path(FOLDER) if Path(FOLDER).is_dir() and not Path(FILE).is_file() else Path(FILE)


def rules_files(path: Path) -> list[Path]:
    """Returns the file itself, or all rules files of a folder in the order of their names."""
    return sorted(path.glob("*.toml")) if path.is_dir() else [path]
