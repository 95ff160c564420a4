"""Ends every verb at random moments of its life, by Ctrl-C at a terminal and by SIGTERM, and looks at what is left.

    python tests/interrupt_verbs.py --times 30
    python tests/interrupt_verbs.py --only probe --only tune --signal SIGTERM

Each verb runs once to its end, which gives its lifetime, and is then ended at --times moments for each signal. What is
wrong: more than 5 s to the end, another exit code than 130 or 143, a traceback, a process, a temporary file, shared
memory or a half-written output left behind. A signal that finds Python itself still starting is counted by itself.
The last line has the counts; the exit code is 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from interrupting import FAMILY, VERBS, Field, Try, end, prepare_field, run_undisturbed  # noqa: E402


def interrupt(field: Field, name: str, number: str, times: int, chance: random.Random) -> list[Try]:
    """Returns what came of one verb and one signal at the given number of moments."""
    verb = VERBS[name]
    alone = run_undisturbed(field, verb)
    moments = [chance.uniform(0, max(alone.after_s, 0.1)) for _ in range(times)]
    return [end(field, verb, FAMILY[number], moment, alone.code) for moment in moments]


def _print_result(name: str, number: str, tries: list[Try]) -> int:
    """Prints a line for a verb and a signal, and one for each failure. Returns the number of failures."""
    hit = [one for one in tries if one.hit]
    early = [one for one in hit if not one.began]
    wrong = [one for one in hit if one.wrong and one.began]
    longest = max((one.took_s for one in hit), default=0.0)
    print(
        f"{name} {number}: {len(hit)} of {len(tries)} hit, {len(wrong)} wrong, {len(early)} before its first line, "
        f"longest end {longest:.1f} s",
        flush=True,
    )
    for one in wrong:
        last = " / ".join(line.strip() for line in one.output.strip().splitlines()[-3:])
        print(f"  after {one.after_s:.2f} s, code {one.code}: {'; '.join(one.wrong)}: {last[-300:]}", flush=True)
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=30, help="moments for each verb and signal")
    parser.add_argument("--only", action="append", choices=list(VERBS), help="only this verb (may be repeated)")
    parser.add_argument("--signal", action="append", choices=list(FAMILY), help="only this signal")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names, wrong, total = options.only or list(VERBS), 0, 0
    with prepare_field(names) as field:
        for name in names:
            for number in options.signal or FAMILY:
                chance = random.Random(f"{options.seed} {name} {number}")
                tries = interrupt(field, name, number, options.times, chance)
                total += sum(one.hit for one in tries)
                wrong += _print_result(name, number, tries)
    print(f"{total} signals hit, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
