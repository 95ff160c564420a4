"""Files that look old."""

import os
import time
from pathlib import Path

HOUR_S = 3600.0


def make_old(path: Path, age_s: float = HOUR_S) -> None:
    """Sets the time of the last change of a file, or of a folder and all that is in it."""
    then = time.time() - age_s
    for one in [*path.rglob("*"), path]:
        os.utime(one, (then, then), follow_symlinks=False)
