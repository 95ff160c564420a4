"""Decides whether a declaration among the statements of a region can be hoisted to the beginning of the region."""

from __future__ import annotations

from nearfield.rewrite.analysis.expressions import KINDS_WITHOUT_READS
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.text import identifiers_in

_INVARIANT_KINDS = (*KINDS_WITHOUT_READS, Kind.TYPE_REF, Kind.INIT_LIST_EXPR)


def can_be_hoisted(
    statement: SyntaxNode, block: SyntaxNode, start: int, unit: TranslationUnit, function: FunctionFacts
) -> bool:
    """Returns whether a declaration statement of a block can be hoisted to the offset `start`: the statements in
    between do not use the variables, and the initial values are invariant."""
    if unit.is_macro_use(statement.offset) or function.contains_label(block):
        return False
    earlier_names = identifiers_in(unit.text[start : statement.offset])
    earlier_names |= {word for name in earlier_names & unit.macros.keys() for word in identifiers_in(unit.macros[name])}
    return all(
        _is_plain_variable(one) and one.name not in earlier_names and _has_invariant_value(one, function)
        for one in statement.children
    )


def _is_plain_variable(declaration: SyntaxNode) -> bool:
    """Returns whether a declaration is of an automatic variable that is a number, a pointer, an MPI handle, or an array
    of these, and that is not volatile."""
    element_type = declaration.type
    while element_type.kind in ARRAY_TYPES:
        element_type = element_type.element_type.get_canonical()
    is_plain = element_type.kind in (*NUMBER_TYPES, TypeKind.POINTER) or element_type.spelling.startswith("MPI_")
    return (
        declaration.kind == Kind.VAR_DECL
        and is_plain
        and not element_type.is_volatile_qualified()
        and declaration.cursor.storage_class.name not in ("STATIC", "EXTERN")
    )


def _has_invariant_value(declaration: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether the initial value of a variable, if it has one, is the same everywhere in the function."""
    return all(_is_invariant_node(node, function) for value in declaration.children for node in value.walk())


def _is_invariant_node(node: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a node of an expression does not make the value of the expression vary in the function."""
    if node.kind == Kind.DECL_REF_EXPR:
        declaration = node.declaration
        return declaration is not None and (
            node.constant_value is not None or function.is_never_changed(declaration.key)
        )
    return node.kind in _INVARIANT_KINDS or node.operator in ("+", "-", "*", "/", "%")
