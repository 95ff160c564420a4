"""Privatizes scalars: a variable whose lifetime is one execution of a statement causes no dependences between
executions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest, NotMovable, Region
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.function import FunctionFacts


def replace_members_by_structures(region: Region) -> None:
    """Replaces accesses to members of a structure by accesses to the whole structure, if the region accesses the
    structure as a whole, too."""
    whole = {a.base.key: a.base for item in region.items for a in item.accesses if not a.base.sizes}
    for item in region.items:
        for place, access in enumerate(item.accesses):
            key = access.base.key
            owner = next((whole[key[:at]] for at, sign in enumerate(key) if sign == "." and key[:at] in whole), None)
            if owner is not None:
                item.accesses[place] = replace(access, base=owner, index=(), note="")


def privatize_scalars(region: Region, function: FunctionFacts) -> None:
    """Removes accesses to scalar variables that are written before every read. Raises NotMovable if a loop iterator is
    read after its loop."""
    span = (region.start, region.end)
    counted = {key: item for item in region.items for key in item.counters}
    for item in region.items:
        for access in item.accesses:
            if access.write and access.base.kind == "scalar" and access.base.declaration in counted:
                raise NotMovable(f"{access.base.text}, which a loop counts, is given a value", item.line)
    for key, item in counted.items():
        uses = function.uses.get(key, [])
        read = next(
            (use for use in uses if not _is_use_preceded_by_write(use, key, function, region, span, True)), None
        )
        if read is not None:
            within = [one for one in region.items if isinstance(one, LoopNest) and one.start <= read.offset < one.end]
            loop = f"which the loop at line {item.line} counts"
            reason = f"{read.name}, {loop}, is read after the loop, at line {read.line}"
            raise NotMovable(reason, within[0].line if within else item.line)
    written = {
        a.base.declaration for item in region.items for a in item.accesses if a.write and a.base.kind == "scalar"
    }
    for key in written:
        declared = function.declared.get(key)
        local = (
            declared is not None and declared.kind == Kind.VAR_DECL and declared.cursor.storage_class.name != "STATIC"
        )
        if local and key not in function.address_taken and _is_privatizable(key, function, region, span):
            for item in region.items:
                if isinstance(item, LoopNest):
                    item.accesses = [a for a in item.accesses if a.base.declaration != key or a.base.kind != "scalar"]


def _is_privatizable(key: int, function: FunctionFacts, region: Region, span: tuple[int, int]) -> bool:
    """Returns whether every use of a variable is preceded by a write in the same execution of a loop body."""
    return all(_is_use_preceded_by_write(use, key, function, region, span, False) for use in function.uses.get(key, []))


def _is_use_preceded_by_write(
    use: Node, key: int, function: FunctionFacts, region: Region, span: tuple[int, int], counter: bool
) -> bool:
    """Returns whether every path to a use of a variable passes a write to it. If the use is in the region, the write
    must be in the same execution of the loop body; otherwise it must follow the last execution of the region."""
    above = function.parent(use)
    if above is not None and above.operator == "=" and above.children[0] is use:
        return True
    limit = _offsets_of_iteration(use, region, counter)
    for outer in function.ancestors(use):
        start, end = outer.offset, outer.end
        if limit is not None and not (limit[0] <= start and end <= limit[1]):
            return False
        if outer.kind not in (Kind.COMPOUND_STMT, Kind.FOR_STMT) or _has_jump_target(outer, function):
            continue
        if any(limit is not None or not _may_run_in_between(span, *one) for one in _writes_before(outer, use, key)):
            return True
    return False


def _may_run_in_between(span: tuple[int, int], write: Node, part: Node, outer: Node) -> bool:
    """Returns whether the region may be executed after a write to a variable and before a use in a later part of the
    block `outer`, without another execution of the write in between."""
    if outer.kind == Kind.FOR_STMT:  # all parts of a loop header but the initialisation are executed repeatedly
        return outer.offset <= span[0] and span[1] <= outer.end
    return write.offset < span[1] and span[0] < part.end


def _offsets_of_iteration(use: Node, region: Region, counter: bool) -> tuple[int, int] | None:
    """Returns the source offsets of the part of the region that one loop iteration executes and that contains a use;
    None if the use is outside of the region."""
    for item in region.items:
        if item.start <= use.offset < item.end:
            if isinstance(item, CommunicationStatement) or counter:
                return item.start, item.end
            return item.body if use.offset >= item.body[0] else (item.start, item.end)
    return None


def _has_jump_target(outer: Node, function: FunctionFacts) -> bool:
    """Returns whether a block may be entered by a jump, other than at its beginning."""
    return function.has_label(outer) or any(one.kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT) for one in outer.children)


def _writes_before(outer: Node, use: Node, key: int) -> Iterator[tuple[Node, Node, Node]]:
    """Yields the writes to a variable in a block or a loop header that are executed before the part which contains a
    use, each with that part and the block."""
    parts = outer.children if outer.kind == Kind.COMPOUND_STMT or len(outer.children) == 4 else []
    part = next((one for one in parts if one.offset <= use.offset < one.end), None)
    for child in parts:
        if part is None or child is part or child.offset > use.offset:
            return
        statement = child.bare
        assigns = statement.operator == "=" and statement.children[0].is_variable(key)
        if assigns or child.kind == Kind.DECL_STMT and any(one.key == key for one in child.children):
            yield child, part, outer
        if outer.kind == Kind.FOR_STMT:
            return  # of a loop header, only the initialisation precedes all other parts
