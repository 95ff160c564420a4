"""Judges the patches of one hostile program (tests/fuzz_hostile.py is the command)."""

from __future__ import annotations

import functools
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hostile_programs import hostile_program

from nearfield import mpi
from nearfield.base.errors import NearfieldError
from nearfield.mpi import Installation
from nearfield.rewrite import Patch, analyze
from nearfield.rewrite.check.build import Program, mpi_include_folders
from nearfield.rewrite.check.verify import Verifier
from nearfield.rewrite.model.schedules import TRANSFORMATION_NAMES as SCHEDULES
from nearfield.rewrite.placement import PLACEMENT_NAMES as PLACEMENTS

RANKS = (1, 2, 4)
RUNS = (("2",), ("9",))


@dataclass
class Judgement:
    """What became of a program. `counts` has: programs (1), patched (1 or 0), patches, wrong, crashed, not run."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@functools.cache
def fastest() -> Installation:
    """Returns an MPI whose programs start fast; what is judged depends on none."""
    found = mpi.find_usable_mpis()
    return next((one for one in found if one.family == "mpich"), found[0])


def judge(seed: int, ranks: Sequence[int] = RANKS, runs: Sequence[tuple[str, ...]] = RUNS) -> Judgement:
    """Returns what `rewrite` does with the program of this seed."""
    program, found, inst = hostile_program(seed), Judgement(seed, Counter(programs=1)), fastest()
    with TemporaryDirectory(prefix="nearfield-hostile-") as folder:
        path = Path(folder) / f"program{program.suffix}"
        path.write_text(program.text, encoding="utf-8")
        arguments = [*(f"-I{name}" for name in mpi_include_folders(inst)), *program.flags]
        try:
            patches = analyze(path, arguments, transformation_names=frozenset((*SCHEDULES, *PLACEMENTS))).patches
        except Exception:
            found.counts["crashed"] += 1
            found.faults.append(traceback.format_exc())
            return found
        found.counts.update({"patched": bool(patches), "patches": len(patches)})
        if patches:
            _verify(Program(path, program.flags, arguments_by_run=tuple(runs)), patches, ranks, inst, found)
    return found


def _verify(
    program: Program, patches: Sequence[Patch], ranks: Sequence[int], inst: Installation, found: Judgement
) -> None:
    with Verifier(program, patches[0].original, inst, rank_counts=ranks) as verifier:
        for patch in patches:
            try:
                verdict = verifier.verify(patch.rewritten, [one.rewritten for one in patches])
            except NearfieldError as error:
                found.counts["not run"] += 1
                found.faults.append(f"not run: {error}")
                return
            if not verdict.is_equivalent:
                found.counts["wrong"] += 1
                found.faults.append(
                    f"{patch.transformation} at {patch.changed_lines[0]}: {verdict.problem}\n{patch.diff}"
                )
