"""Decides which parameters and arguments of a function a call can be analysed with."""

from __future__ import annotations

from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TypeKind
from nearfield.rewrite.frontend.function import is_container
from nearfield.rewrite.frontend.language import is_trivial_type


def is_supported_parameter(parameter: SyntaxNode) -> bool:
    """Returns whether a function parameter is a plain object or a reference to an lvalue, and has no attributes and no
    default value."""
    type_ = parameter.type
    if type_.kind == TypeKind.LVALUEREFERENCE:
        type_ = type_.get_pointee().get_canonical()
        known = is_trivial_type(type_) or is_container(parameter)
    else:
        known = is_trivial_type(type_)
    return (
        known
        and not any(child.kind.is_attribute() for child in parameter.children)
        and not _has_default_value(parameter)
    )


def _has_default_value(parameter: SyntaxNode) -> bool:
    extent = parameter.cursor.extent
    return "=" in parameter.unit.text[parameter.name_offset : extent.end.offset]


def is_lvalue(node: SyntaxNode) -> bool:
    """Returns whether an expression denotes an object in memory, without a conversion to a temporary."""
    kinds = (Kind.DECL_REF_EXPR, Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR, Kind.UNARY_OPERATOR, Kind.CALL_EXPR)
    inner = node
    while inner.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR) and len(inner.children) == 1:
        if inner.kind == Kind.UNEXPOSED_EXPR and inner.type.kind != inner.children[0].type.kind:
            return False
        inner = inner.children[0]
    if inner.kind == Kind.UNARY_OPERATOR:
        return inner.operator == "*"
    return inner.kind in kinds and (inner.kind != Kind.CALL_EXPR or inner.name == "operator[]")
