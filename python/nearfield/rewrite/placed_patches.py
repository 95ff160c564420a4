"""Returns the proved patches of one file that give messages persistent requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nearfield.base.units import counted
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.check.translation import NotEquivalent
from nearfield.rewrite.frontend.callee_lookup import Others, ProgramFunctions
from nearfield.rewrite.frontend.clang import Node, TranslationUnit
from nearfield.rewrite.frontend.source import decode_source
from nearfield.rewrite.frontend.text import line_number_of
from nearfield.rewrite.gain import ExpectedGain
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.placement import SUMMARIES
from nearfield.rewrite.placement.persistent import UNKNOWN_GAIN, PersistentFinder, PersistentLoop
from nearfield.rewrite.placement.proof import PersistentProof


def persistent_loops(
    unit: TranslationUnit, functions: ProgramFunctions, nodes: Sequence[Node], new_name: Callable[[int], str]
) -> tuple[list[PersistentLoop], list[MissedOptimization]]:
    """Returns the loops whose messages may have persistent requests, and the reason for each other message in a loop.
    `new_name` returns a name for the request array of the loop at an offset."""
    loops: list[PersistentLoop] = []
    missed: list[MissedOptimization] = []
    for node in nodes:
        finder = PersistentFinder(unit, functions, functions.function_of(node), new_name)
        loops += finder.find_loops()
        missed += finder.missed
    return loops, missed


def persistent_patches(
    path: Path, text: str, unit: TranslationUnit, others: Others, loops: Sequence[PersistentLoop]
) -> tuple[list[Patch], list[MissedOptimization]]:
    """Returns a patch for each loop whose new text is proved, and the reason for each other loop."""
    patches: list[Patch] = []
    missed: list[MissedOptimization] = []
    for loop in loops:
        line = line_number_of(text, loop.loop)
        try:
            new = PersistentProof(unit, text, others, loop).prove()
        except NotEquivalent as why:
            reason = f"the new code could not be proved: {why}"
            missed.append(MissedOptimization(loop.messages[0].line, reason, loop.function))
            continue
        calls = counted(len(loop.messages), "call")
        reason = f"{SUMMARIES['persistent']}: {calls} with the same arguments in every iteration"
        patches.append(
            Patch(
                path, decode_source(text), decode_source(new), loop.function, "persistent", reason,
                (line, line_number_of(text, loop.end)), [], ExpectedGain(unknown=UNKNOWN_GAIN),
                "messages are created at their first execution, started at each, and freed behind the loop",
            )
        )  # fmt: skip
    return patches, missed
