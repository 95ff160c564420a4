"""Applies the best patch of each region to one source file."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.rewrite.patch import Patch


def select_best_patches(patches: Sequence[Patch]) -> list[Patch]:
    """Returns all patches except those that overlap a better one that is returned. `patches` must be ranked, best
    first."""
    chosen: list[Patch] = []
    for patch in patches:
        first, last = patch.changed_lines
        if all(last < one.changed_lines[0] or first > one.changed_lines[1] for one in chosen):
            chosen.append(patch)
    return chosen


def apply_patches(patches: Sequence[Patch]) -> str:
    """Returns the text of the source file with all patches applied, which must not overlap."""
    text = patches[0].original
    for patch in sorted(patches, key=lambda one: one.changed_lines, reverse=True):
        before, after = patch.original, patch.rewritten
        start = _common_prefix_length(before, after)
        end = min(_common_prefix_length(before[::-1], after[::-1]), len(before) - start, len(after) - start)
        text = text[:start] + after[start : len(after) - end] + text[len(before) - end :]
    return text


def _common_prefix_length(first_text: str, second_text: str) -> int:
    """Returns the length of the common prefix of two texts."""
    low, high = 0, min(len(first_text), len(second_text))
    while low < high:
        middle = (low + high + 1) // 2
        if first_text[:middle] == second_text[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
