"""Makes the patches of one file that replace messages in loops by persistent requests, and proves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nearfield.base.units import counted
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.check.translation import NotEquivalent
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import SyntaxNode
from nearfield.rewrite.frontend.source import decode_source
from nearfield.rewrite.frontend.text import line_number_of
from nearfield.rewrite.gain import ExpectedGain
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.placement import SUMMARY_BY_NAME
from nearfield.rewrite.placement.persistent import UNKNOWN_GAIN, PersistentFinder, PersistentLoop
from nearfield.rewrite.placement.proof import PersistentProof


def make_persistent_patches(
    path: Path, functions: ProgramFunctions, nodes: Sequence[SyntaxNode], make_array_name: Callable[[int], str]
) -> tuple[list[Patch], list[MissedOptimization]]:
    """Returns a proved patch for each loop of the functions at `nodes` with messages that can be persistent, and the
    reason why each other message in a loop stays as it is. `make_array_name` returns a name for the request array of
    the loop at an offset."""
    patches: list[Patch] = []
    missed: list[MissedOptimization] = []
    for node in nodes:
        finder = PersistentFinder(functions.unit, functions, functions.function_of(node), make_array_name)
        for loop in finder.find_loops():
            try:
                patches.append(_make_patch(path, functions, loop))
            except NotEquivalent as why:
                reason = f"the new code could not be proved: {why}"
                missed.append(MissedOptimization(loop.messages[0].line, reason, loop.function))
        missed += finder.missed
    return patches, missed


def _make_patch(path: Path, functions: ProgramFunctions, loop: PersistentLoop) -> Patch:
    """Returns the patch for a loop. Raises NotEquivalent if its new text is not proved."""
    text = functions.unit.text
    new = PersistentProof(functions, loop).prove()
    calls = counted(len(loop.messages), "call")
    return Patch(
        path, decode_source(text), decode_source(new), loop.function, "persistent",
        f"{SUMMARY_BY_NAME['persistent']}: {calls} with the same arguments in every iteration",
        (line_number_of(text, loop.start), line_number_of(text, loop.end)), [],
        ExpectedGain(unknown_reason=UNKNOWN_GAIN),
        "messages are created at their first execution, started at each, and freed behind the loop",
    )  # fmt: skip
