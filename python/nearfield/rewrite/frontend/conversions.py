"""Classifies libclang's types of C and C++: integers, conversions that preserve a value, and pointee types."""

from __future__ import annotations

import re
from typing import Any

from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TypeKind

INTEGER_TYPES = (
    TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.SHORT, TypeKind.USHORT, TypeKind.LONGLONG,
    TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.BOOL, TypeKind.ENUM,
)  # fmt: skip
NUMBER_TYPES = (*INTEGER_TYPES, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE)
UNSIGNED_TYPES = (TypeKind.UINT, TypeKind.ULONG, TypeKind.USHORT, TypeKind.ULONGLONG, TypeKind.UCHAR)
_BYTES_BY_TYPE = {
    TypeKind.BOOL: 0, TypeKind.CHAR_S: 1, TypeKind.SCHAR: 1, TypeKind.UCHAR: 1, TypeKind.SHORT: 2, TypeKind.USHORT: 2,
    TypeKind.INT: 4, TypeKind.UINT: 4, TypeKind.LONG: 8, TypeKind.ULONG: 8, TypeKind.LONGLONG: 8,
    TypeKind.ULONGLONG: 8,
}  # fmt: skip
_CONVERSION_KINDS = (
    Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR, Kind.CXX_FUNCTIONAL_CAST_EXPR,
)  # fmt: skip
_MAX_LOSSY_BYTES = 2  # a conversion from another type to one of at most this many bytes may change the value
_BYTE_TYPE_NAMES = ("char", "signedchar", "unsignedchar")  # byte types, which may alias any object
_QUALIFIERS = re.compile(r"\b(?:const|restrict|__restrict|__restrict__)\b|\s+")


def may_truncate(node: SyntaxNode) -> bool:
    """Returns whether an integer conversion, explicit or implicit, may truncate the value or change its sign, or
    converts from a type that is no integer."""
    without_casts = node.without_casts
    while node is not without_casts:
        inner = next(child for child in node.children if child.kind != Kind.TYPE_REF)
        target_bytes, source_bytes = (_BYTES_BY_TYPE.get(_underlying_kind(one.type)) for one in (node, inner))
        if target_bytes is None and node.type != inner.type:
            return True  # an unknown type, such as _BitInt
        if target_bytes is not None and (
            source_bytes is None
            or target_bytes < source_bytes
            or target_bytes <= _MAX_LOSSY_BYTES
            and node.type != inner.type
        ):
            return True
        node = inner
    return False


def converts_to_signed(node: SyntaxNode) -> bool:
    """Returns whether a part of an expression converts an unsigned integer to a signed one of the same size."""
    for one in node.walk():
        inner = one.children[-1:] if one.kind in _CONVERSION_KINDS else []
        for operand in inner:
            kinds = [_underlying_kind(part.type) for part in (one, operand)]
            has_same_size = _BYTES_BY_TYPE.get(kinds[0]) == _BYTES_BY_TYPE.get(kinds[1])
            if (
                kinds[1] in UNSIGNED_TYPES
                and kinds[0] not in UNSIGNED_TYPES
                and has_same_size
                and one.constant_value is None
            ):
                return True
    return False


def _underlying_kind(type_: Any) -> Any:
    """Returns the kind of a type; of an enumeration, the kind of the integers that it consists of."""
    if type_.kind != TypeKind.ENUM:
        return type_.kind
    return type_.get_declaration().enum_type.get_canonical().kind


def bits_of_integer(type_: Any) -> int:
    """Returns the number of bits of an integer type; 1 for bool."""
    return 8 * _BYTES_BY_TYPE[_underlying_kind(type_)] or 1


def may_wrap_around(node: SyntaxNode) -> bool:
    """Returns whether an unsigned sum, difference or product may wrap around. Only 32-bit numbers count: a 64-bit
    number wraps around as addresses do, so it still indexes the right element."""
    is_arithmetic = node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-", "*")
    return is_arithmetic and node.constant_value is None and node.type.kind == TypeKind.UINT


