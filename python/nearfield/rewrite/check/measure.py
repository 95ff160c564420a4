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
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi import Installation
from nearfield.rewrite.check.build import Program, build_program, c_compiler_wrapper, compiler_flags_of, run_compiler

MAX_RUN_PAIRS = 30
MEASURE_BUDGET_S = 30.0
RUN_LIMIT_S = 120.0


@dataclass(frozen=True)
class MeasuredGain:
    """The speed-up of the rewritten program: `total_speedup` by the time of the slowest rank from MPI_Init to
    MPI_Finalize, `message_speedup` by the time of ranks in calls that send, receive or wait (None if there are none).
    `message_share` is the share of these calls in the original's time."""

    total_speedup: Gain
    message_speedup: Gain | None
    message_share: float
    num_pairs: int
    num_ranks: int

    @property
    def is_supported(self) -> bool:
        """Returns whether the measurements show a gain, in total or in communication, and no loss in total."""
        return self.total_speedup.is_gain or (
            self.message_speedup is not None and self.message_speedup.is_gain and not self.total_speedup.is_loss
        )

    def __str__(self) -> str:
        result_text = (
            "a gain"
            if self.is_supported
            else "a loss"
            if self.total_speedup.is_loss
            else "no gain that these runs can show"
        )
        share = (
            f", in messages ({self.message_share:.0%} of the time) {self.message_speedup}"
            if self.message_speedup
            else ""
        )
        runs = f"{self.num_pairs} pairs of runs on {self.num_ranks} ranks"
        return f"{result_text}: in total {self.total_speedup}{share}, {runs}"


@dataclass(frozen=True)
class _RunTimes:
    """Times in s, summed over the program's runs: of the slowest rank in total, and of the ranks in message calls on
    average."""

    total_s: float
    message_calls_s: float


def measure_gain(
    program: Program,
    original: str,
    rewritten: str,
    inst: Installation,
    *,
    num_ranks: int = 2,
    budget_s: float = MEASURE_BUDGET_S,
    progress: ReportLine = ignore_progress,
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
            _run_program_once(program, inst, executable, num_ranks)
        end = time.monotonic() + budget_s
        rounds = measure_alternately(
            {i: partial(_run_program_once, program, inst, executables[i], num_ranks) for i in (0, 1)}
        )
        for number, pair in zip(range(1, MAX_RUN_PAIRS + 1), rounds, strict=False):
            for i in (0, 1):
                times[i].append(pair[i])
            progress(f"pair {number}: {pair[0].total_s:.4g} s, rewritten {pair[1].total_s:.4g} s")
            if number >= MIN_PAIRS and time.monotonic() >= end:
                break
    return _gain_from_times(times, num_ranks)


def _gain_from_times(run_times: tuple[list[_RunTimes], list[_RunTimes]], num_ranks: int) -> MeasuredGain:
    """Returns the gain of the rewritten program from the times of paired runs of both programs."""
    original_times, rewritten_times = run_times
    total_speedup = paired_gain([t.total_s for t in original_times], [t.total_s for t in rewritten_times])
    message_times_s = [[t.message_calls_s for t in version] for version in run_times]
    message_speedup = paired_gain(*message_times_s) if all(map(all, message_times_s)) else None
    message_share = sum(message_times_s[0]) / sum(t.total_s for t in original_times)
    return MeasuredGain(total_speedup, message_speedup, message_share, len(original_times), num_ranks)


def _build_version(program: Program, inst: Installation, text: str, folder: Path) -> Path:
    """Compiles and links the original or the rewritten program with the timer for MPI calls."""
    folder.mkdir()
    timer = folder / "times.o"
    source = mpi.native_source_folder() / "src/preload/measure/times.c"
    run_compiler(
        [str(c_compiler_wrapper(inst)), "-std=gnu11", "-O2", "-fPIC", "-c", str(source), "-o", str(timer)], folder, inst
    )
    flags = compiler_flags_of(program, keeps_optimization=True)
    if not any(flag.startswith("-O") for flag in flags):
        flags.append("-O2")
    return build_program(program, inst, text, folder, flags, [str(timer)])


def _run_program_once(program: Program, inst: Installation, executable: Path, num_ranks: int) -> _RunTimes:
    """Executes each run of the program once, and returns the sum of the times."""
    total_s = message_calls_s = 0.0
    for arguments in program.arguments_by_run:
        with OwnedFolder("nearfield-rewrite-") as name:
            folder, work_folder = Path(name), Path(name) / "work"
            if program.input_folder:
                shutil.copytree(program.input_folder, work_folder)
            else:
                work_folder.mkdir()
            result = mpi.run(
                inst, [str(executable), *arguments], num_ranks, timeout_s=RUN_LIMIT_S, cwd=work_folder,
                env={"NEARFIELD_MEASURE": str(folder)},
            )  # fmt: skip
            fields_by_rank = [file.read_text(encoding="utf-8").split() for file in folder.glob("times.*")]
        if not result.has_succeeded or len(fields_by_rank) != num_ranks:
            failure = (
                "it does not end"
                if result.timed_out
                else next(iter(result.output_lines), f"exit code {result.exit_code}")
            )
            remedy = "see it by hand, or give other arguments with --run"
            raise MeasurementError(f"a run on {num_ranks} ranks failed: {failure}", remedy)
        total_s += max(float(total) for total, _ in fields_by_rank)
        message_calls_s += sum(float(message_time) for _, message_time in fields_by_rank) / num_ranks
    return _RunTimes(total_s, message_calls_s)
