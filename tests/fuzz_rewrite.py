"""Compares every legal rewrite of random programs with the original, bit by bit.

    python tests/fuzz_rewrite.py --programs 2000
    python tests/fuzz_rewrite.py --bugs --programs 200

Each program runs on 1, 2 and 4 ranks with 7 sizes, in a ring and in a chain. The last line has the counts; the exit
code is 1 if a variant differs, hangs or crashes, or if the tool itself fails. Their texts are written into --out.
With --bugs each mistake of tests/injected_bugs/rewrite.toml must be noticed: by a variant that differs, or because
texts that were proved before can no longer be. The exit code is 1 if one is not.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent / "python"))

import injected  # noqa: E402

if "--bug" in sys.argv:  # before anything of nearfield is imported
    injected.install(sys.argv[sys.argv.index("--bug") + 1])

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
    unproved: int = 0  # variants whose text could not be proved

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.variants.items()))
        return (
            f"{self.programs} programs, {self.variants.total()} variants ({kinds or 'none'}), "
            f"{sum(self.refusals.values())} programs without any, {self.cases} cases: "
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
    outcome.unproved += sum("could not be proved" in refusal.reason for refusal in analysis.refusals)
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


def _bugs(options: argparse.Namespace) -> int:
    """Runs the fuzzer without and with each injected bug, and returns 1 if one is not noticed."""
    before, missed = _counts(options, []), 0
    for name in injected.BUGS:
        counts = _counts(options, ["--bug", name])
        is_noticed = any(now > then for now, then in zip(counts, before, strict=True))
        missed += not is_noticed
        found = f"{counts[0]} mismatches, {counts[1]} crashes, {counts[2]} texts not proved"
        print(f"{'noticed' if is_noticed else 'NOT NOTICED'}: {name}: {found}", flush=True)
    return 1 if missed else 0


def _counts(options: argparse.Namespace, more: Sequence[str]) -> list[int]:
    """Returns how many mismatches, crashes and unproved texts another process finds."""
    given = ["--programs", str(options.programs), "--first", str(options.first), "--out", str(options.out)]
    command = [sys.executable, __file__, *given, *more]
    last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()[-1]
    return [int(number) for number in re.findall(r"(\d+) (?:mismatches|crashes|texts)", last)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--mpi", default=None, help="name of the MPI")
    parser.add_argument("--bugs", action="store_true", help="look whether injected bugs are noticed")
    parser.add_argument("--bug", metavar="NAME", help="work with one bug, and stop where it shows")
    parser.add_argument("--out", type=Path, default=Path("fuzz-rewrite"), help="folder for texts that went wrong")
    options = parser.parse_args()
    if options.bugs:
        return _bugs(options)
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
        whole.unproved += one.unproved
        print(f"seeds to {last - 1}, {time.monotonic() - start:.0f} s: {whole}", flush=True)
        if options.bug and (whole.mismatches or whole.unproved):
            break
    for reason, count in whole.refusals.most_common(12):
        print(f"  without a variant: {count} programs: {reason}")
    print(whole)
    return 1 if whole.mismatches or whole.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
