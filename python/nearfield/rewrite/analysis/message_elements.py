"""The elements of an array that an MPI message transfers."""

from __future__ import annotations

import re
from dataclasses import replace

from nearfield.rewrite.analysis.datatypes import DatatypeLayout, bytes_of_element_type
from nearfield.rewrite.analysis.expressions import Pointer, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE, Polynomial
from nearfield.rewrite.frontend.clang import SyntaxNode

# Reasons why nothing is moved across other MPI calls, by the name of the function.
_REASON_BY_REFUSED_CALL = (
    (r"MPI_I?(?:bcast|reduce\w*|allreduce|scan|exscan|gatherv?|allgatherv?|scatterv?|alltoall[vw]?|neighbor_\w+)",
     "a collective, across which nothing is moved"),
    (r"MPI_I?m?probe", "and which message it finds is known only when it runs"),
    (r"MPI_(?:Test\w*|Wait(?:any|some))", "whose outcome depends on when messages arrive; MPI_Wait and MPI_Waitall "
     "are understood"),
    (r"MPI_(?:R?put|R?get|R?accumulate|R?get_accumulate|Fetch_and_op|Compare_and_swap|Win_\w+)",
     "one-sided communication, which is not understood"),
    (r"MPI_\w+_init", "which makes a persistent request"),
)  # fmt: skip


def unknown_element(pointer: Pointer) -> Pointer:
    """Returns an unknown element of the array that a pointer points into; for an array of pointers to rows, an unknown
    element of the same row."""
    rows = pointer.indices[:-1] if pointer.base.object_kind == "rows" else ()
    index = (*rows, *(None,) * max(len(pointer.indices) - len(rows), 1))
    return replace(
        pointer,
        indices=index,
        unknown_index_reason=pointer.unknown_index_reason if rows else "the layout of a message is not known",
    )


def is_within_member(pointer: Pointer, element_count: Polynomial | None, layout: DatatypeLayout) -> bool:
    """Returns whether a message of constant length lies within the structure member that its buffer argument points
    to."""
    base, size = pointer.base, bytes_of_element_type(pointer.base.element_type)
    if (
        element_count is None
        or element_count.constant is None
        or layout.element_bytes != size
        or not layout.block_length == layout.num_blocks == ONE
    ):
        return False
    known_sizes = [one for one in base.dimension_sizes if one is not None]
    if not base.dimension_sizes or not known_sizes:
        return element_count.constant <= 1 and base.object_kind != "pointer"
    first = pointer.indices[-1]
    if len(known_sizes) > 1 or known_sizes[0].constant is None or first is None or first.constant is None:
        return False
    return first.constant >= 0 and first.constant + element_count.constant <= known_sizes[0].constant


def refused_call_reason(name: str, arguments: list[SyntaxNode]) -> str:
    """Returns the reason why nothing is moved across a call of an MPI function that is not modelled."""
    why = next((why for pattern, why in _REASON_BY_REFUSED_CALL if re.fullmatch(pattern, name, re.I)), "")
    wildcard_note = (
        " (MPI_ANY_SOURCE)" if any(source_text_of(one).startswith("MPI_ANY_SOURCE") for one in arguments) else ""
    )
    return f"it calls {name}{wildcard_note}{', ' if why else ''}{why}"


def bytes_to_elements(
    element_count: Polynomial, block_length: Polynomial, datatype_bytes: int, element_bytes: int
) -> tuple[Polynomial, Polynomial] | None:
    """Converts the number of elements of a message and the length of a block from a datatype of `datatype_bytes` bytes
    to elements of `element_bytes` bytes. Returns None if the division is not known to be exact."""
    total_elements = element_count * block_length
    if datatype_bytes == 1 and all(factor % element_bytes == 0 for factor in total_elements.terms.values()):
        return Polynomial(
            {monomial: factor // element_bytes for monomial, factor in total_elements.terms.items()}
        ), Polynomial.from_constant(1)
    if element_bytes % datatype_bytes == 0 and all(
        factor % (element_bytes // datatype_bytes) == 0 for factor in total_elements.terms.values()
    ):
        return Polynomial(
            {monomial: factor // (element_bytes // datatype_bytes) for monomial, factor in total_elements.terms.items()}
        ), Polynomial.from_constant(1)
    return None
