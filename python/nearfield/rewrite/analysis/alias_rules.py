"""Rules of C and C++ by which an address may be stored, or two objects may overlap."""

from __future__ import annotations

import re

from nearfield.rewrite.analysis.datatypes import bytes_of_element_type
from nearfield.rewrite.analysis.program import BaseObject, Region
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.text import skip_blank

# Statements that only test or discard the value of an expression.
_VALUE_DISCARDING_KINDS = (
    Kind.COMPOUND_STMT, Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.SWITCH_STMT, Kind.CASE_STMT,
    Kind.DEFAULT_STMT, Kind.LABEL_STMT,
)  # fmt: skip


def is_container_access(call: SyntaxNode, operand: SyntaxNode) -> bool:
    """Returns whether a call is of a method of the C++ library that returns an element of the container `operand`, or
    the address of its elements."""
    callee = call.callee()
    if callee is None or call.name not in ("operator[]", "data", "begin") or operand is not call.children[0]:
        return False
    return bool(callee.cursor.location.is_in_system_header) and callee.kind != Kind.FUNCTION_DECL


def is_element_load(cast: SyntaxNode, operand: SyntaxNode) -> bool:
    """Returns whether an implicit conversion is the load of a number from an lvalue."""
    is_number = cast.type.kind in NUMBER_TYPES or cast.type.kind == TypeKind.COMPLEX
    return bool(cast.kind == Kind.UNEXPOSED_EXPR and is_number and cast.type.kind == operand.type.kind)


def is_value_discarded(node: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether nothing uses the value of an expression: it is a statement of its own, or the first part of an
    expression with a comma."""
    below, above = node, function.parent_of(node)
    while above is not None and above.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR):
        if above.type.kind == TypeKind.VOID:
            return True
        below, above = above, function.parent_of(above)
    if above is not None and above.operator == ",":
        return below is above.children[0] or is_value_discarded(above, function)
    return above is not None and above.kind in _VALUE_DISCARDING_KINDS


def is_plain_new(node: SyntaxNode) -> bool:
    """Returns whether a new-expression allocates memory; a placement new does not."""
    match = re.compile(r"(?:::\s*)?new\b").match(node.unit.text, node.offset)
    return match is not None and node.unit.text[skip_blank(node.unit.text, match.end())] != "("


def prints_address(call: SyntaxNode) -> bool:
    """Returns whether a printf-like call may print an address, from which the program could make a pointer again."""
    if "print" not in call.name:
        return False
    literals = [one.without_casts for one in call.arguments if one.without_casts.kind == Kind.STRING_LITERAL]
    return not literals or any(re.search(r"%[-+ #0-9.*]*p", one.name) for one in literals)


def member_name(base: BaseObject) -> str:
    """Returns the name of the structure member that a base denotes; '' if the base is no member."""
    return re.split(r"->|\.", base.key.partition("@")[2])[-1] if re.search(r"@.*(->|\.)", base.key) else ""


def may_alias_by_type(first: BaseObject, second: BaseObject) -> bool:
    """Returns whether the types of both base objects allow that they are the same memory: the types differ at most in
    sign, one is a byte type, or one is a structure or complex type with a part of the other type."""
    names = [base.element_type.replace("unsigned ", "").replace("signed ", "") for base in (first, second)]
    has_complex = any("omplex" in name for name in names)  # a complex number consists of two others
    return names[0] == names[1] or "char" in names or has_complex or not all(map(bytes_of_element_type, names))


def is_structure_and_member(first: BaseObject, second: BaseObject) -> bool:
    """Returns whether one base object is a structure, and the other one a member of it."""
    keys = [base.key.replace("->", ".") + "." for base in (first, second)]
    is_prefix = keys[0].startswith(keys[1]) or keys[1].startswith(keys[0])
    return first.declaration_key == second.declaration_key and first.key != second.key and is_prefix


def are_members_of_one_variable(first: BaseObject, second: BaseObject) -> bool:
    """Returns whether two base objects are different members of one structure variable, and no pointers."""
    is_one_variable = first.declaration_key == second.declaration_key and first.key != second.key
    return is_one_variable and "pointer" not in (first.object_kind, second.object_kind)


def is_member_behind_pointer(first: BaseObject, second: BaseObject) -> bool:
    """Returns whether one of both base objects is no array, but a member of a structure behind a pointer."""
    return not first.dimension_sizes or not second.dimension_sizes


def are_different_members(first: BaseObject, second: BaseObject) -> bool:
    """Returns whether one base object is a member of a structure behind a pointer, and the other one cannot be the same
    memory: it has another type, or it is another member of such a structure."""
    are_members = not first.dimension_sizes and not second.dimension_sizes
    is_other_member = are_members and member_name(first) != member_name(second)
    return is_member_behind_pointer(first, second) and (is_other_member or not may_alias_by_type(first, second))


def share_allocation(first_names: frozenset[str], second_names: frozenset[str]) -> bool:
    """Returns whether two sets of allocation names may denote the same memory."""
    return bool(first_names & second_names) or any(
        may_be_same_allocation(a, b) for a in first_names for b in second_names
    )


def may_be_same_allocation(first_name: str, second_name: str) -> bool:
    """Returns whether two different allocation names may denote the same memory: two parameters, or a parameter and a
    global array."""
    kinds = {first_name.split()[0], second_name.split()[0]}
    return kinds == {"parameter"} and first_name != second_name or kinds == {"parameter", "global"}


def first_access_line(region: Region, base: BaseObject) -> int:
    """Returns the line of the first access to a base in a region."""
    lines = (a.line for item in region.items for a in item.accesses if a.base.key == base.key)
    return next(lines, region.line)
