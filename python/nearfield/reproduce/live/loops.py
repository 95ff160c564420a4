"""Measures the stencil loops of paper S0 without messages: as the host's C compiler places them in the code, and with
aligned loops. This is the control of claim S0.9, and needs no MPI. Each program takes the minimum of many batches. An
answer requires that all of several runs agree, and that the machine is not busy."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from nearfield.reproduce.adverbs import SAME_TOLERANCE
from nearfield.reproduce.live.bootstrap import Word
from nearfield.reproduce.live.compiler import compiler_words, first_line_of_version
from nearfield.reproduce.live.quiet import overload_reason
from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.papers import paper_files

RUNS = 3
SCALAR_OPTIONS = ("-O2", "-fno-tree-vectorize")  # equals -O2 of GCC before version 12, which did not vectorise
ALIGNED_OPTIONS = (*SCALAR_OPTIONS, "-falign-functions=64", "-falign-loops=64")
USUAL_OPTION_SETS = (SCALAR_OPTIONS, (*SCALAR_OPTIONS, "-falign-functions=64"), ("-O2",), ("-O3",))
Gains = list[list[float]]  # for each run: the shares of time that OPT1 and OPT2 save at each shape


def answer_by_loops(question: str) -> Answer:
    """Returns whether the order of rows gains or loses time without messages: as compiled, or with aligned loops,
    depending on the question."""
    words = compiler_words()
    if not words:
        return Answer(answer="cannot tell", ours="there is no C compiler here; $CC may name one")
    options, answer = LOOP_QUESTIONS[question]
    busy = overload_reason(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    found = {" ".join(some): gains for some in options if (gains := measure_loops([*words, *some]))}
    if not found:
        return Answer(answer="cannot tell", ours=f"{words[0]} does not compile the loops")
    ours = "; ".join(f"{name}: {_range_text(gains)}" for name, gains in found.items())
    ours = f"{first_line_of_version(words)}: {ours}"
    if busy:
        return Answer(answer="cannot tell", ours=f"{busy}; {ours}")
    return Answer(answer=answer(list(found.values())), ours=ours)


def measure_loops(command: Sequence[str]) -> Gains:
    """Compiles the loops by `command` and runs them. Returns the shares of time that the orders of rows save, run by
    run; [] if the compiler or a run fails."""
    source = paper_files()["S0"].with_name("stencil.c")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "stencil"
        if subprocess.run([*command, str(source), "-o", str(program)], capture_output=True, check=False).returncode:
            return []
        done = [subprocess.run([program], capture_output=True, text=True, check=False) for _ in range(RUNS)]
    if any(one.returncode for one in done):
        return []
    return [[float(word) for line in one.stdout.splitlines() for word in line.split()[2:]] for one in done]


def _range_text(gains: Gains) -> str:
    every = [gain for run in gains for gain in run]
    return f"{100 * min(every):.1f} to {100 * max(every):.1f} %"


def gains_somewhere(found: Sequence[Gains]) -> Word:
    """Returns "holds" if some order gains or loses more than SAME_TOLERANCE in every run; "does not" if none does in
    any run."""
    columns = [column for gains in found for column in zip(*gains, strict=True)]
    if any(min(column) > SAME_TOLERANCE or max(column) < -SAME_TOLERANCE for column in columns):
        return "holds"
    return "does not" if all(abs(gain) <= SAME_TOLERANCE for column in columns for gain in column) else "cannot tell"


def gains_nowhere(found: Sequence[Gains]) -> Word:
    """Returns the opposite of gains_somewhere."""
    opposites: dict[Word, Word] = {"holds": "does not", "does not": "holds", "cannot tell": "cannot tell"}
    return opposites[gains_somewhere(found)]


LOOP_QUESTIONS: dict[str, tuple[Sequence[tuple[str, ...]], Callable[[Sequence[Gains]], Word]]] = {
    "loops-gain-alone": (USUAL_OPTION_SETS, gains_somewhere),
    "aligned-loops-gain-nothing": ((ALIGNED_OPTIONS,), gains_nowhere),
}
