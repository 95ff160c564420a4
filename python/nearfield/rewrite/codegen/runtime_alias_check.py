"""Writes a run-time check, as a C condition, that the memory that a region accesses through two pointers does not
overlap."""

from __future__ import annotations

import islpy as isl

from nearfield.rewrite.analysis.program import BaseObject
from nearfield.rewrite.codegen.code import NotExpressible, c_names_of_parameters, expression_to_c
from nearfield.rewrite.model.polyhedral import PolyhedralModel

MAX_PARTS_PER_ARRAY = 3  # maximum parts per array; each is compared with each part of the other array


def write_alias_check(model: PolyhedralModel, pairs: list[tuple[BaseObject, BaseObject]]) -> str:
    """Returns a C condition that is true if none of the pairs of arrays overlaps. Raises NotExpressible if the bounds
    of loops and messages do not determine which parts are accessed."""
    conditions = [
        _disjointness_test(range_of_one, range_of_other)
        for one, other in pairs
        for range_of_one in _accessed_ranges(model, one)
        for range_of_other in _accessed_ranges(model, other)
    ]
    return " && ".join(dict.fromkeys(conditions))


def _disjointness_test(first_range: tuple[str, str], second_range: tuple[str, str]) -> str:
    """Returns the C condition that one memory range ends before another one begins, or the reverse."""
    (first, after), (other_first, other_after) = first_range, second_range
    left = f"(const char *)({after}) <= (const char *)({other_first})"
    return f"({left} || (const char *)({other_after}) <= (const char *)({first}))"


def _accessed_ranges(model: PolyhedralModel, base: BaseObject) -> list[tuple[str, str]]:
    """Returns the start and end, as C pointers, of each range of rows that the region may access behind a pointer.
    Raises NotExpressible if they are unknown."""
    shape = model.shape_by_array.get(base.key)
    if base.object_kind != "pointer" or shape is None:
        raise NotExpressible("only what lies behind one pointer is checked")
    stride = ""
    for key in shape.strides[0] if shape.strides else ():
        symbol = model.region.symbols[key]
        if symbol.has_callee_names:
            raise NotExpressible("a stride is a variable of another function")
        stride += f" * {symbol.text}"
    parts = _accessed_elements(model, base).get_basic_sets()
    if len(parts) > MAX_PARTS_PER_ARRAY:
        raise NotExpressible("the array has too many parts")
    rows = [_row_range(model, part) for part in parts]
    return [
        (f"{base.text} + {_product_text(first, stride)}", f"{base.text} + {_product_text(after, stride)}")
        for first, after in rows
    ]


def _product_text(count: str, stride: str) -> str:
    """Returns the C product of a row count and a stride."""
    return f"({count}){stride}" if stride and not count.isalnum() else f"{count}{stride}"


def _row_range(model: PolyhedralModel, part: isl.BasicSet) -> tuple[str, str]:
    """Returns the first row of a part of an array, and one past its last row, as C expressions, whether or not the part
    is empty."""
    c_names = c_names_of_parameters(model.names)
    rows = isl.Set.from_basic_set(part)
    rows = rows.project_out(isl.dim_type.set, 1, rows.dim(isl.dim_type.set) - 1)
    rows = rows.gist_params(rows.params())
    try:
        first, last = rows.dim_min(0), rows.dim_max(0).add_constant_val(isl.Val(1))
        bounds = [(one, isl.AstBuild.from_context(one.domain())) for one in (first, last)]
        texts = [expression_to_c(build.expr_from_pw_aff(one), c_names) for one, build in bounds]
    except isl.Error as error:
        raise NotExpressible("the region's accesses have no bounds") from error
    return texts[0], texts[1]


def _accessed_elements(model: PolyhedralModel, base: BaseObject) -> isl.Set:
    """Returns the elements of an array that the region accesses."""
    name = model.names.array_name(base.key)
    accesses = model.reads.union(model.writes).intersect_domain(model.instances)
    set_list = accesses.range().get_set_list()
    for index in range(set_list.n_set()):
        one = set_list.get_at(index)
        if one.get_tuple_name() == name:
            return one.intersect_params(model.index_conditions).coalesce()
    raise NotExpressible("the region does not access it")
