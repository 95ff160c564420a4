"""Compares every legal rewrite of random programs with the original, bit by bit.

    python tests/fuzz_rewrite.py --programs 2000

Each program runs on 1, 2 and 4 ranks with 7 sizes, in a ring and in a chain. The last line has the counts; the exit
code is 1 if a variant differs, hangs or crashes, or if the tool itself fails. Their texts are written into --out.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent / "python"))

from random_programs import ARRAYS, RandomProgram, random_program  # noqa: E402
from rewrite_variants import RANKS, Candidate, Mismatch, compared  # noqa: E402

from nearfield import mpi  # noqa: E402
from nearfield.mpi import Installation  # noqa: E402
from nearfield.rewrite import analyse  # noqa: E402
from nearfield.rewrite.build import CompileError, include_folders  # noqa: E402

BATCH = 25  # programs in one executable


@dataclass
class Outcome:
    """What a run of the fuzzer has found. `crashes` have the seed and the traceback of the tool."""

    programs: int = 0
    variants: Counter[str] = field(default_factory=Counter)  # by transformation
    cases: int = 0
    refusals: Counter[str] = field(default_factory=Counter)  # of programs without a variant, by reason
    mismatches: list[Mismatch] = field(default_factory=list)
    crashes: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.variants.items()))
        return (
            f"{self.programs} programs, {self.variants.total()} variants ({kinds or 'none'}), "
            f"{sum(self.refusals.values())} programs without any, {self.cases} cases: "
            f"{len(self.mismatches)} mismatches, {len(self.crashes)} crashes"
        )


def fuzz(seeds: Sequence[int], inst: Installation, ranks: Sequence[int] = RANKS) -> Outcome:
    """Returns what the analysis does with the programs of these seeds."""
    outcome = Outcome()
    with TemporaryDirectory(prefix="nearfield-fuzz-") as folder:
        path = Path(folder) / "program.c"
        analysed = [_candidate(random_program(seed), path, inst, outcome) for seed in seeds]
    candidates = [candidate for candidate in analysed if candidate.variants]
    if candidates:
        try:
            outcome.cases, outcome.mismatches = compared(candidates, inst, ranks)
        except CompileError:
            _one_by_one(candidates, inst, ranks, outcome)
    return outcome


def _one_by_one(candidates: Sequence[Candidate], inst: Installation, ranks: Sequence[int], outcome: Outcome) -> None:
    """Compares variants each by itself, since one of them does not compile."""
    for candidate in candidates:
        for variant in candidate.variants:
            try:
                cases, mismatches = compared([Candidate(candidate.program, (variant,))], inst, ranks)
                outcome.cases += cases
                outcome.mismatches += mismatches
            except CompileError as error:
                outcome.mismatches.append(
                    Mismatch(candidate.program, *variant, 0, f"does not compile: {error.message}")
                )


def _candidate(program: RandomProgram, path: Path, inst: Installation, outcome: Outcome) -> Candidate:
    path.write_text(program.text, encoding="utf-8")
    outcome.programs += 1
    arguments = [f"-I{folder}" for folder in include_folders(inst)]
    try:
        analysis = analyse(path, arguments, assume_noalias=ARRAYS)
    except Exception:
        outcome.crashes.append((program.seed, traceback.format_exc()))
        return Candidate(program, ())
    outcome.variants.update(patch.transformation for patch in analysis.patches)
    if not analysis.patches:
        outcome.refusals.update({analysis.refusals[0].reason if analysis.refusals else "no reason given"})
    return Candidate(program, tuple((patch.transformation, patch.rewritten) for patch in analysis.patches))


def _write(outcome: Outcome, folder: Path) -> None:
    """Writes the texts of what went wrong."""
    for seed, text in outcome.crashes:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"crash-{seed}.c").write_text(random_program(seed).text + f"\n/*\n{text}*/\n")
    for number, wrong in enumerate(outcome.mismatches):
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"mismatch-{wrong.program.seed}-{wrong.variant}-{number}"
        (folder / f"{stem}-original.c").write_text(wrong.program.text)
        (folder / f"{stem}-rewritten.c").write_text(f"// {wrong.ranks} ranks: {wrong.says}\n{wrong.text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--mpi", default=None, help="name of the MPI")
    parser.add_argument("--out", type=Path, default=Path("fuzz-rewrite"), help="folder for texts that went wrong")
    options = parser.parse_args()
    inst, whole, start = mpi.choose(options.mpi), Outcome(), time.monotonic()
    for first in range(options.first, options.first + options.programs, BATCH):
        last = min(first + BATCH, options.first + options.programs)
        one = fuzz(range(first, last), inst)
        _write(one, options.out)
        whole.programs += one.programs
        whole.variants += one.variants
        whole.cases += one.cases
        whole.refusals += one.refusals
        whole.mismatches += one.mismatches
        whole.crashes += one.crashes
        print(f"seeds to {last - 1}, {time.monotonic() - start:.0f} s: {whole}", flush=True)
    for reason, count in whole.refusals.most_common(12):
        print(f"  without a variant: {count} programs: {reason}")
    print(whole)
    return 1 if whole.mismatches or whole.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
