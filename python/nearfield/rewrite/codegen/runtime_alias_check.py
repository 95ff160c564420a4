"""Writes a run-time check, as a C condition, that the memory that a region accesses through two pointers does not
overlap."""

from __future__ import annotations

import islpy as isl

from nearfield.rewrite.analysis.program import BaseObject
from nearfield.rewrite.codegen.code import NotExpressible, c_names_of_parameters, expression_as_c
from nearfield.rewrite.model.polyhedral import Model

MAX_PARTS = 3  # maximum parts per array; each is compared with each part of the other array


def write_alias_check(model: Model, pairs: list[tuple[BaseObject, BaseObject]]) -> str:
    """Returns a C condition that is true if none of the pairs of arrays overlaps. Raises NotExpressible if the bounds
    of loops and messages do not determine which parts are accessed."""
    tests = [
        _disjointness_test(mine, theirs)
        for one, other in pairs
        for mine in _accessed_ranges(model, one)
        for theirs in _accessed_ranges(model, other)
    ]
    return " && ".join(dict.fromkeys(tests))


def _disjointness_test(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Returns the C condition that one memory range ends before another one begins, or the reverse."""
    (first, after), (other_first, other_after) = one, other
    left = f"(const char *)({after}) <= (const char *)({other_first})"
    return f"({left} || (const char *)({other_after}) <= (const char *)({first}))"


def _accessed_ranges(model: Model, base: BaseObject) -> list[tuple[str, str]]:
    """Returns begin and end, as C pointers, of each range of rows that the region may access behind a pointer. Raises
    NotExpressible if they are unknown."""
    shape = model.shapes.get(base.key)
    if base.kind != "pointer" or shape is None:
        raise NotExpressible("only what lies behind one pointer is checked")
    stride = ""
    for key in shape.strides[0] if shape.strides else ():
        symbol = model.region.symbols[key]
        if symbol.foreign:
            raise NotExpressible("a stride is a variable of another function")
        stride += f" * {symbol.text}"
    parts = _accessed_elements(model, base).get_basic_sets()
    if len(parts) > MAX_PARTS:
        raise NotExpressible("the array has too many parts")
    rows = [_row_range(model, part) for part in parts]
    return [
        (f"{base.text} + {_product_text(first, stride)}", f"{base.text} + {_product_text(after, stride)}")
        for first, after in rows
    ]


def _product_text(count: str, stride: str) -> str:
    """Returns the C product of a row count and a stride."""
    return f"({count}){stride}" if stride and not count.isalnum() else f"{count}{stride}"


def _row_range(model: Model, part: isl.BasicSet) -> tuple[str, str]:
    """Returns the first row of a part of an array, and one past its last row, as C expressions, whether or not the part
    is empty."""
    words = c_names_of_parameters(model.names)
    rows = isl.Set.from_basic_set(part)
    rows = rows.project_out(isl.dim_type.set, 1, rows.dim(isl.dim_type.set) - 1)
    rows = rows.gist_params(rows.params())
    try:
        first, last = rows.dim_min(0), rows.dim_max(0).add_constant_val(isl.Val(1))
        ends = [(one, isl.AstBuild.from_context(one.domain())) for one in (first, last)]
        texts = [expression_as_c(build.expr_from_pw_aff(one), words) for one, build in ends]
    except isl.Error as error:
        raise NotExpressible("the region's accesses have no bounds") from error
    return texts[0], texts[1]


def _accessed_elements(model: Model, base: BaseObject) -> isl.Set:
    """Returns the elements of an array that the region accesses."""
    name = model.names.array_name(base.key)
    accesses = model.reads.union(model.writes).intersect_domain(model.instances)
    found = accesses.range().get_set_list()
    for place in range(found.n_set()):
        one = found.get_at(place)
        if one.get_tuple_name() == name:
            return one.intersect_params(model.needed).coalesce()
    raise NotExpressible("the region does not access it")
