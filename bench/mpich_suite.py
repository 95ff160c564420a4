"""Do MPICH's own tests end under observation, under a simulation that decides for them, under the shared heap and
under the collectives of a node as they do alone?

Takes the folder test/mpi of MPICH's sources, configured and built for the MPI that --mpi names, and starts every line
of the lists of tests in some of its folders: alone, and then by `nearfield observe`, by `nearfield simulate run`, or
with the shared heap preloaded, in which every page that a message passes through is shared at once, or with the
collectives of a node preloaded, which are direct from a communicator's first one on (`across-nodes`: every two ranks
count as a node, and the algorithms of several nodes are used at all lengths). A test ends well if it prints "No Errors"
and its exit code is 0. A test that ends otherwise the second time is started twice more in each way, and counts unless
it varies alone as well. A simulation that refuses a program says why; these are listed.

Criterion: none ends otherwise.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, parser, verdict

from nearfield import mpi
from nearfield.base import shared_heap
from nearfield.mpi import Installation, launch_command, remove_stale_shm, snapshot_shm
from nearfield.mpi.marked_processes import MARK_VARIABLE, end_launch
from nearfield.rules import collectives

FOLDERS = "pt2pt,coll,comm"
WAYS = {
    "observe": ["observe", "--force", "-o", "{trace}", "--"],
    "simulate": ["simulate", "run", "--policy", "memory", "--memory-slowdown", "1", "--json", "--"],
    "heap": [],
    "collectives": [],
    "across-nodes": [],
}
_ACROSS_NODES = ",".join(
    f"{name}@2x{nodes}={algorithms[-1]}"
    for name, algorithms in collectives.ALGORITHMS_ACROSS_NODES.items()
    for nodes in (2, 5)
)
HEAP = "on=1,share_first=1"
REFUSED = "cannot be simulated"  # before a reason


@dataclass(frozen=True)
class Test:
    """A line of a list."""

    program: Path
    ranks: int
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        set_to = (f"{name}={value}" for name, value in self.environment.items())
        return " ".join([f"{self.program.parent.name}/{self.program.name} {self.ranks}", *self.arguments, *set_to])


@dataclass(frozen=True)
class Outcome:
    """How a test ended: its exit code, None after the time limit, and whether it said that it had no errors."""

    code: int | None
    passed: bool
    words: str = field(compare=False)

    def __str__(self) -> str:
        return f"{'no errors' if self.passed else 'errors'} and code {self.code}"


def main(options: argparse.Namespace) -> dict[str, Any]:
    if not options.suite:
        console.print("skipped: name the folder test/mpi of MPICH's sources, where it was built")
        return {"met": None}
    inst, found = mpi.choose_mpi(options.mpi), defaultdict(list)
    tests = [test for name in options.folders.split(",") for test in tests_of(options.suite / name)]
    if options.once:
        smallest = {test.program: test for test in sorted(tests, key=lambda test: -test.ranks)}
        tests = [test for test in tests if test is smallest[test.program]]
    for test in (test for test in tests if re.search(options.only, str(test))):
        kind, words = compared(test, inst, options)
        found[kind].append(str(test))
        if words:
            console.print(f"{kind}: {test}: {words}", markup=False)
    met = not found["different"]
    verdict(
        met, f"{inst.name}, by {options.way}: " + ", ".join(f"{len(tests)} {kind}" for kind, tests in found.items())
    )
    return {"met": met, "mpi": inst.name, "way": options.way, **found}


def tests_of(folder: Path) -> list[Test]:
    """Returns the tests of a folder's list that were built, but for those that the list expects to fail (xfail)."""
    tests = []
    for line in (folder / "testlist").read_text().splitlines():
        words = shlex.split(line, comments=True)
        settings = [word.partition("=")[::2] for word in words[1:]]
        if not words or not (folder / words[0]).is_file() or "xfail" in dict(settings):
            continue
        ranks = next((int(name) for name, _ in settings if name.isdecimal()), 1)
        arguments = tuple(part for name, value in settings if name == "arg" for part in value.split())
        environment = dict(value.partition("=")[::2] for name, value in settings if name == "env")
        tests.append(Test(folder / words[0], ranks, arguments, environment))
    return tests


def compared(test: Test, inst: Installation, options: argparse.Namespace) -> tuple[str, str]:
    """Returns a word for the comparison, and what is to be said about it."""
    alone, other = run(test, inst, options), run(test, inst, options, options.way)
    if alone == other:
        return ("alike", "") if alone.passed and alone.code == 0 else ("failing alike", str(alone))
    if REFUSED in other.words:
        return "refused", other.words.splitlines()[-1]
    alones, others = ({run(test, inst, options, way) for _ in range(2)} for way in ("", options.way))
    words = f"{alone} alone, {other} by {options.way}\n{other.words}"
    return ("different" if alones == {alone} and alone not in others else "varying"), words


def run(test: Test, inst: Installation, options: argparse.Namespace, way: str = "") -> Outcome:
    """Starts a test, and leaves nothing behind."""
    mark, before = uuid.uuid4().hex, snapshot_shm()
    argv = [str(test.program), *test.arguments]
    command, env = launch_command(inst, argv, test.ranks, oversubscribe=test.ranks > (os.cpu_count() or 1))
    with TemporaryDirectory(prefix="nearfield-bench-") as folder:
        if way == "heap":
            env = {**env, **shared_heap.heap_preload_variables(os.environ), shared_heap.HEAP_VARIABLE: HEAP}
        elif way == "collectives":
            env = {
                **env,
                **collectives.collectives_variables(inst, os.environ),
                collectives.COLLECTIVES_VARIABLE: "after=0",
            }
        elif way == "across-nodes":
            settings = f"after=0,node_ranks=2,{_ACROSS_NODES}"
            env = {
                **env,
                **collectives.collectives_variables(inst, os.environ),
                collectives.COLLECTIVES_VARIABLE: settings,
            }
        elif way:
            words = [word.format(trace=f"{folder}/trace") for word in WAYS[way]]
            command = [sys.executable, "-m", "nearfield", *words, *command]
        process = subprocess.Popen(
            command, env={**env, **test.environment, MARK_VARIABLE: mark}, cwd=test.program.parent,
            text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, code = process.communicate(timeout=options.limit)[0], process.returncode
        except subprocess.TimeoutExpired:
            said, code = "it did not end in time", None
        finally:
            end_launch(mark, process)
            remove_stale_shm(before)
    return Outcome(code, "No Errors" in said, "\n".join(said.strip().splitlines()[-6:]))


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("suite", type=Path, nargs="?", help="the folder test/mpi of MPICH's sources, where it was built")
    made.add_argument("--mpi", metavar="NAME", help="that it was built for (default: the first one found)")
    made.add_argument("--folders", default=FOLDERS, help="with lists of tests (default %(default)s)")
    made.add_argument("--only", default="", metavar="REGEX", help="tests in whose line this is found")
    made.add_argument("--once", action="store_true", help="each program once, with the fewest ranks of its lines")
    made.add_argument("--way", choices=WAYS, default="observe", help="how it is started the second time")
    made.add_argument("--limit", type=float, default=180.0, metavar="S", help="for each start (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
