"""Classifies libclang types: integers, conversions that keep a value, and pointee types."""

from __future__ import annotations

import re
from typing import Any

from nearfield.rewrite.frontend.clang import Kind, Node, TypeKind

INTEGERS = (
    TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.SHORT, TypeKind.USHORT, TypeKind.LONGLONG,
    TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.BOOL, TypeKind.ENUM,
)  # fmt: skip
NUMBERS = (*INTEGERS, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE)
UNSIGNED = (TypeKind.UINT, TypeKind.ULONG, TypeKind.USHORT, TypeKind.ULONGLONG, TypeKind.UCHAR)
_SHORT = (TypeKind.SHORT, TypeKind.USHORT, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.BOOL)
ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.VARIABLEARRAY, TypeKind.INCOMPLETEARRAY)


def is_cut(node: Node) -> bool:
    """Returns whether an integer conversion, explicit or implicit, may truncate the value."""
    bare = node.bare
    while node is not bare:
        inner = next(child for child in node.children if child.kind != Kind.TYPE_REF)
        if node.type.kind in _SHORT and inner.type.kind != node.type.kind:
            return True
        node = inner
    return False


def operation_may_fail(node: Node) -> bool:
    """Returns whether an operator may divide by 0 or read invalid memory."""
    if node.operator in ("/", "%"):
        return not node.children[1].value
    if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
        return node.children[1].value is None or node.children[0].bare.type.kind not in ARRAYS
    pointed = node.children[:1] if node.kind == Kind.MEMBER_REF_EXPR or node.operator == "*" else []
    return len(node.children) == 1 and any(one.bare.type.kind == TypeKind.POINTER for one in pointed)


def views(node: Node) -> bool:
    """Returns whether a cast changes the pointee type."""
    mine, operand = (_element_of(one.type) for one in (node, node.bare))
    return mine != operand


def _element_of(type_: Any) -> str:
    """Returns the element type of a pointer or an array."""
    if type_.kind in ARRAYS:
        inner = type_.element_type
    elif type_.kind in (TypeKind.POINTER, TypeKind.LVALUEREFERENCE):
        inner = type_.get_pointee()
    else:
        return str(type_.spelling)
    return re.sub(r"\b(?:const|volatile|restrict|__restrict)\b|\s+", "", inner.get_canonical().spelling)


def is_handle(type_: Any) -> bool:
    """Returns whether a pointer is an MPI handle, as in Open MPI."""
    return bool(re.match(r"(?:struct )?ompi_", type_.get_pointee().get_canonical().spelling))