def unsigned_wrap_bits(node: SyntaxNode) -> int:
    """Returns the number of bits of an unsigned expression that wraps to a huge number if its mathematical value is
    negative: a difference, or a converted signed number. Returns 0 for other expressions."""
    if node.type.kind not in UNSIGNED_TYPES or node.constant_value is not None:
        return 0
    inner = node.children[0] if node.children else node
    is_signed_conversion = (
        node.kind in _CONVERSION_KINDS and inner.type.kind in INTEGER_TYPES and inner.type.kind not in UNSIGNED_TYPES
    )
    if (
        is_signed_conversion
        and inner.constant_value is None
        or node.kind == Kind.BINARY_OPERATOR
        and node.operator == "-"
    ):
        return 8 * _BYTES_BY_TYPE[node.type.kind]
    return 0


def may_trap(node: SyntaxNode) -> bool:
    """Returns whether an operator may trap, by a division by 0 or a read of invalid memory."""
    if node.operator in ("/", "%"):
        return not node.children[1].constant_value
    if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
        return node.children[1].constant_value is None or node.children[0].without_casts.type.kind not in ARRAY_TYPES
    pointer_operands = node.children[:1] if node.kind == Kind.MEMBER_REF_EXPR or node.operator == "*" else []
    return len(node.children) == 1 and any(one.without_casts.type.kind == TypeKind.POINTER for one in pointer_operands)


def changes_pointee_type(node: SyntaxNode) -> bool:
    """Returns whether a cast changes the pointee type of a pointer."""
    if any(one.type.kind in INTEGER_TYPES for one in (node, node.without_casts)):
        return True  # arithmetic on the number that a pointer was cast to counts bytes
    target_type, operand_type = (_element_type_of(one.type) for one in (node, node.without_casts))
    return target_type != operand_type


def _element_type_of(type_: Any) -> str:
    """Returns the name of the element type of a pointer or an array, without qualifiers."""
    if type_.kind in ARRAY_TYPES:
        inner = type_.element_type
    elif type_.kind in (TypeKind.POINTER, TypeKind.LVALUEREFERENCE):
        inner = type_.get_pointee()
    else:
        return str(type_.spelling)
    return re.sub(r"\b(?:const|volatile|restrict|__restrict)\b|\s+", "", inner.get_canonical().spelling)


def is_mpi_handle_type(type_: Any) -> bool:
    """Returns whether a pointer type is an MPI handle, as in Open MPI."""
    return bool(re.match(r"(?:struct )?ompi_", type_.get_pointee().get_canonical().spelling))


def is_mpi_handle_variable(declaration: SyntaxNode) -> bool:
    """Returns whether a variable is declared with a type of MPI, such as MPI_Request."""
    return bool(re.fullmatch(r"(?:const )?(?:MPI_\w+|struct ompi_\w+ \*)", declaration.cursor.type.spelling))


def is_rvalue_reference(declaration: SyntaxNode) -> bool:
    """Returns whether a variable is an rvalue reference, which may be bound to a temporary."""
    return bool(declaration.type.kind == TypeKind.RVALUEREFERENCE)


def is_union_member(field: SyntaxNode) -> bool:
    """Returns whether a structure member shares its memory with other members of a union, also through nested
    structures."""
    record = field.cursor.semantic_parent
    while record is not None and record.kind in (Kind.STRUCT_DECL, Kind.UNION_DECL, Kind.CLASS_DECL):
        if record.kind == Kind.UNION_DECL:
            return True
        record = record.semantic_parent
    return False


def unqualified_type_name(type_: Any) -> str:
    """Returns the name of a type without qualifiers; for an array, the name of the type of a pointer to its first
    element."""
    if type_.kind in ARRAY_TYPES:
        name = _QUALIFIERS.sub("", type_.element_type.get_canonical().spelling)
        return re.sub(r"(?=\[)|$", "(*)", name, count=1) if "[" in name else f"{name}*"
    return _QUALIFIERS.sub("", type_.spelling)


def may_modify_part_of(stored_type: Any, variable_type_name: str) -> bool:
    """Returns whether a store of one type may modify part of a variable of another type: the types differ at most in
    sign, or one is a byte type."""
    name = unqualified_type_name(stored_type)
    return (
        name in _BYTE_TYPE_NAMES
        or name == "void"
        or name.removeprefix("unsigned") == variable_type_name.removeprefix("unsigned")
    )
