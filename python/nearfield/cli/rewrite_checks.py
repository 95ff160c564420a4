"""The checks of `nearfield rewrite` with --verify and --measure: compiles and runs the original and the rewritten
program, and drops patches that fail."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from nearfield.base.errors import UsageError
from nearfield.mpi import Installation
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.applying import select_best_patches
from nearfield.rewrite.check.build import Program
from nearfield.rewrite.check.measure import measure_gain
from nearfield.rewrite.check.verify import RANK_COUNTS, Verifier
from nearfield.rewrite.frontend.compile_commands import compiler_arguments_of
from nearfield.rewrite.patch import Patch
from nearfield.ui.terminal import err


def compiler_flags_for(source: Path, database: Path | None, arguments: Sequence[str]) -> list[str]:
    """Returns the compiler flags to build the source file."""
    return [*(compiler_arguments_of(source, database, is_for_parser=False) if database else []), *arguments]


@dataclass(frozen=True)
class RewriteChecks:
    """The checks to apply to patches, and how to compile and run the program."""

    verify: bool
    measure: bool
    source: Path
    flags: Sequence[str]
    runs: Sequence[str]
    ranks: str | None
    linked: Sequence[str]
    folder: Path | None

    def select(
        self, patches: Sequence[Patch], inst: Installation, *, every: bool
    ) -> tuple[list[Patch], list[MissedOptimization]]:
        """Returns the first patch of each place that passes the checks (with `every`, all patches that pass), and a
        refusal with the reason for each patch that fails. Prints the results."""
        words = (tuple(shlex.split(run)) for run in self.runs or [""])
        program = Program(self.source, tuple(self.flags), tuple(self.linked), tuple(words), input_folder=self.folder)
        held, refused = list[Patch](), list[MissedOptimization]()
        if not patches:
            return held, refused
        with Verifier(
            program, patches[0].original, inst, rank_counts=list(self._counts()), progress=_print_to_stderr
        ) as verifier:
            for patch in patches:
                if not every and len(select_best_patches([*held, patch])) == len(held):
                    continue
                alike = [one.rewritten for one in patches if one.function == patch.function]
                problem = self._verification_problem(patch, verifier, alike) if self.verify else ""
                problem = problem or (self._missing_gain_reason(patch, program, inst) if self.measure else "")
                if problem:
                    reason = f"{patch.transformation}: {problem}"
                    refused.append(MissedOptimization(patch.changed_lines[0], reason, patch.function, tried=True))
                else:
                    held.append(patch)
        return held, refused

    def _counts(self) -> Iterator[int]:
        for word in self.ranks.split(",") if self.ranks is not None else map(str, RANK_COUNTS):
            if not word.strip().isdigit() or int(word) < 1:
                raise UsageError(f"--ranks '{self.ranks}' is no list of rank counts", "for instance: --ranks 1,2,4")
            yield int(word)

    def _ranks_to_measure(self) -> int:
        """Returns the last given number of ranks for which there is a CPU per rank; by default the largest such power
        of two."""
        processors = len(os.sched_getaffinity(0))
        if self.ranks is None:
            return max(2, 1 << (processors.bit_length() - 1))
        return next((count for count in reversed(list(self._counts())) if count <= max(2, processors)), 2)

    def _verification_problem(self, patch: Patch, verifier: Verifier, alike: Sequence[str]) -> str:
        """Verifies a patch by running both versions. Returns the difference as text; "" if there is none."""
        verdict = verifier.verify(patch.rewritten, alike)
        _print_for_patch(patch, f"{verdict} ({verdict.duration_s:.1f} s)")
        for note in verdict.notes:
            err.print(f"  {escape(note)}")
        return "" if verdict.is_equivalent else str(verdict)

    def _missing_gain_reason(self, patch: Patch, program: Program, inst: Installation) -> str:
        """Measures a patch against the original. Returns the reason why it does not pay off; "" if it does."""
        ranks = self._ranks_to_measure()
        found = measure_gain(program, patch.original, patch.rewritten, inst, num_ranks=ranks, progress=_print_to_stderr)
        _print_for_patch(patch, str(found))
        patch.measured_checks.append(str(found))
        return "" if found.is_supported else str(found)


def _print_to_stderr(line: str) -> None:
    err.print(f"[dim]nearfield: {escape(line)}[/dim]")


def _print_for_patch(patch: Patch, text: str) -> None:
    patch.checks.append(text)
    err.print(f"{escape(str(patch.path))}:{patch.changed_lines[0]}: {escape(patch.transformation)}: {escape(text)}")
