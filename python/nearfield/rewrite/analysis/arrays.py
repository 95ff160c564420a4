"""Delinearizes arrays: splits a flat index such as i * n + j into a row and a column index. This is valid only if no
column index leaves its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearfield.rewrite.analysis.polynomials import ONE, ZERO, Monomial, Polynomial, Symbol
from nearfield.rewrite.analysis.program import Access, Loop


@dataclass(frozen=True)
class ArrayShape:
    """The dimensions of an array. `strides` are the strides of all dimensions but the innermost if the array is flat;
    `sizes` are the sizes of all dimensions but the outermost."""

    strides: tuple[Monomial, ...]  # largest first
    sizes: tuple[Polynomial | None, ...]  # None if the length of a row is unknown but rows do not overlap

    @property
    def num_dimensions(self) -> int:
        return len(self.sizes) + 1


def common_array_shape(accesses: Sequence[Access], symbols: dict[str, Symbol]) -> ArrayShape | None:
    """Returns the array shape that all accesses to an array have in common; None if there is none."""
    base = accesses[0].base
    inner = base.dimension_sizes[1:]
    if inner and all(size is not None for size in inner):
        return ArrayShape((), tuple(size for size in inner if size is not None))
    if inner:
        return ArrayShape((), (None,) * len(inner)) if base.object_kind == "rows" else None
    strides: set[Monomial] = set()
    for access in accesses:
        last = access.indices[-1] if access.indices else None
        for monomial in last.terms if last is not None else ():
            parameters = tuple(key for key in monomial if not symbols[key].is_iterator)
            if parameters and len(parameters) < len(monomial):
                strides.add(parameters)
    ordered = sorted(strides, key=len, reverse=True)
    sizes: list[Polynomial] = []
    for larger, smaller in zip(ordered, ordered[1:], strict=False):
        quotient, remainder = Polynomial({larger: 1}).divide_by_product(smaller)
        if remainder.terms:
            return None
        sizes.append(quotient)
    if ordered:
        sizes.append(Polynomial({ordered[-1]: 1}))
    return ArrayShape(tuple(ordered), tuple(sizes))


def reshape_access(access: Access, shape: ArrayShape) -> Access:
    """Returns an access with one index per dimension of the array shape."""
    if shape.strides and len(access.indices) == 1:
        access = _split_flat_message_into_rows(access, shape)
        return replace(access, indices=_split_by_strides(access.indices[-1], shape))
    if shape.sizes and access.is_message:
        access = _split_message_over_dimensions(access, shape)
    if shape.sizes and len(access.indices) == shape.num_dimensions:
        return replace(access, indices=_carry_rows(access.indices, shape))
    missing = shape.num_dimensions - len(access.indices)
    return replace(access, indices=(*access.indices, *(None,) * missing)[: shape.num_dimensions])


def _split_by_strides(index: Polynomial | None, shape: ArrayShape) -> tuple[Polynomial | None, ...]:
    """Splits a flat index into one index per dimension, by division by the strides."""
    if index is None:
        return (None,) * shape.num_dimensions
    made: list[Polynomial | None] = []
    for stride in shape.strides:
        quotient, index = index.divide_by_product(stride)
        made.append(quotient)
    return (*made, index)


def _split_flat_message_into_rows(access: Access, shape: ArrayShape) -> Access:
    """Splits an access by a message of whole rows of a flat array into two loops, over rows and columns."""
    if not access.is_message or not access.loops or access.indices[-1] is None:
        return access
    loop = access.loops[-1]
    for stride in shape.strides:
        quotient, remainder = loop.upper_bounds[0].divide_by_product(stride)
        if quotient.terms and not remainder.terms:
            rows = replace(
                loop, iterator=replace(loop.iterator, key=f"{loop.iterator.key}.row"), upper_bounds=(quotient,)
            )
            columns = replace(loop, upper_bounds=(Polynomial({stride: 1}),))
            index = access.indices[-1] + Polynomial({(rows.iterator.key, *stride): 1})
            return replace(access, loops=(*access.loops[:-1], rows, columns), indices=(index,))
    return access


def _split_message_over_dimensions(access: Access, shape: ArrayShape) -> Access:
    """Splits an access by a message of whole rows of a multidimensional array into loops over rows and columns, and
    over planes if the message spans several."""
    if not access.loops or len(access.indices) != shape.num_dimensions:
        return access
    loop, size = access.loops[-1], shape.sizes[-1]
    rows = _exact_quotient(loop.upper_bounds[0], size) if size is not None else None
    if rows is None or size is None or rows == ONE or access.indices[-1] != Polynomial.from_symbol(loop.iterator.key):
        return access
    outer = replace(loop, iterator=replace(loop.iterator, key=f"{loop.iterator.key}.row"), upper_bounds=(rows,))
    height = shape.sizes[0]
    if shape.num_dimensions == 3 and height is not None and (planes := _exact_quotient(rows, height)) is not None:
        first = replace(
            outer, iterator=replace(outer.iterator, key=f"{outer.iterator.key}.plane"), upper_bounds=(planes,)
        )
        outer = replace(outer, upper_bounds=(height,))
        three = (_add_iterator(access.indices[0], first), _add_iterator(access.indices[1], outer), access.indices[2])
        return replace(
            access, loops=(*access.loops[:-1], first, outer, replace(loop, upper_bounds=(size,))), indices=three
        )
    index = (*access.indices[:-2], _add_iterator(access.indices[-2], outer), access.indices[-1])
    return replace(access, loops=(*access.loops[:-1], outer, replace(loop, upper_bounds=(size,))), indices=index)


def _add_iterator(index: Polynomial | None, loop: Loop) -> Polynomial | None:
    return index + Polynomial.from_symbol(loop.iterator.key) if index is not None else None


def _exact_quotient(count: Polynomial, size: Polynomial) -> Polynomial | None:
    """Returns count / size if the division is known to be exact, otherwise None."""
    if size.constant:
        whole = all(factor % size.constant == 0 for factor in count.terms.values())
        return Polynomial({m: factor // size.constant for m, factor in count.terms.items()}) if whole else None
    if len(size.terms) == 1:
        quotient, remainder = count.divide_by_product(next(iter(size.terms)))
        return quotient if quotient.terms and not remainder.terms else None
    return next((Polynomial.from_constant(n) for n in range(1, 9) if count == size * Polynomial.from_constant(n)), None)


def _carry_rows(indices: tuple[Polynomial | None, ...], shape: ArrayShape) -> tuple[Polynomial | None, ...]:
    """Returns the indices of an array access with multiples of the row length moved from the column index to the row
    index."""
    made = list(indices)
    for place in range(len(made) - 1, 0, -1):
        column, row, size = made[place], made[place - 1], shape.sizes[place - 1]
        if column is None or row is None or size is None:
            continue
        if len(size.terms) == 1 and size.constant is None:
            quotient, rest = column.divide_by_product(next(iter(size.terms)))
        elif size.constant and size.constant > 1:
            number = size.constant
            quotient = Polynomial({m: f // number for m, f in column.terms.items() if m and f % number == 0})
            rest = column - quotient * Polynomial.from_constant(number)
        else:
            continue
        if any(len(monomial) for monomial in quotient.terms):
            made[place], made[place - 1] = rest, row + quotient
    return tuple(made)


__all__ = ["ZERO", "ArrayShape", "common_array_shape", "reshape_access"]
