"""Where rules lie: one file for one MPI, or a folder with a file for each. Imports next to nothing."""

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
    """Returns the file itself, or all of the folder, in the order of their names."""
    return sorted(path.glob("*.toml")) if path.is_dir() else [path]
