"""Classifies libclang's types of C and C++: integers, conversions that preserve a value, and pointee types."""

from __future__ import annotations

import re
from typing import Any

from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TypeKind

INTEGERS = (
    TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.SHORT, TypeKind.USHORT, TypeKind.LONGLONG,
    TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.BOOL, TypeKind.ENUM,
)  # fmt: skip
NUMBERS = (*INTEGERS, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE)
UNSIGNED = (TypeKind.UINT, TypeKind.ULONG, TypeKind.USHORT, TypeKind.ULONGLONG, TypeKind.UCHAR)
_BYTES = {
    TypeKind.BOOL: 0, TypeKind.CHAR_S: 1, TypeKind.SCHAR: 1, TypeKind.UCHAR: 1, TypeKind.SHORT: 2, TypeKind.USHORT: 2,
    TypeKind.INT: 4, TypeKind.UINT: 4, TypeKind.LONG: 8, TypeKind.ULONG: 8, TypeKind.LONGLONG: 8,
    TypeKind.ULONGLONG: 8,
}  # fmt: skip
_CONVERSIONS = (
    Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR, Kind.CXX_FUNCTIONAL_CAST_EXPR,
)  # fmt: skip
_MAX_SAME_SIGN = 2  # bytes; a conversion to a type of at most this size from any other type may change the value
_BYTE_TYPES = ("char", "signedchar", "unsignedchar")  # byte types, which may alias any object
_QUALIFIERS = re.compile(r"\b(?:const|restrict|__restrict|__restrict__)\b|\s+")


def may_truncate(node: Node) -> bool:
    """Returns whether an integer conversion, explicit or implicit, may truncate the value or change its sign, or
    converts from a type that is no integer."""
    bare = node.bare
    while node is not bare:
        inner = next(child for child in node.children if child.kind != Kind.TYPE_REF)
        mine, value = (_BYTES.get(_underlying_kind(one.type)) for one in (node, inner))
        if mine is None and node.type != inner.type:
            return True  # a type of which nothing is known, such as _BitInt
        if mine is not None and (value is None or mine < value or mine <= _MAX_SAME_SIGN and node.type != inner.type):
            return True
        node = inner
    return False


def converts_to_signed(node: Node) -> bool:
    """Returns whether a part of an expression converts an unsigned integer to a signed one of the same size."""
    for one in node.walk():
        inner = one.children[-1:] if one.kind in _CONVERSIONS else []
        for before in inner:
            kinds = [_underlying_kind(part.type) for part in (one, before)]
            same = _BYTES.get(kinds[0]) == _BYTES.get(kinds[1])
            if kinds[1] in UNSIGNED and kinds[0] not in UNSIGNED and same and one.value is None:
                return True
    return False


def _underlying_kind(type_: Any) -> Any:
    """Returns the kind of a type; of an enumeration, the kind of the integers that it consists of."""
    if type_.kind != TypeKind.ENUM:
        return type_.kind
    return type_.get_declaration().enum_type.get_canonical().kind


def bits_of_integer(type_: Any) -> int:
    """Returns the number of bits of an integer type; 1 for a truth value."""
    return 8 * _BYTES[_underlying_kind(type_)] or 1


def may_wrap_around(node: Node) -> bool:
    """Returns whether an unsigned sum, difference or product may wrap around. Only 32 bits count: a 64-bit number wraps
    around as addresses do, so it is the right array index all the same."""
    arithmetic = node.kind == Kind.BINARY_OPERATOR and node.operator in ("+", "-", "*")
    return arithmetic and node.value is None and node.type.kind == TypeKind.UINT


def unsigned_wrap_bits(node: Node) -> int:
    """Returns the number of bits of an unsigned expression that wraps to a huge number if its mathematical value is
    negative: a difference, or a converted signed number. Returns 0 for other expressions."""
    if node.type.kind not in UNSIGNED or node.value is not None:
        return 0
    inner = node.children[0] if node.children else node
    converts = node.kind in _CONVERSIONS and inner.type.kind in INTEGERS and inner.type.kind not in UNSIGNED
    if converts and inner.value is None or node.kind == Kind.BINARY_OPERATOR and node.operator == "-":
        return 8 * _BYTES[node.type.kind]
    return 0


def may_trap(node: Node) -> bool:
    """Returns whether an operator may trap: a division by 0, or a read of invalid memory."""
    if node.operator in ("/", "%"):
        return not node.children[1].value
    if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
        return node.children[1].value is None or node.children[0].bare.type.kind not in ARRAYS
    pointed = node.children[:1] if node.kind == Kind.MEMBER_REF_EXPR or node.operator == "*" else []
    return len(node.children) == 1 and any(one.bare.type.kind == TypeKind.POINTER for one in pointed)


def changes_pointee_type(node: Node) -> bool:
    """Returns whether a cast changes the pointee type of a pointer."""
    if any(one.type.kind in INTEGERS for one in (node, node.bare)):
        return True  # arithmetic on the number that a pointer was cast to counts bytes
    mine, operand = (_element_type_of(one.type) for one in (node, node.bare))
    return mine != operand


def _element_type_of(type_: Any) -> str:
    """Returns the name of the element type of a pointer or an array, without qualifiers."""
    if type_.kind in ARRAYS:
        inner = type_.element_type
    elif type_.kind in (TypeKind.POINTER, TypeKind.LVALUEREFERENCE):
        inner = type_.get_pointee()
    else:
        return str(type_.spelling)
    return re.sub(r"\b(?:const|volatile|restrict|__restrict)\b|\s+", "", inner.get_canonical().spelling)


def is_mpi_handle_type(type_: Any) -> bool:
    """Returns whether a pointer type is an MPI handle, as in Open MPI."""
    return bool(re.match(r"(?:struct )?ompi_", type_.get_pointee().get_canonical().spelling))


def is_mpi_handle_variable(declared: Node) -> bool:
    """Returns whether a variable is declared with a type of MPI, such as MPI_Request."""
    return bool(re.fullmatch(r"(?:const )?(?:MPI_\w+|struct ompi_\w+ \*)", declared.cursor.type.spelling))


def is_rvalue_reference(declared: Node) -> bool:
    """Returns whether a variable is an rvalue reference, which may be bound to a temporary."""
    return bool(declared.type.kind == TypeKind.RVALUEREFERENCE)


def is_union_member(field: Node) -> bool:
    """Returns whether a structure member shares its memory with other members of a union, also through nested
    structures."""
    owner = field.cursor.semantic_parent
    while owner is not None and owner.kind in (Kind.STRUCT_DECL, Kind.UNION_DECL, Kind.CLASS_DECL):
        if owner.kind == Kind.UNION_DECL:
            return True
        owner = owner.semantic_parent
    return False


def unqualified_type_name(type_: Any) -> str:
    """Returns the name of a type without qualifiers; for an array, the name of the type of a pointer to its first
    element."""
    if type_.kind in ARRAYS:
        name = _QUALIFIERS.sub("", type_.element_type.get_canonical().spelling)
        return re.sub(r"(?=\[)|$", "(*)", name, count=1) if "[" in name else f"{name}*"
    return _QUALIFIERS.sub("", type_.spelling)


def may_modify_part_of(type_: Any, kind: str) -> bool:
    """Returns whether a store of one type may modify part of a variable of another type: the types differ at most in
    sign, or one is a byte type."""
    name = unqualified_type_name(type_)
    return name in _BYTE_TYPES or name == "void" or name.removeprefix("unsigned") == kind.removeprefix("unsigned")
