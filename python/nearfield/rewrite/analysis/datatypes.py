"""Computes the layouts of MPI datatypes: which elements of a buffer belong to a message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE, Poly
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value

_BYTES = {
    "MPI_DOUBLE": 8, "MPI_FLOAT": 4, "MPI_INT": 4, "MPI_UNSIGNED": 4, "MPI_LONG": 8, "MPI_UNSIGNED_LONG": 8,
    "MPI_CHAR": 1, "MPI_SIGNED_CHAR": 1, "MPI_UNSIGNED_CHAR": 1, "MPI_BYTE": 1, "MPI_SHORT": 2, "MPI_UNSIGNED_SHORT": 2,
    "MPI_LONG_LONG": 8, "MPI_LONG_LONG_INT": 8, "MPI_INT64_T": 8, "MPI_INT32_T": 4, "MPI_UINT64_T": 8,
    "MPI_UINT32_T": 4, "MPI_UINT8_T": 1, "MPI_C_BOOL": 1, "MPI_CXX_BOOL": 1, "MPI_LONG_DOUBLE": 16,
    "MPI_C_DOUBLE_COMPLEX": 16,
}  # fmt: skip


def element_size_of(element: str) -> int:
    """Returns the size in bytes of a built-in C type; 0 for other types."""
    return {
        "double": 8, "float": 4, "int": 4, "unsigned int": 4, "long": 8, "unsigned long": 8, "char": 1, "bool": 1,
        "unsigned char": 1, "signed char": 1, "short": 2, "unsigned short": 2, "long long": 8, "_Bool": 1,
        "unsigned long long": 8, "_Complex double": 16, "std::complex<double>": 16, "long double": 16,
    }.get(element, 0)  # fmt: skip


# Calls that create a datatype whose elements lie at unknown positions of the array that the buffer points into.
_RELATIVE = ("MPI_Type_create_subarray", "MPI_Type_indexed", "MPI_Type_create_indexed_block")
# MPI calls that take the address of a datatype handle, but do not change the layout of the datatype.
_KEEP_TYPE = ("MPI_Type_commit", "MPI_Type_free")


@dataclass(frozen=True)
class DatatypeLayout:
    """The layout of an MPI datatype: `blocks` blocks of `length` elements at a stride of `stride` elements.
    `element_bytes` is the size of an element; 0 means that any elements of the array may belong to the message."""

    element_bytes: int
    blocks: Poly
    length: Poly
    stride: Poly


_ANYWHERE = DatatypeLayout(0, ONE, ONE, ONE)


def layout_of_datatype(
    node: Node, reader: ExpressionReader, functions: ProgramFunctions, within: frozenset[int] = frozenset()
) -> DatatypeLayout | None:
    """Returns the layout of an MPI datatype argument; None if it is unknown. `within` are the variables of the derived
    datatypes that are being resolved, to detect recursion."""
    word = re.compile(r"([A-Za-z_]\w*)\s*[,)]").match(node.unit.text, node.offset)  # the whole argument is one name
    if word is None:
        return None
    name = node.unit.expand_macro(word[1])
    if name in _BYTES:
        return DatatypeLayout(_BYTES[name], ONE, ONE, ONE)
    node = node.bare
    if node.kind != Kind.DECL_REF_EXPR or node.declaration is None or node.declaration.key in within:
        return None
    if node.declaration.cursor.linkage.name == "EXTERNAL":
        return None  # another file may assign to the handle
    first = initial_value(node.declaration) if node.declaration.kind == Kind.VAR_DECL else None
    if first is not None and source_text_of(first) != "MPI_DATATYPE_NULL":
        return None  # a condition may decide whether the handle still has its first value
    return _layout_of_derived(node.declaration.key, reader, functions, within | {node.declaration.key})


def _layout_of_derived(
    key: int, reader: ExpressionReader, functions: ProgramFunctions, within: frozenset[int]
) -> DatatypeLayout | None:
    """Returns the layout of a derived datatype that exactly one call creates and whose elements lie in the array of the
    buffer; None for other datatypes."""
    makers = _find_creating_calls(key, functions)
    if len(makers) != 1:
        return None
    call, function = makers[0]
    arguments = call.arguments
    outer, foreign = reader.function, reader.foreign
    reader.function, reader.foreign = function, foreign or function is not outer
    try:
        if call.name in _RELATIVE:
            return _ANYWHERE if layout_of_datatype(arguments[-2], reader, functions, within) else None
        if call.name == "MPI_Type_contiguous" and (
            element := layout_of_datatype(arguments[1], reader, functions, within)
        ):
            return _repeated_layout(element, reader, arguments[0])
        if call.name == "MPI_Type_vector" and (element := layout_of_datatype(arguments[3], reader, functions, within)):
            return _repeated_layout(element, reader, arguments[1], arguments[0], arguments[2])
    finally:
        reader.function, reader.foreign = outer, foreign
    return None


def _find_creating_calls(key: int, functions: ProgramFunctions) -> list[tuple[Node, FunctionFacts]]:
    """Returns the calls that create the datatype in a variable; none if another use of the variable might assign to
    it."""
    makers: list[tuple[Node, FunctionFacts]] = []
    for function in functions.functions_of_file:
        uses = function.uses.get(key, [])
        made = [call for call in function.calls if _creates_datatype(call, key)]
        handed = [call for call in function.calls if call.name in _KEEP_TYPE]
        known = [call.offset for call in (*made, *handed)]
        for use in uses:
            call = next((above for above in function.ancestors(use) if above.kind == Kind.CALL_EXPR), None)
            if not _is_load(use, function) and (call is None or call.offset not in known):
                return []
        makers += [(call, function) for call in made]
    return makers


def _is_load(use: Node, function: FunctionFacts) -> bool:
    """Returns whether a use of a variable only loads the variable's value."""
    above = function.parent(use)
    return above is not None and above.kind == Kind.UNEXPOSED_EXPR and above.type.kind == use.type.kind


def _repeated_layout(element: DatatypeLayout, reader: ExpressionReader, *numbers: Node) -> DatatypeLayout:
    """Returns the layout of a contiguous or vector datatype. `numbers` are either the element count, or block length,
    block count and stride."""
    if element.length.constant != 1 or element.blocks.constant != 1 or not element.element_bytes:
        return _ANYWHERE
    try:
        length, blocks, stride, *_ = (*(_stable_value(reader, number) for number in numbers), ONE, ONE)
    except NotAffine:
        return _ANYWHERE
    return DatatypeLayout(element.element_bytes, blocks, length, stride)


def _stable_value(reader: ExpressionReader, node: Node) -> Poly:
    """Returns an expression as a polynomial whose value does not change until the message is sent. Raises NotAffine if
    it may change."""
    made = reader.to_polynomial(node)
    if not all(reader.symbols[key].stable or reader.symbols[key].value is not None for key in made.keys):
        raise NotAffine("the datatype's layout depends on what may have changed", node.line)
    return made


def _creates_datatype(call: Node, key: int) -> bool:
    """Returns whether a call creates an MPI datatype in the given variable."""
    if not call.name.startswith("MPI_Type_") or call.name in ("MPI_Type_commit", "MPI_Type_free"):
        return False
    return any(argument.mentions(key) for argument in call.arguments[-1:])
