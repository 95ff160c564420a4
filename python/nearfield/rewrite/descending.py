"""Reads loops that count down, in the two forms that are emitted: `i = b; i-- > a;` and `i = b; i >= a; --i`."""

from __future__ import annotations

from nearfield.rewrite.accesses import iterator_key
from nearfield.rewrite.clang import Kind, Node
from nearfield.rewrite.expressions import Expressions, NotAffine
from nearfield.rewrite.polynomials import ONE, Symbol
from nearfield.rewrite.program import Loop


def descending_loop(node: Node, reader: Expressions) -> Loop | str:
    """Returns the loop, as one that counts up between the same bounds, or what is wrong with it."""
    key = iterator_key(node)
    if not key or len(node.children) not in (3, 4):
        return "it does not count down"
    first, test = node.children[0], node.children[1].bare
    if first.kind == Kind.DECL_STMT:
        name, start = first.children[0].name, first.children[0].children[-1]
    else:
        name, start = first.bare.children[0].bare.name, first.bare.children[1]
    symbol = Symbol(f"{name}#{node.offset}.{node.line}", name, iterator=True)
    reader.symbols[symbol.key] = symbol
    if len(test.children) != 2:
        return "it has no test against a bound"
    left, right = test.children[0].bare, test.children[1]
    try:
        upper, lower = reader.integer(start), reader.integer(right)
    except NotAffine as why:
        return f"a bound is not affine: {why.reason}"
    if len(node.children) == 3 and test.operator == ">" and left.operator == "post--" and _is(left.children[0], key):
        return Loop(symbol, (lower,), (upper,))
    step = node.children[2].bare
    counts = step.operator in ("--", "post--") and _is(step.children[0], key)
    if len(node.children) == 4 and test.operator == ">=" and _is(left, key) and counts:
        return Loop(symbol, (lower,), (upper + ONE,))
    return "it does not count down in a known form"


def _is(node: Node, key: int) -> bool:
    node = node.bare
    return node.kind == Kind.DECL_REF_EXPR and node.declaration is not None and node.declaration.key == key
