"""Computes the layouts of MPI datatypes: which elements of a buffer belong to a message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE, Polynomial
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value

_BYTES_BY_DATATYPE = {
    "MPI_DOUBLE": 8, "MPI_FLOAT": 4, "MPI_INT": 4, "MPI_UNSIGNED": 4, "MPI_LONG": 8, "MPI_UNSIGNED_LONG": 8,
    "MPI_CHAR": 1, "MPI_SIGNED_CHAR": 1, "MPI_UNSIGNED_CHAR": 1, "MPI_BYTE": 1, "MPI_SHORT": 2, "MPI_UNSIGNED_SHORT": 2,
    "MPI_LONG_LONG": 8, "MPI_LONG_LONG_INT": 8, "MPI_INT64_T": 8, "MPI_INT32_T": 4, "MPI_UINT64_T": 8,
    "MPI_UINT32_T": 4, "MPI_UINT8_T": 1, "MPI_C_BOOL": 1, "MPI_CXX_BOOL": 1, "MPI_LONG_DOUBLE": 16,
    "MPI_C_DOUBLE_COMPLEX": 16,
}  # fmt: skip


def bytes_of_element_type(element: str) -> int:
    """Returns the size in bytes of a built-in C type; 0 for other types."""
    return {
        "double": 8, "float": 4, "int": 4, "unsigned int": 4, "long": 8, "unsigned long": 8, "char": 1, "bool": 1,
        "unsigned char": 1, "signed char": 1, "short": 2, "unsigned short": 2, "long long": 8, "_Bool": 1,
        "unsigned long long": 8, "_Complex double": 16, "std::complex<double>": 16, "long double": 16,
    }.get(element, 0)  # fmt: skip


# Calls that create a datatype whose elements lie at unknown positions of the array that the buffer points into.
_IRREGULAR_TYPE_CALLS = ("MPI_Type_create_subarray", "MPI_Type_indexed", "MPI_Type_create_indexed_block")
# MPI calls that take the address of a datatype handle, but do not change the layout of the datatype.
_LAYOUT_KEEPING_CALLS = ("MPI_Type_commit", "MPI_Type_free")


@dataclass(frozen=True)
class DatatypeLayout:
    """The layout of an MPI datatype: `num_blocks` blocks of `block_length` elements at a stride of `stride` elements.
    `element_bytes` is the size of an element; 0 means that any elements of the array may belong to the message."""

    element_bytes: int
    num_blocks: Polynomial
    block_length: Polynomial
    stride: Polynomial


_ANY_ELEMENTS_LAYOUT = DatatypeLayout(0, ONE, ONE, ONE)


def layout_of_datatype(
    node: SyntaxNode,
    reader: ExpressionReader,
    functions: ProgramFunctions,
    keys_being_resolved: frozenset[int] = frozenset(),
) -> DatatypeLayout | None:
    """Returns the layout of an MPI datatype argument; None if it is unknown. `keys_being_resolved` are the variables of
    the derived datatypes that are being resolved, to detect recursion."""
    word = re.compile(r"([A-Za-z_]\w*)\s*[,)]").match(node.unit.text, node.offset)  # the whole argument is one name
    if word is None:
        return None
    name = node.unit.expand_macro(word[1])
    if name in _BYTES_BY_DATATYPE:
        return DatatypeLayout(_BYTES_BY_DATATYPE[name], ONE, ONE, ONE)
    node = node.without_casts
    if node.kind != Kind.DECL_REF_EXPR or node.declaration is None or node.declaration.key in keys_being_resolved:
        return None
    if node.declaration.cursor.linkage.name == "EXTERNAL":
        return None  # another file may assign to the handle
    first = initial_value(node.declaration) if node.declaration.kind == Kind.VAR_DECL else None
    if first is not None and source_text_of(first) != "MPI_DATATYPE_NULL":
        return None  # a condition may decide whether the handle still has its first value
    return _layout_of_derived_type(
        node.declaration.key, reader, functions, keys_being_resolved | {node.declaration.key}
    )


def _layout_of_derived_type(
    declaration_key: int, reader: ExpressionReader, functions: ProgramFunctions, keys_being_resolved: frozenset[int]
) -> DatatypeLayout | None:
    """Returns the layout of a derived datatype that exactly one call creates and whose elements lie in the array of the
    buffer; None for other datatypes."""
    makers = _find_creating_calls(declaration_key, functions)
    if len(makers) != 1:
        return None
    call, function = makers[0]
    arguments = call.arguments
    outer, foreign = reader.function, reader.is_in_callee
    reader.function, reader.is_in_callee = function, foreign or function is not outer
    try:
        if call.name in _IRREGULAR_TYPE_CALLS:
            return (
                _ANY_ELEMENTS_LAYOUT
                if layout_of_datatype(arguments[-2], reader, functions, keys_being_resolved)
                else None
            )
        if call.name == "MPI_Type_contiguous" and (
            element := layout_of_datatype(arguments[1], reader, functions, keys_being_resolved)
        ):
            return _repeated_layout(element, reader, arguments[0])
        if call.name == "MPI_Type_vector" and (
            element := layout_of_datatype(arguments[3], reader, functions, keys_being_resolved)
        ):
            return _repeated_layout(element, reader, arguments[1], arguments[0], arguments[2])
    finally:
        reader.function, reader.is_in_callee = outer, foreign
    return None


def _find_creating_calls(declaration_key: int, functions: ProgramFunctions) -> list[tuple[SyntaxNode, FunctionFacts]]:
    """Returns the calls that create the datatype in a variable; none if another use of the variable might assign to
    it."""
    makers: list[tuple[SyntaxNode, FunctionFacts]] = []
    for function in functions.functions_of_file:
        uses = function.uses.get(declaration_key, [])
        creating_calls = [call for call in function.calls if _creates_datatype(call, declaration_key)]
        handed = [call for call in function.calls if call.name in _LAYOUT_KEEPING_CALLS]
        known_call_offsets = [call.offset for call in (*creating_calls, *handed)]
        for use in uses:
            call = next((above for above in function.ancestors_of(use) if above.kind == Kind.CALL_EXPR), None)
            if not _is_load(use, function) and (call is None or call.offset not in known_call_offsets):
                return []
        makers += [(call, function) for call in creating_calls]
    return makers


def _is_load(use: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a use of a variable only loads the variable's value."""
    above = function.parent_of(use)
    return above is not None and above.kind == Kind.UNEXPOSED_EXPR and above.type.kind == use.type.kind


