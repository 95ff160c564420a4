"""Computes the layouts of MPI datatypes: which elements of a buffer belong to a message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearfield.rewrite.analysis.expressions import Expressions, NotAffine
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.frontend.callee_lookup import Functions
from nearfield.rewrite.frontend.clang import Kind, Node

_BYTES = {
    "MPI_DOUBLE": 8, "MPI_FLOAT": 4, "MPI_INT": 4, "MPI_UNSIGNED": 4, "MPI_LONG": 8, "MPI_UNSIGNED_LONG": 8,
    "MPI_CHAR": 1, "MPI_SIGNED_CHAR": 1, "MPI_UNSIGNED_CHAR": 1, "MPI_BYTE": 1, "MPI_SHORT": 2, "MPI_UNSIGNED_SHORT": 2,
    "MPI_LONG_LONG": 8, "MPI_LONG_LONG_INT": 8, "MPI_INT64_T": 8, "MPI_INT32_T": 4, "MPI_UINT64_T": 8,
    "MPI_UINT32_T": 4, "MPI_UINT8_T": 1, "MPI_C_BOOL": 1, "MPI_CXX_BOOL": 1, "MPI_LONG_DOUBLE": 16,
    "MPI_C_DOUBLE_COMPLEX": 16,
}  # fmt: skip


def bytes_of(element: str) -> int:
    """Returns the size of a built-in C type; 0 for others."""
    return {
        "double": 8, "float": 4, "int": 4, "unsigned int": 4, "long": 8, "unsigned long": 8, "char": 1, "bool": 1,
        "unsigned char": 1, "signed char": 1, "short": 2, "unsigned short": 2, "long long": 8, "_Bool": 1,
        "unsigned long long": 8, "_Complex double": 16, "std::complex<double>": 16, "long double": 16,
    }.get(element, 0)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """`blocks` runs of `length` elements with a stride of `stride` elements; element_bytes is the size of an
    element."""

    element_bytes: int
    blocks: Poly
    length: Poly
    stride: Poly


def layout(node: Node, reader: Expressions, functions: Functions) -> Layout | None:
    """Returns the layout of a datatype argument; None if it is unknown."""
    one = Poly.number(1)
    word = re.compile(r"[A-Za-z_]\w*").match(node.unit.text, node.offset)
    name = node.unit.meaning(word[0]) if word else ""
    if name in _BYTES:
        return Layout(_BYTES[name], one, one, one)
    node = node.bare
    if node.kind != Kind.DECL_REF_EXPR or node.declaration is None:
        return None
    return _derived(node.declaration.key, reader, functions)


def _derived(key: int, reader: Expressions, functions: Functions) -> Layout | None:
    """Returns the layout of a datatype that exactly one call creates; None otherwise."""
    makers = [(call, one) for one in functions.of_file for call in one.calls if _makes(call, key)]
    if len(makers) != 1:
        return None
    call, function = makers[0]
    arguments = call.arguments
    outer, foreign = reader.function, reader.foreign
    reader.function, reader.foreign = function, foreign or function is not outer
    try:
        if call.name == "MPI_Type_contiguous":
            element = layout(arguments[1], reader, functions)
            return element and _several(element, _stable(reader, arguments[0]), Poly.number(1), Poly.number(1))
        if call.name == "MPI_Type_vector":
            element = layout(arguments[3], reader, functions)
            count, length, stride = (_stable(reader, argument) for argument in arguments[:3])
            return element and _several(element, length, count, stride)
    except NotAffine:
        return None
    finally:
        reader.function, reader.foreign = outer, foreign
    return None


def _several(element: Layout, length: Poly, blocks: Poly, stride: Poly) -> Layout | None:
    if element.length.constant != 1 or element.blocks.constant != 1:
        return None
    return Layout(element.element_bytes, blocks, length, stride)


def _stable(reader: Expressions, node: Node) -> Poly:
    """Returns a number that is unchanged until the message is sent. Raises NotAffine if it may change."""
    made = reader.integer(node)
    if not all(reader.symbols[key].stable or reader.symbols[key].value is not None for key in made.keys):
        raise NotAffine("the datatype's layout depends on what may have changed", node.line)
    return made


def _makes(call: Node, key: int) -> bool:
    if not call.name.startswith("MPI_Type_") or call.name in ("MPI_Type_commit", "MPI_Type_free"):
        return False
    return any(argument.mentions(key) for argument in call.arguments[-1:])
