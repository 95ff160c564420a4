"""Finds names that would denote another variable at the place where a patch writes them.

Bounds and conditions are written with the names of the values that they were computed from. For example, after `const
int m = n`, a loop to m gets the bound n, although a nearer variable may have the name n, too."""

from __future__ import annotations

from nearfield.rewrite.analysis.program import NotMovable, Region
from nearfield.rewrite.frontend.clang import SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.text import identifiers_in


def check_shadowed_names(region: Region, function: FunctionFacts) -> None:
    """Raises NotMovable if a name in a region's loop bounds, indices or message lengths is also the name of another
    variable that is visible in the region or declared in it."""
    for symbol in region.symbols.values():
        if symbol.is_iterator or symbol.has_callee_names:
            continue
        for name in identifiers_in(symbol.text):
            for other in function.variables_named(name):
                is_own = other.key in symbol.variable_keys or symbol.key == f"{name}@{other.key}"  # a named constant
                if not is_own and _is_visible(other, region, function):
                    raise NotMovable(f"two variables are named {name}", other.line)


def _is_visible(declaration: SyntaxNode, region: Region, function: FunctionFacts) -> bool:
    """Returns whether the scope of a variable includes a part of the region."""
    if region.start <= declaration.offset < region.end:
        return True
    statement = function.parent_of(declaration)
    block = function.parent_of(statement) if statement is not None else None
    return block is None or block.offset <= region.start < block.end and declaration.offset < region.start
