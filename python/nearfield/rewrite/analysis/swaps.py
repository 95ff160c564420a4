"""Finds pointer swaps, such as of the old and the new array of a stencil. After a swap, the pointers hold the same set
of addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.function import FunctionFacts


@dataclass(frozen=True)
class PointerSwap:
    """Consecutive assignments that permute the values of some pointers."""

    permuted_keys: frozenset[int]
    assignment_offsets: frozenset[int]  # offsets of the assignments


def find_pointer_swaps(function: FunctionFacts) -> Iterable[PointerSwap]:
    """Yields the pointer swaps of a function: t = a; a = b; b = t; longer cycles; and std::swap(a, b)."""
    if function.body is None:
        return
    for node in function.body.walk():
        callee = node.callee() if node.kind == Kind.CALL_EXPR and node.name == "swap" else None
        if callee is not None and callee.cursor.location.is_in_system_header:
            keys = [_pointer_key(argument) for argument in node.arguments]
            if len(keys) == 2 and all(keys):
                yield PointerSwap(frozenset(keys), frozenset({node.offset}))
        if node.kind != Kind.COMPOUND_STMT:
            continue
        copies_in_a_row: list[tuple[int, int, int]] = []
        for statement in [*node.children, None]:
            copies = _pointer_copies(statement) if statement is not None else None
            if copies:
                copies_in_a_row += copies
                continue
            yield from _find_permutation(copies_in_a_row)
            copies_in_a_row = []


def _pointer_copies(statement: SyntaxNode) -> list[tuple[int, int, int]] | None:
    """Returns (target, source, source offset) for each copy of a pointer in a statement; None if the statement does
    anything else."""
    if statement.kind == Kind.DECL_STMT:
        pointer_copies = []
        for variable in statement.children:
            values = [child for child in variable.children if child.kind.is_expression()]
            source = _pointer_key(values[-1]) if values and variable.type.kind == TypeKind.POINTER else 0
            if not source:
                return None
            pointer_copies.append((variable.key, source, variable.offset))
        return pointer_copies
    node = statement.without_casts
    if node.operator != "=":
        return None
    target, source = (_pointer_key(child) for child in node.children)
    return [(target, source, node.offset)] if target and source else None


def _pointer_key(node: SyntaxNode) -> int:
    node = node.without_casts
    if node.kind == Kind.DECL_REF_EXPR and node.declaration is not None and node.type.kind == TypeKind.POINTER:
        return node.declaration.key
    return 0


def _find_permutation(pointer_copies: list[tuple[int, int, int]]) -> Iterable[PointerSwap]:
    """Yields the swap if a run of pointer copies permutes some of the pointers; the others are temporaries."""
    if len(pointer_copies) < 3:
        return
    source_by_target: dict[int, int] = {}
    for target, source, _ in pointer_copies:
        source_by_target[target] = source_by_target.get(source, source)
    temporaries = {pointer_copies[0][0]}
    permuted_keys = {key for key in source_by_target if key not in temporaries}
    if {source_by_target[key] for key in permuted_keys} == permuted_keys:
        yield PointerSwap(frozenset(permuted_keys), frozenset(offset for *_, offset in pointer_copies))
