"""Damages real files of every kind that nearfield reads, and looks that all who read them take or refuse them in words.

    python tests/fuzz_readers.py --programs 500
    python tests/fuzz_readers.py --only records --programs 2000 --seed 10000

Each reader (tests/support/readers.py) gets --programs damaged files. A file is taken, or refused with an exit code up
to 6; an exception that nobody catches, a signal, 40 s without an end, and a hidden file that is left behind are
failures. Their files are kept in --out. The last line has the counts; the exit code is 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from reader_worker import Result, Tally, fuzz  # noqa: E402
from readers import READERS  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100, help="damaged files for each reader")
    parser.add_argument("--seed", type=int, default=0, help="number of the first damaged file")
    parser.add_argument("--only", action="append", choices=list(READERS), help="only this reader (may be repeated)")
    parser.add_argument("--out", type=Path, default=Path("fuzz-readers"), help="folder for files that failed")
    options = parser.parse_args()
    whole = Tally()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for name in options.only or READERS:
            start = time.monotonic()
            numbers = range(options.seed, options.seed + options.programs)
            one = fuzz(name, numbers, Path(folder, name), options.out)
            whole.counts += one.counts
            whole.bad += one.bad
            print(f"{name}: {one}, {time.monotonic() - start:.0f} s", flush=True)
            for details, count in _kinds(one.bad):
                print(f"  {count} times: {details}", flush=True)
    print(whole)
    return 1 if whole.bad else 0


def _kinds(bad: list[Result]) -> list[tuple[str, int]]:
    """Returns the last lines of the reports, with the count of each, and an example's number."""
    found: dict[str, list[int]] = {}
    for result in bad:
        lines = result.details.strip().splitlines() or [""]
        place = next((line.strip() for line in reversed(lines) if "nearfield/" in line), "")
        found.setdefault(f"{place[-100:]}: {lines[-1][:160]}", []).append(result.number)
    return [(f"{details} (such as {numbers[0]})", len(numbers)) for details, numbers in found.items()]


if __name__ == "__main__":
    sys.exit(main())
