"""Measures the gain of a rewrite on this machine: both versions are compiled with the program's own flags and run
alternately, and each pair of runs gives a speed-up. A patch whose gain is not significant is not worth its lines."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.paired import MIN_PAIRS, Gain, measure_alternately, paired_gain
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi import Installation
from nearfield.rewrite.check.build import Program, build_program, c_wrapper, compiler_flags_of, run_compiler

MAX_PAIRS = 30
BUDGET_S = 30.0
RUN_LIMIT_S = 120.0


@dataclass(frozen=True)
class MeasuredGain:
    """The speed-up of the rewritten program: `total` by the time of the slowest rank from MPI_Init to MPI_Finalize,
    `messages` by the time of ranks in calls that send, receive or wait (None if there are none). `message_share` is the
    share of these calls in the original's time."""

    total: Gain
    messages: Gain | None
    message_share: float
    pairs: int
    ranks: int

    @property
    def is_supported(self) -> bool:
        """Returns whether the measurements show a gain, in total or in communication, and no loss in total."""
        return self.total.is_gain or (self.messages is not None and self.messages.is_gain and not self.total.is_loss)

    def __str__(self) -> str:
        said = "a gain" if self.is_supported else "a loss" if self.total.is_loss else "no gain that these runs can show"
        share = f", in messages ({self.message_share:.0%} of the time) {self.messages}" if self.messages else ""
        return f"{said}: in total {self.total}{share}, {self.pairs} pairs of runs on {self.ranks} ranks"


@dataclass(frozen=True)
class _RunTimes:
    """Times in s, summed over the program's runs: of the slowest rank in total, and of the ranks in message calls on
    average."""

    total_s: float
    messages_s: float


def measure_gain(
    program: Program,
    original: str,
    rewritten: str,
    inst: Installation,
    *,
    ranks: int = 2,
    budget_s: float = BUDGET_S,
    progress: ReportLine = ignore,
) -> MeasuredGain:
    """Measures the gain of a rewritten text. The first run of each version is discarded; then pairs of runs alternate
    for `budget_s`, at least the minimum number of pairs. Raises MeasurementError if a run fails, CompileError if a
    version does not compile."""
    with OwnedFolder("nearfield-rewrite-") as name:
        folder = Path(name)
        progress("compiling both versions")
        executables = [
            _build_version(program, inst, text, folder / str(i)) for i, text in enumerate((original, rewritten))
        ]
        times: tuple[list[_RunTimes], list[_RunTimes]] = ([], [])
        for executable in executables:
            _run_program_once(program, inst, executable, ranks)
        end = time.monotonic() + budget_s
        rounds = measure_alternately(
            {i: partial(_run_program_once, program, inst, executables[i], ranks) for i in (0, 1)}
        )
        for number, pair in zip(range(1, MAX_PAIRS + 1), rounds, strict=False):
            for i in (0, 1):
                times[i].append(pair[i])
            progress(f"pair {number}: {pair[0].total_s:.4g} s, rewritten {pair[1].total_s:.4g} s")
            if number >= MIN_PAIRS and time.monotonic() >= end:
                break
    return _gain_from_times(times, ranks)


def _gain_from_times(times: tuple[list[_RunTimes], list[_RunTimes]], ranks: int) -> MeasuredGain:
    """Returns the gain of the rewritten program from the times of paired runs of both programs."""
    before, after = times
    total = paired_gain([t.total_s for t in before], [t.total_s for t in after])
    in_messages = [[t.messages_s for t in version] for version in times]
    messages = paired_gain(*in_messages) if all(map(all, in_messages)) else None
    share = sum(in_messages[0]) / sum(t.total_s for t in before)
    return MeasuredGain(total, messages, share, len(before), ranks)


def _build_version(program: Program, inst: Installation, text: str, folder: Path) -> Path:
    """Compiles and links the original or the rewritten program with the timer for MPI calls."""
    folder.mkdir()
    timer = folder / "times.o"
    source = mpi.native_source() / "src/preload/measure/times.c"
    run_compiler(
        [str(c_wrapper(inst)), "-std=gnu11", "-O2", "-fPIC", "-c", str(source), "-o", str(timer)], folder, inst
    )
    flags = compiler_flags_of(program, keep_optimisation=True)
    if not any(flag.startswith("-O") for flag in flags):
        flags.append("-O2")
    return build_program(program, inst, text, folder, flags, [str(timer)])


def _run_program_once(program: Program, inst: Installation, executable: Path, ranks: int) -> _RunTimes:
    """Executes each run of the program once, and returns the sum of the times."""
    total_s = messages_s = 0.0
    for arguments in program.runs:
        with OwnedFolder("nearfield-rewrite-") as name:
            folder, work = Path(name), Path(name) / "work"
            if program.folder:
                shutil.copytree(program.folder, work)
            else:
                work.mkdir()
            done = mpi.run(
                inst, [str(executable), *arguments], ranks, timeout_s=RUN_LIMIT_S, cwd=work,
                env={"NEARFIELD_MEASURE": str(folder)},
            )  # fmt: skip
            of_ranks = [file.read_text(encoding="utf-8").split() for file in folder.glob("times.*")]
        if not done.ok or len(of_ranks) != ranks:
            said = "it does not end" if done.timed_out else next(iter(done.words), f"exit code {done.exit_code}")
            remedy = "see it by hand, or give other arguments with --run"
            raise MeasurementError(f"a run on {ranks} ranks failed: {said}", remedy)
        total_s += max(float(total) for total, _ in of_ranks)
        messages_s += sum(float(messages) for _, messages in of_ranks) / ranks
    return _RunTimes(total_s, messages_s)
