"""Removes from the accesses of a region the symbols whose values the region changes, since an index or a condition with
such a symbol does not mean the same everywhere in the region."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Access, CommunicationStatement, NotMovable, Region

_NO_INTEGER = re.compile(r"float|double|long double|.*[Cc]omplex.*")
_HANDLE = re.compile(r"stream|request|MPI_\w+")  # types whose memory does not alias numbers of the program
_READS_MEMORY = re.compile(r"\[|->|\(\*")


def remove_modified_symbols(region: Region, written: Sequence[Access]) -> None:
    """Removes from the region's accesses the symbols that the region modifies: an index that contains one becomes
    unknown, and a condition that contains one is dropped. Raises NotMovable if the bounds of a loop, the length of
    a message or the size of an array contain a modified symbol."""
    modified = _find_modified_symbols(region, written)
    for item in region.items:
        lengths = [poly for loop in item.loops for poly in (*loop.lower, *loop.upper)]
        lengths += [size for access in item.accesses for size in access.base.sizes if size is not None]
        lengths += [one.count for one in item.messages if one.count] if isinstance(item, CommunicationStatement) else []
        for key in sorted({key for poly in lengths for key in poly.keys} & set(modified)):
            raise modified[key]
        item.accesses = [_without_modified_symbols(access, modified) for access in item.accesses]


def _find_modified_symbols(region: Region, written: Sequence[Access]) -> dict[str, NotMovable]:
    """Returns the keys of the symbols whose values the accesses `written` may change, each with a NotMovable that
    has the reason."""
    variables = {access.base.declaration: access for access in written if access.base.kind == "scalar"}
    numbers = [a for a in written if a.base.kind != "scalar" and not _NO_INTEGER.fullmatch(a.base.element)]
    found: dict[str, NotMovable] = {}
    for symbol in region.symbols.values():
        for key in symbol.variables & set(variables):
            access = variables[key]
            reason = f"{access.base.text} changes, and bounds or indices depend on it"
            found.setdefault(symbol.key, NotMovable(reason, access.line))
        for access in numbers if _READS_MEMORY.search(symbol.text) and symbol.meaning is None else []:
            aliases = access.base.kind != "array" and not _HANDLE.fullmatch(access.base.element)
            if aliases or access.base.declaration in symbol.variables:
                reason = f"{symbol.text}, on which bounds or indices depend, may change with {access.base.text}"
                found.setdefault(symbol.key, NotMovable(reason, access.line))
    return found


def _without_modified_symbols(access: Access, modified: Mapping[str, NotMovable]) -> Access:
    """Returns an access without its dependence on modified symbols: loops and conditions that use one are dropped, and
    indices that use one become unknown."""
    if not modified:
        return access
    loops = [one for one in access.loops if not _depend_on(modified, *one.lower, *one.upper)]
    gone = {one.iterator.key for one in access.loops if one not in loops} | set(modified)
    index = tuple(None if one is None or _depend_on(gone, one) else one for one in access.index)
    conditions = tuple(one for one in access.conditions if not _depend_on(gone, one.poly))
    note = access.note if index == access.index else "an index changes with what stands beside it"
    return replace(access, loops=tuple(loops), index=index, conditions=conditions, note=access.note or note)


def _depend_on(keys: Container[str], *polys: Poly) -> bool:
    return any(key in keys for poly in polys for key in poly.keys)
