"""Lets `nearfield rewrite` write patches for random hostile programs, and runs each patch beside the original.

    python tests/fuzz_hostile.py --programs 5000 --jobs 2

Each program (tests/support/hostile_programs.py) is analysed as it is, without assumptions. Each of its patches is
verified by `rewrite --verify` on 1, 2 and 4 ranks with two sizes: receives reach their buffers at completion only,
buffers of messages are watched, and all results, the memory and which write each read saw are compared. The last line
has the counts; the exit code is 1 if a patch is wrong, or if the tool fails. Such programs are written into --out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from hostile_fuzz import Judgement, judge  # noqa: E402
from hostile_programs import hostile_program  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200, metavar="N", help="how many programs (200)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first program's seed (0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--out", type=Path, default=Path("hostile"), metavar="FOLDER", help="for wrong patches")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.first, options.first + options.programs)
        for number, found in enumerate(pool.map(judge, seeds), 1):
            counts += found.counts
            if found.faults:
                _write(found, options.out)
            if number % 50 == 0 or found.faults:
                print(f"{number} programs: {_line(counts)}", flush=True)
    print(f"{options.programs} programs: {_line(counts)}")
    return 1 if counts["wrong"] or counts["crashed"] else 0


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