def _repeated_layout(element: DatatypeLayout, reader: ExpressionReader, *numbers: SyntaxNode) -> DatatypeLayout:
    """Returns the layout of a contiguous or vector datatype. `numbers` are either the element count, or block length,
    block count and stride."""
    if element.block_length.constant != 1 or element.num_blocks.constant != 1 or not element.element_bytes:
        return _ANY_ELEMENTS_LAYOUT
    try:
        length, blocks, stride, *_ = (*(_stable_value(reader, number) for number in numbers), ONE, ONE)
    except NotAffine:
        return _ANY_ELEMENTS_LAYOUT
    return DatatypeLayout(element.element_bytes, blocks, length, stride)


def _stable_value(reader: ExpressionReader, node: SyntaxNode) -> Polynomial:
    """Returns an expression as a polynomial whose value does not change until the message is sent. Raises NotAffine if
    it may change."""
    polynomial = reader.to_polynomial(node)
    if not all(
        reader.symbols[key].is_function_invariant or reader.symbols[key].constant_value is not None
        for key in polynomial.keys
    ):
        raise NotAffine("the datatype's layout depends on what may have changed", node.line)
    return polynomial


def _creates_datatype(call: SyntaxNode, declaration_key: int) -> bool:
    """Returns whether a call creates an MPI datatype in the given variable."""
    if not call.name.startswith("MPI_Type_") or call.name in ("MPI_Type_commit", "MPI_Type_free"):
        return False
    return any(argument.mentions_variable(declaration_key) for argument in call.arguments[-1:])
