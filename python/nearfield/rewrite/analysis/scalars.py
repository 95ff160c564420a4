"""Privatizes scalars: a variable whose lifetime is one execution of a statement causes no dependences between
executions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest, NotMovable, Region, RegionItem
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts


def replace_members_by_structures(region: Region) -> None:
    """Replaces accesses to members of a structure by accesses to the whole structure, if the region accesses the
    structure as a whole, too."""
    structure_by_key = {
        a.base.key: a.base for item in region.items for a in item.accesses if not a.base.dimension_sizes
    }
    for item in region.items:
        for place, access in enumerate(item.accesses):
            key = access.base.key
            structure = next(
                (
                    structure_by_key[key[:at]]
                    for at, sign in enumerate(key)
                    if sign == "." and key[:at] in structure_by_key
                ),
                None,
            )
            if structure is not None:
                item.accesses[place] = replace(access, base=structure, indices=(), unknown_index_reason="")


def privatize_scalars(region: Region, function: FunctionFacts) -> None:
    """Removes accesses to scalar variables that are written before every read. Raises NotMovable if a loop iterator is
    written by another statement, or read after its loop."""
    item_by_iterator = {key: item for item in region.items for key in item.outer_iterators}
    scalar_writes = [
        (item, a) for item in region.items for a in item.accesses if a.is_write and a.base.object_kind == "scalar"
    ]
    for item, access in scalar_writes:
        if access.base.declaration_key in item_by_iterator:
            raise NotMovable(f"{access.base.text}, which a loop counts, is given a value", item.line)
    for key, item in item_by_iterator.items():
        _check_reads_of_iterator(key, item, region, function)
    private_keys = {
        key for key in {a.base.declaration_key for _, a in scalar_writes} if _is_private(key, region, function)
    }
    for item in region.items:
        if isinstance(item, LoopNest):
            item.accesses = [
                a for a in item.accesses if a.base.object_kind != "scalar" or a.base.declaration_key not in private_keys
            ]


def _check_reads_of_iterator(iterator_key: int, item: RegionItem, region: Region, function: FunctionFacts) -> None:
    """Raises NotMovable if the last value of a loop's iterator, which an item of the region counts, may be read."""
    for use in function.uses.get(iterator_key, []):
        if not _is_use_preceded_by_write(use, iterator_key, region, function, is_iterator=True):
            nests = [one for one in region.items if isinstance(one, LoopNest) and one.start <= use.offset < one.end]
            loop = f"which the loop at line {item.line} counts"
            reason = f"{use.name}, {loop}, is read after the loop, at line {use.line}"
            raise NotMovable(reason, nests[0].line if nests else item.line)


def _is_private(declaration_key: int, region: Region, function: FunctionFacts) -> bool:
    """Returns whether no value of a variable is kept between two executions of a loop body: the variable is automatic,
    nothing points to it, and every use of it is preceded by a write in the same execution."""
    declaration = function.declarations.get(declaration_key)
    return (
        declaration is not None
        and declaration.kind == Kind.VAR_DECL
        and declaration.cursor.storage_class.name != "STATIC"
        and declaration_key not in function.address_taken
        and all(
            _is_use_preceded_by_write(use, declaration_key, region, function)
            for use in function.uses.get(declaration_key, [])
        )
    )


def _is_use_preceded_by_write(
    use: SyntaxNode, declaration_key: int, region: Region, function: FunctionFacts, is_iterator: bool = False
) -> bool:
    """Returns whether every path to a use of a variable passes a write to it. If the use is in the region, the write
    must be in the same execution of the loop body; otherwise it must follow the last execution of the region."""
    above = function.parent_of(use)
    if above is not None and above.operator == "=" and above.children[0] is use:
        return True
    iteration_span = _offsets_of_iteration(use, region, is_iterator)
    for outer in function.ancestors_of(use):
        start, end = outer.offset, outer.end
        if iteration_span is not None and not (iteration_span[0] <= start and end <= iteration_span[1]):
            return False
        if outer.kind not in (Kind.COMPOUND_STMT, Kind.FOR_STMT) or _has_jump_target(outer, function):
            continue
        if any(
            iteration_span is not None or not _may_region_run_in_between(region, *one)
            for one in _writes_before(outer, use, declaration_key)
        ):
            return True
    return False


def _may_region_run_in_between(region: Region, write: SyntaxNode, use_part: SyntaxNode, block: SyntaxNode) -> bool:
    """Returns whether the region may be executed after a write to a variable and before a use in a later part of the
    block `block`, without another execution of the write in between."""
    if block.kind == Kind.FOR_STMT:  # all parts of a loop header but the initialisation are executed repeatedly
        return block.offset <= region.start and region.end <= block.end
    return write.offset < region.end and region.start < use_part.end


def _offsets_of_iteration(use: SyntaxNode, region: Region, is_iterator: bool) -> tuple[int, int] | None:
    """Returns the source offsets of the part of the region that one loop iteration executes and that contains a use;
    None if the use is outside of the region."""
    for item in region.items:
        if item.start <= use.offset < item.end:
            if isinstance(item, CommunicationStatement) or is_iterator:
                return item.start, item.end
            return item.body_span if use.offset >= item.body_span[0] else (item.start, item.end)
    return None


def _has_jump_target(block: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a block may be entered by a jump, other than at its beginning."""
    return function.contains_label(block) or any(
        one.kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT) for one in block.children
    )


def _writes_before(
    block: SyntaxNode, use: SyntaxNode, declaration_key: int
) -> Iterator[tuple[SyntaxNode, SyntaxNode, SyntaxNode]]:
    """Yields the writes to a variable in a block or a loop header that are executed before the part which contains a
    use, each with that part and the block."""
    parts = block.children if block.kind == Kind.COMPOUND_STMT or len(block.children) == 4 else []
    use_part = next((one for one in parts if one.offset <= use.offset < one.end), None)
    for child in parts:
        if use_part is None or child is use_part or child.offset > use.offset:
            return
        statement = child.without_casts
        assigns = statement.operator == "=" and statement.children[0].is_variable(declaration_key)
        if assigns or child.kind == Kind.DECL_STMT and any(one.key == declaration_key for one in child.children):
            yield child, use_part, block
        if block.kind == Kind.FOR_STMT:
            return  # in a loop header, only the initialization precedes all other parts
