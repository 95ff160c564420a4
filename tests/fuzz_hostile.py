"""Lets `nearfield rewrite` write patches for random hostile programs, and runs each patch beside the original.

    python tests/fuzz_hostile.py --programs 5000 --jobs 2
    python tests/fuzz_hostile.py --bugs --programs 40

Each program (tests/support/hostile_programs.py) is analysed as it is, without assumptions. Each of its patches is
verified by `rewrite --verify` on 1, 2 and 4 ranks with two sizes: receives reach their buffers at completion only,
buffers of messages are watched, and all results, the memory and which write each read saw are compared. The last line
has the counts; the exit code is 1 if a patch is wrong, or if the tool fails. Such programs are written into --out.

With --bugs each hole of tests/injected_bugs/hostile.toml must be noticed, by a wrong patch of a program that has what
the hole is about; the exit code is 1 if one is not.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

import injected  # noqa: E402

if "--bug" in sys.argv:  # before anything of nearfield is imported
    injected.install(injected.bugs_of("hostile")[sys.argv[sys.argv.index("--bug") + 1]])

from hostile_fuzz import Judgement, judge  # noqa: E402
from hostile_programs import hostile_program  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200, metavar="N", help="how many programs (200)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first program's seed (0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--out", type=Path, default=Path("hostile"), metavar="FOLDER", help="for wrong patches")
    parser.add_argument("--needs", metavar="WORD", help="only programs with an ingredient whose name begins so")
    parser.add_argument("--bugs", action="store_true", help="look whether injected bugs are noticed")
    parser.add_argument("--bug", metavar="NAME", help="inject this bug, and stop at the first wrong patch")
    options = parser.parse_args()
    if options.bugs:
        return _bugs(options)
    seeds: Iterable[int] = itertools.count(options.first)
    if options.bug:
        needs = set(injected.bugs_of("hostile")[options.bug]["needs"])
        seeds = (seed for seed in seeds if needs & set(hostile_program(seed).names))
    if options.needs:
        seeds = (seed for seed in seeds if any(one.startswith(options.needs) for one in hostile_program(seed).names))
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, found in enumerate(pool.map(judge, itertools.islice(seeds, options.programs)), 1):
            counts += found.counts
            if found.faults:
                _write(found, options.out)
            if number % 50 == 0 or found.faults:
                print(f"{number} programs: {_line(counts)}", flush=True)
            if options.bug and counts["wrong"]:
                pool.shutdown(cancel_futures=True)
                break
    print(f"{counts['programs']} programs: {_line(counts)}")
    return 1 if counts["wrong"] or counts["crashed"] else 0


def _bugs(options: argparse.Namespace) -> int:
    """Runs the fuzzer with each injected bug, and returns 1 if one is not noticed."""
    missed = 0
    for name in injected.bugs_of("hostile"):
        given = ["--first", options.first, "--programs", options.programs, "--jobs", options.jobs, "--out", options.out]
        argv = [sys.executable, __file__, *map(str, given), "--bug", name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        counts = done.stdout.splitlines()[-1]
        is_noticed = done.returncode == 1 and " 0 wrong" not in counts
        missed += not is_noticed
        print(f"{'noticed' if is_noticed else 'NOT NOTICED'}: {name}: {counts}", flush=True)
    return 1 if missed else 0


def _line(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in ("patched", "patches", "wrong", "crashed", "not run"))


def _write(found: Judgement, folder: Path) -> None:
    """Writes what was wrong, and the texts."""
    folder.mkdir(parents=True, exist_ok=True)
    program = hostile_program(found.seed)
    (folder / f"{found.seed}{program.suffix}").write_text(program.text)
    for number, fault in enumerate(found.faults):
        (folder / f"{found.seed}-{number}.txt").write_text(f"{'; '.join(program.names)}\n{fault}\n")
        print(f"seed {found.seed}: {fault.splitlines()[0]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
