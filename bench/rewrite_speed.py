"""How long does `nearfield rewrite` take to analyse a dense file, in which almost every line is of an exchange or of a
loop beside one?

Makes a file of random functions, with one to three exchanges and one to three loop nests each, analyses it, and prints
the processor seconds of each phase.

Criterion: at most 2 s for 1,000 lines.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from support import console, finish, parser, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from random_programs import ARRAYS, random_program  # noqa: E402

from nearfield import mpi  # noqa: E402
from nearfield.rewrite import analyze, driver, proof  # noqa: E402
from nearfield.rewrite.check.build import mpi_include_folders  # noqa: E402

LINES, LIMIT_S = 1000, 2.0
PHASES = {  # by name: a function, as a member of what it is called by
    "libclang reads the file": (driver, "parse_file"),
    "regions": (driver.RegionFinder, "find_regions"),
    "models": (driver, "build_model"),
    "dependences and parts of iterations": (driver, "DependencePartition"),
    "legality": (driver, "find_guard"),
    "writing": (driver.RegionEmitter, "emit"),
    "second proof: libclang": (driver.TranslationUnit, "reparse"),
    "second proof: isl": (proof.Validator, "check_equivalence"),
}


def dense_file(lines: int, first: int = 0) -> str:
    """Returns a file of at least that many lines."""
    made, seed = ["#include <mpi.h>"], first
    while len(made) < lines:
        text = random_program(seed).text.replace("void region(", f"void region_{seed}(")
        text = re.sub(r"\bpart(\d)\(", rf"part\1_{seed}(", text)
        body = text.replace("#include <mpi.h>\n", "").strip("\n").split("\n")
        made += ["", *(["#undef AT"] if "#define AT" in text else []), *body]
        seed += 1
    return "\n".join(made) + "\n"


def main(options: argparse.Namespace) -> dict[str, Any]:
    text = dense_file(options.lines, options.first)
    arguments = [f"-I{folder}" for folder in mpi_include_folders(mpi.choose_mpi(options.mpi))]
    spent: dict[str, float] = defaultdict(float)
    for name, (owner, function) in PHASES.items():
        setattr(owner, function, _timed(getattr(owner, function), name, spent))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dense.c"
        path.write_text(text, encoding="utf-8")
        start = time.process_time()
        found = analyze(path, arguments, assume_noalias=ARRAYS)
        total = time.process_time() - start
    functions, lines = text.count("void region_"), text.count("\n")
    console.print(f"{lines} lines, {functions} functions, {len(found.patches)} patches, {len(found.missed)} refusals")
    for name, seconds in [*spent.items(), ("all else", total - sum(spent.values()))]:
        console.print(f"  {seconds:6.2f} s  {name}")
    console.print(f"  {total:6.2f} s  in all")
    met = total <= LIMIT_S * lines / LINES
    verdict(met, f"{lines} lines take {total:.2f} s")
    return {"met": met, "lines": lines, "functions": functions, "seconds": total, "phases": spent}


def _timed(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Returns the function, the time of which is added to a phase."""

    @wraps(function)
    def timed(*given: Any, **named: Any) -> Any:
        start = time.process_time()
        made = function(*given, **named)
        spent[name] += time.process_time() - start
        return made

    return timed


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", metavar="NAME", help="which MPI's headers (default: the one nearfield chooses)")
    made.add_argument("--lines", type=int, default=LINES, help="of the file, at least (default %(default)s)")
    made.add_argument("--first", type=int, default=0, help="seed of the first function (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
