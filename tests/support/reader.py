"""A reader of files: how a whole set of files is made, which of them to damage, and what reads them.

A use is a command line of nearfield, in which {} is the folder, or a function of the folder for what a command reads
only after it has started an MPI.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mutations import FORMATS, PLACES, put_in_place

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
Use = list[str] | Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """How one kind of file is made, damaged and read."""

    name: str
    seed: Callable[[Path], None]  # makes the files in a new folder
    files: dict[str, str]  # the files to damage -> their format in mutations.FORMATS
    uses: list[Use]
    places: tuple[str, ...] = PLACES  # what may stand in a file's place
    mend: Callable[[Path, random.Random], None] = field(default=lambda folder, chance: None)  # makes checksums right

    def damage(self, folder: Path, number: int) -> tuple[Path, Use]:
        """Damages one file of the folder, always the same for the same number. Returns it, and what shall read it."""
        chance = random.Random(f"{self.name} {number}")
        file = folder / chance.choice(list(self.files))
        if chance.random() < 0.02:
            put_in_place(chance.choice(self.places), file)
        else:
            content = file.read_bytes()
            for _ in range(chance.choice([1, 1, 1, 2, 3])):
                content = chance.choice(FORMATS[self.files[file.relative_to(folder).as_posix()]])(chance, content)
            file.write_bytes(content)
            self.mend(folder, chance)
        return file, chance.choice(self.uses)
