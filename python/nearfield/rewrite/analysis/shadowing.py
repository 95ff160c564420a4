"""Finds names that would mean another variable where a patch writes them.

Bounds and conditions are written with the names of the values that they were computed from. `const int m = n` is read
as n, for instance, so that a loop to m gets a bound of n, although a nearer variable may have that name, too."""

from __future__ import annotations

from nearfield.rewrite.analysis.program import NotMovable, Region
from nearfield.rewrite.frontend.clang import Node
from nearfield.rewrite.frontend.function import Function
from nearfield.rewrite.frontend.text import words_in


def check_names(region: Region, function: Function) -> None:
    """Raises NotMovable if a name in the bounds, indices or lengths of a region is also that of another variable, which
    is visible in the region or is declared in it."""
    for symbol in region.symbols.values():
        if symbol.iterator or symbol.foreign:
            continue
        for name in words_in(symbol.text):
            for other in function.declared_as(name):
                if other.key not in symbol.variables and _is_visible(other, region, function):
                    raise NotMovable(f"two variables are named {name}", other.line)


def _is_visible(declared: Node, region: Region, function: Function) -> bool:
    """Returns whether a variable's scope includes a part of the region."""
    if region.start <= declared.offset < region.end:
        return True
    statement = function.parent(declared)
    block = function.parent(statement) if statement is not None else None
    return block is None or block.offset <= region.start < block.end and declared.offset < region.start
