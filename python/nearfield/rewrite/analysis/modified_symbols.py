"""Removes from the accesses of a region the symbols whose values the region changes, since an index or a condition with
such a symbol does not mean the same everywhere in the region."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import Access, CommunicationStatement, NotMovable, Region

_NON_INTEGER_TYPE = re.compile(r"float|double|long double|.*[Cc]omplex.*")
_HANDLE_TYPE = re.compile(r"stream|request|MPI_\w+")  # types whose memory does not alias numbers of the program
_READS_MEMORY = re.compile(r"\[|->|\(\*")


def remove_modified_symbols(region: Region, writes: Sequence[Access]) -> None:
    """Removes from the region's accesses the symbols that the region modifies: an index that contains one becomes
    unknown, and a condition that contains one is dropped. Raises NotMovable if the bounds of a loop, the length of
    a message or the size of an array contain a modified symbol."""
    modified = _find_modified_symbols(region, writes)
    for item in region.items:
        lengths = [poly for loop in item.loops for poly in (*loop.lower_bounds, *loop.upper_bounds)]
        lengths += [size for access in item.accesses for size in access.base.dimension_sizes if size is not None]
        lengths += [one.count for one in item.messages if one.count] if isinstance(item, CommunicationStatement) else []
        for key in sorted({key for poly in lengths for key in poly.keys} & set(modified)):
            raise modified[key]
        item.accesses = [_without_modified_symbols(access, modified) for access in item.accesses]


def _find_modified_symbols(region: Region, writes: Sequence[Access]) -> dict[str, NotMovable]:
    """Returns the keys of the symbols whose values the accesses `writes` may change, each with a NotMovable that
    has the reason."""
    variables = {access.base.declaration_key: access for access in writes if access.base.object_kind == "scalar"}
    numbers = [
        a for a in writes if a.base.object_kind != "scalar" and not _NON_INTEGER_TYPE.fullmatch(a.base.element_type)
    ]
    modified_symbols: dict[str, NotMovable] = {}
    for symbol in region.symbols.values():
        for key in symbol.variable_keys & set(variables):
            access = variables[key]
            reason = f"{access.base.text} changes, and bounds or indices depend on it"
            modified_symbols.setdefault(symbol.key, NotMovable(reason, access.line))
        for access in numbers if _READS_MEMORY.search(symbol.text) and symbol.equivalent_polynomial is None else []:
            aliases = access.base.object_kind != "array" and not _HANDLE_TYPE.fullmatch(access.base.element_type)
            if aliases or access.base.declaration_key in symbol.variable_keys:
                reason = f"{symbol.text}, on which bounds or indices depend, may change with {access.base.text}"
                modified_symbols.setdefault(symbol.key, NotMovable(reason, access.line))
    return modified_symbols


def _without_modified_symbols(access: Access, modified: Mapping[str, NotMovable]) -> Access:
    """Returns an access without its dependence on modified symbols: loops and conditions that use one are dropped, and
    indices that use one become unknown."""
    if not modified:
        return access
    loops = [one for one in access.loops if not _depend_on(modified, *one.lower_bounds, *one.upper_bounds)]
    unusable_keys = {one.iterator.key for one in access.loops if one not in loops} | set(modified)
    index = tuple(None if one is None or _depend_on(unusable_keys, one) else one for one in access.indices)
    conditions = tuple(one for one in access.conditions if not _depend_on(unusable_keys, one.polynomial))
    note = access.unknown_index_reason if index == access.indices else "an index changes with what stands beside it"
    return replace(
        access,
        loops=tuple(loops),
        indices=index,
        conditions=conditions,
        unknown_index_reason=access.unknown_index_reason or note,
    )


def _depend_on(keys: Container[str], *polys: Polynomial) -> bool:
    return any(key in keys for poly in polys for key in poly.keys)
