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
from collections.abc import Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

import injected  # noqa: E402

if "--bug" in sys.argv:  # before anything of nearfield is imported
    injected.install(injected.BUGS[sys.argv[sys.argv.index("--bug") + 1]])

from random_programs import random_program  # noqa: E402
from rewrite_fuzz import Outcome, fuzz  # noqa: E402

from nearfield import mpi  # noqa: E402

BATCH = 25  # programs in one executable


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
    missed = 0
    for name, bug in injected.BUGS.items():
        given = ["--first", bug.get("seed", options.first), "--programs", options.programs if "seed" not in bug else 1]
        before, counts = _counts(options, given), _counts(options, [*given, "--bug", name])
        dropped = max(0, before["variants"] - counts["variants"])
        is_noticed = dropped > 0 or any(counts[word] > before[word] for word in ("mismatches", "crashes", "texts"))
        missed += not is_noticed
        found = f"{counts['mismatches']} mismatches, {counts['crashes']} crashes, {dropped} variants not proved"
        print(f"{'noticed' if is_noticed else 'NOT NOTICED'}: {name}: {found}", flush=True)
    return 1 if missed else 0


@cache
def _run(*words: str) -> dict[str, int]:
    """Returns how many variants, mismatches, crashes and unproved texts another process finds."""
    command = [sys.executable, __file__, *words]
    last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (variants|mismatches|crashes|texts)", last)}


def _counts(options: argparse.Namespace, given: Sequence[object]) -> dict[str, int]:
    return _run("--out", str(options.out), *map(str, given))


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
    inst, whole, start = mpi.choose_mpi(options.mpi), Outcome(), time.monotonic()
    for first in range(options.first, options.first + options.programs, BATCH):
        last = min(first + BATCH, options.first + options.programs)
        one = fuzz(range(first, last), inst)
        _write(one, options.out)
        whole.add(one)
        print(f"seeds to {last - 1}, {time.monotonic() - start:.0f} s: {whole}", flush=True)
        if options.bug and whole.mismatches:
            break
    for reason, count in whole.missed.most_common(12):
        print(f"  without a variant: {count} programs: {reason}")
    print(whole)
    return 1 if whole.mismatches or whole.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
