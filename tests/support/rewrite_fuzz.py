"""Compares every legal rewrite of random programs with the original (tests/fuzz_rewrite.py is the command)."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from random_programs import ARRAYS, RandomProgram, random_program
from rewrite_variants import RANKS, Candidate, Mismatch, compare_variants

from nearfield.mpi import Installation
from nearfield.rewrite import analyze
from nearfield.rewrite.check.build import CompileError, mpi_include_folders
from nearfield.rewrite.model.chunk_sizes import ChunkSizes


@dataclass
class Outcome:
    """What a run of the fuzzer has found. `crashes` have the seed and the traceback of the tool."""

    programs: int = 0
    variants: Counter[str] = field(default_factory=Counter)  # by transformation
    cases: int = 0
    missed: Counter[str] = field(default_factory=Counter)  # of programs without a variant, by reason
    mismatches: list[Mismatch] = field(default_factory=list)
    crashes: list[tuple[int, str]] = field(default_factory=list)
    unproved: int = 0  # variants whose text could not be proved

    def add(self, other: Outcome) -> None:
        self.programs += other.programs
        self.variants += other.variants
        self.cases += other.cases
        self.missed += other.missed
        self.mismatches += other.mismatches
        self.crashes += other.crashes
        self.unproved += other.unproved

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.variants.items()))
        return (
            f"{self.programs} programs, {self.variants.total()} variants ({kinds or 'none'}), "
            f"{sum(self.missed.values())} programs without any, {self.cases} cases: "
            f"{len(self.mismatches)} mismatches, {len(self.crashes)} crashes, {self.unproved} texts not proved"
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
            outcome.cases, outcome.mismatches = compare_variants(candidates, inst, ranks)
        except CompileError:
            _one_by_one(candidates, inst, ranks, outcome)
    return outcome


def _one_by_one(candidates: Sequence[Candidate], inst: Installation, ranks: Sequence[int], outcome: Outcome) -> None:
    """Compares variants each by itself, since one of them does not compile."""
    for candidate in candidates:
        for variant in candidate.variants:
            try:
                cases, mismatches = compare_variants([Candidate(candidate.program, (variant,))], inst, ranks)
                outcome.cases += cases
                outcome.mismatches += mismatches
            except CompileError as error:
                outcome.mismatches.append(
                    Mismatch(candidate.program, *variant, 0, f"does not compile: {error.message}")
                )


def pieces(program: RandomProgram) -> ChunkSizes:
    """Returns pieces of one to three elements."""
    bytes_of_piece = (1 + program.seed % 3) * (8 if program.element == "double" else 4)
    return ChunkSizes(bytes_of_piece, bytes_of_piece)


def _candidate(program: RandomProgram, path: Path, inst: Installation, outcome: Outcome) -> Candidate:
    path.write_text(program.text, encoding="utf-8")
    outcome.programs += 1
    arguments = [f"-I{folder}" for folder in mpi_include_folders(inst)]
    try:
        analysis = analyze(
            path, arguments, assume_noalias=ARRAYS, chunk_sizes=pieces(program), assume_uniform=("nx", "ny", "nz")
        )
    except Exception:
        outcome.crashes.append((program.seed, traceback.format_exc()))
        return Candidate(program, ())
    outcome.variants.update(patch.transformation for patch in analysis.patches)
    outcome.unproved += sum("could not be proved" in refusal.reason for refusal in analysis.missed)
    if not analysis.patches:
        outcome.missed.update({analysis.missed[0].reason if analysis.missed else "no reason given"})
    return Candidate(program, tuple((patch.transformation, patch.rewritten) for patch in analysis.patches))
