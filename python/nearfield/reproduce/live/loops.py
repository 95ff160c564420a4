"""Measures the stencil loops of paper S0 (papers/S0/stencil.c) without messages, compiled with the usual options and
with aligned loops. This is the control measurement of claim S0.9: it shows whether the compiler's code placement alone
causes the claimed gain. Each run reports the minimum over many batches. An answer requires that several runs agree and
that the machine is not busy."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from nearfield.base.files import find_shipped_folder
from nearfield.reproduce.adverbs import SAME_TOLERANCE
from nearfield.reproduce.live.bootstrap import AnswerWord
from nearfield.reproduce.live.compiler import compiler_command, compiler_version_line
from nearfield.reproduce.live.quiet import overload_reason
from nearfield.reproduce.outcome import Answer

NUM_RUNS = 3
SCALAR_OPTIONS = ("-O2", "-fno-tree-vectorize")  # like -O2 of GCC before version 12, which did not vectorize
ALIGNED_OPTIONS = (*SCALAR_OPTIONS, "-falign-functions=64", "-falign-loops=64")
USUAL_OPTION_SETS = (SCALAR_OPTIONS, (*SCALAR_OPTIONS, "-falign-functions=64"), ("-O2",), ("-O3",))
GainsByRun = list[list[float]]  # for each run: fractions of time that OPT1 and OPT2 save, by grid shape


def answer_by_loops(question: str) -> Answer:
    """Measures whether the order in which rows are updated changes the time of the compute loops, without messages.
    Returns whether the claim `question`, a key of LOOP_QUESTIONS, holds: either that the order changes the time, or
    that it does not. LOOP_QUESTIONS has the compiler options for each claim."""
    command = compiler_command()
    if not command:
        return Answer(answer="cannot tell", ours="there is no C compiler here; $CC may name one")
    options, judge_gains = LOOP_QUESTIONS[question]
    overload = overload_reason(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    gains_by_options = {" ".join(some): gains for some in options if (gains := measure_loops([*command, *some]))}
    if not gains_by_options:
        return Answer(answer="cannot tell", ours=f"{command[0]} does not compile the loops")
    ours = "; ".join(f"{name}: {_format_range(gains)}" for name, gains in gains_by_options.items())
    ours = f"{compiler_version_line(command)}: {ours}"
    if overload:
        return Answer(answer="cannot tell", ours=f"{overload}; {ours}")
    return Answer(answer=judge_gains(list(gains_by_options.values())), ours=ours)


def measure_loops(compile_command: Sequence[str]) -> GainsByRun:
    """Compiles the loops with `compile_command` and runs them NUM_RUNS times. Returns for each run the fractions of
    time that the two other orders of rows save, by grid shape; [] if the compiler or a run fails."""
    source = find_shipped_folder("papers") / "S0/stencil.c"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "stencil"
        if subprocess.run(
            [*compile_command, str(source), "-o", str(program)], capture_output=True, check=False
        ).returncode:
            return []
        runs = [subprocess.run([program], capture_output=True, text=True, check=False) for _ in range(NUM_RUNS)]
    if any(one.returncode for one in runs):
        return []
    return [[float(word) for line in one.stdout.splitlines() for word in line.split()[2:]] for one in runs]


def _format_range(gains: GainsByRun) -> str:
    every = [gain for run in gains for gain in run]
    return f"{100 * min(every):.1f} to {100 * max(every):.1f} %"


def judge_any_gain(measured_gains: Sequence[GainsByRun]) -> AnswerWord:
    """Returns "holds" if any order of rows gains (or loses) more than SAME_TOLERANCE in every run, "does not" if none
    does in any run, otherwise "cannot tell"."""
    columns = [column for gains in measured_gains for column in zip(*gains, strict=True)]
    if any(min(column) > SAME_TOLERANCE or max(column) < -SAME_TOLERANCE for column in columns):
        return "holds"
    return "does not" if all(abs(gain) <= SAME_TOLERANCE for column in columns for gain in column) else "cannot tell"


def judge_no_gain(measured_gains: Sequence[GainsByRun]) -> AnswerWord:
    """Returns the opposite of judge_any_gain(): "holds" if no order of rows gains or loses in any run."""
    opposites: dict[AnswerWord, AnswerWord] = {"holds": "does not", "does not": "holds", "cannot tell": "cannot tell"}
    return opposites[judge_any_gain(measured_gains)]


LOOP_QUESTIONS: dict[str, tuple[Sequence[tuple[str, ...]], Callable[[Sequence[GainsByRun]], AnswerWord]]] = {
    "loops-gain-alone": (USUAL_OPTION_SETS, judge_any_gain),
    "aligned-loops-gain-nothing": ((ALIGNED_OPTIONS,), judge_no_gain),
}
