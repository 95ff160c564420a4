"""Explains which data dependence prevents a new order: which memory access at which line depends on which other one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import islpy as isl

from nearfield.rewrite.analysis.program import Access, CommunicationStatement, LoopNest, Region, RegionItem
from nearfield.rewrite.model.instances import has_no_iterations
from nearfield.rewrite.model.legality import find_violations
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import DependencePartition, ExecutionOrder

_MAX_PATH_LENGTH = 3  # maximum number of consecutive dependences in an explanation


def explain_refused_order(
    model: PolyhedralModel, partition: DependencePartition, illegal_order: ExecutionOrder | None
) -> tuple[str, int]:
    """Returns the reason why no order of a region but the original one is legal, and its line. `illegal_order` is an
    order that was found illegal."""
    explanation = (
        _message_dependences(model)
        if illegal_order is None or has_no_iterations(partition.independent)
        else _violated_dependence(model, illegal_order) or _message_dependences(model)
    )
    note = next(
        (one for one in model.accesses.widened_accesses if explanation is None or one.reason not in explanation[0]),
        None,
    )
    if explanation is not None:
        return (
            f"{explanation[0]}; {note.reason} (line {note.line})" if note is not None else explanation[0]
        ), explanation[1]
    if note is not None:
        return note.reason, note.line
    nest = model.region.nests[0]
    return "no order of its loops and messages but this one is known to be legal for more than a few sizes", nest.line


def describe_shared_array(region: Region) -> str:
    """Returns a sentence on a loop and a message of a region that use the same array, regardless of which elements; ''
    if there are none."""
    calls = [item for item in region.items if isinstance(item, CommunicationStatement)]
    for nest in sorted(region.nests, key=lambda one: not one.loops):
        for call in sorted(calls, key=lambda one: abs(one.start - nest.start)):
            for mine in call.accesses:
                theirs = next(
                    (a for a in nest.accesses if a.base.key == mine.base.key and a.is_write != mine.is_write), None
                )
                if theirs is not None and mine.base.dimension_sizes:
                    done = f"{_item_name(nest)} {_access_verb(nest, theirs)} {mine.base.text}"
                    return f"{done}, which {_item_name(call)} {_access_verb(call, mine)}"
    return ""


def _message_dependences(model: PolyhedralModel) -> tuple[str, int] | None:
    """Returns a sentence on the dependences between a message and a loop that accesses arrays, and the loop's line;
    None if there are none."""
    items = model.region.items
    moved = [
        n
        for n, item in enumerate(items)
        if isinstance(item, LoopNest) and any(a.base.dimension_sizes for a in item.accesses)
    ]
    calls = [n for n, item in enumerate(items) if isinstance(item, CommunicationStatement) and item.messages]
    for nest in sorted(moved, key=lambda n: (not _as_nest(items[n]).loops, n)):
        for call in sorted(calls, key=lambda n: abs(n - nest)):
            path = _dependence_path(model, min(nest, call), max(nest, call))
            if path:
                sentence = "; ".join(_describe_dependence(model, *pair) for pair in zip(path, path[1:], strict=False))
                return f"{sentence}{_whole_nest_note(_as_nest(items[nest]))}", items[nest].line
    return None


def _whole_nest_note(nest: LoopNest) -> str:
    """Returns the reason why a statement without loops of its own is not split; '' for a loop nest."""
    return "" if nest.loops else "; it is moved as a whole, since only loops that stand in this block are split"


def _as_nest(item: RegionItem) -> LoopNest:
    assert isinstance(item, LoopNest)
    return item


def _violated_dependence(model: PolyhedralModel, illegal_order: ExecutionOrder) -> tuple[str, int] | None:
    """Returns a sentence on a dependence that an order would violate, and its line; None if there is none."""
    for one in find_violations(model, illegal_order):
        first, second = (int(one.get_tuple_name(side)[1:]) for side in (isl.dim_type.in_, isl.dim_type.out))
        if _find_conflict(model, first, second) is not None:
            between = "their own order must stay" if first == second else "this order must stay"
            return f"{_describe_dependence(model, first, second)}, and {between}", model.region.items[second].line
    return None


def _dependence_path(model: PolyhedralModel, first_item: int, last_item: int) -> list[int]:
    """Returns the shortest path of dependences from one statement of a region to a later one, as statement numbers;
    empty if there is none."""
    came: dict[int, int] = {first_item: first_item}
    waiting = deque([first_item])
    while waiting and last_item not in came:
        at = waiting.popleft()
        for following in range(at + 1, last_item + 1):
            if following not in came and _find_conflict(model, at, following) is not None:
                came[following] = at
                waiting.append(following)
    if last_item not in came:
        return []
    path = [last_item]
    while path[0] != first_item:
        path.insert(0, came[path[0]])
    return path if len(path) <= _MAX_PATH_LENGTH + 1 else []


def _find_conflict(model: PolyhedralModel, first_item: int, second_item: int) -> tuple[Access, Access] | None:
    """Returns two accesses of two statements to the same elements, at least one of which is a write; arrays are
    preferred to scalars. Returns None if there are none."""
    found = sorted(
        _find_conflicts(model, first_item, second_item),
        key=lambda pair: (not pair[0].base.dimension_sizes, not pair[0].is_write),
    )
    return found[0] if found else None


def _find_conflicts(model: PolyhedralModel, first_item: int, second_item: int) -> Iterator[tuple[Access, Access]]:
    """Yields the pairs of accesses of two dependent statements to the same elements."""
    for one in _instance_sets(model, first_item):
        for other in _instance_sets(model, second_item):
            between = model.dependences.intersect_domain(one).intersect_range(other)
            if between.is_empty():
                continue
            for first_access in model.region.items[first_item].accesses:
                for second_access in model.region.items[second_item].accesses:
                    if first_access.base.key == second_access.base.key and (
                        first_access.is_write or second_access.is_write
                    ):
                        yield from _pair_if_overlapping(model, (one, first_access), (other, second_access))


def _pair_if_overlapping(
    model: PolyhedralModel, first_access: tuple[isl.UnionSet, Access], second_access: tuple[isl.UnionSet, Access]
) -> Iterator[tuple[Access, Access]]:
    """Yields the two accesses if the sets of elements that they reach overlap."""
    sets = [
        domain.apply(model.writes if access.is_write else model.reads)
        for domain, access in (first_access, second_access)
    ]  # fmt: skip
    name = model.names.array_name(first_access[1].base.key)
    array = isl.UnionSet(f"{{ {name}[{_dimension_names(sets[0], name)}] }}")
    if not sets[0].intersect(sets[1]).intersect(array).is_empty():
        yield first_access[1], second_access[1]


def _dimension_names(elements: isl.UnionSet, array: str) -> str:
    """Returns isl names for the dimensions of an array; '' if the array does not occur in the set."""
    sets = elements.get_set_list()
    for place in range(sets.n_set()):
        one = sets.get_at(place)
        if one.get_tuple_name() == array:
            return ", ".join(f"a{dim}" for dim in range(one.dim(isl.dim_type.set)))
    return ""


def _instance_sets(model: PolyhedralModel, item_number: int) -> Iterator[isl.UnionSet]:
    """Yields the iterations of a loop nest, or the events of an MPI call."""
    for one in model.instance_sets[item_number]:
        yield isl.UnionSet.from_set(one.intersect_params(model.index_conditions))


def _describe_dependence(model: PolyhedralModel, first_item: int, second_item: int) -> str:
    """Returns the dependence between two statements as a sentence: what the later one does, then what the earlier one
    does."""
    pair = _find_conflict(model, first_item, second_item)
    assert pair is not None
    one, other = model.region.items[first_item], model.region.items[second_item]
    what = pair[1].base.text
    note = (
        f" ({pair[1].unknown_index_reason or pair[0].unknown_index_reason})"
        if pair[1].unknown_index_reason or pair[0].unknown_index_reason
        else ""
    )
    if what == "what is printed":
        return f"{_item_name(other)} and {_item_name(one)} print, or stand among what is printed"
    later = f"{_item_name(other)} {_access_verb(other, pair[1])} {what}{note}"
    return f"{later}, which {_item_name(one)} {_access_verb(one, pair[0])}"


def _item_name(item: RegionItem) -> str:
    """Returns the name of an MPI call or loop with its line, for a sentence."""
    if isinstance(item, CommunicationStatement):
        return f"the {item.call_names} at line {item.line}"
    kind = "loop" if item.loops else "statement"
    return f"the {kind} at line {item.line}"


def _access_verb(item: RegionItem, access: Access) -> str:
    """Returns the verb for a memory access in a sentence: sends, receives into, reads or writes."""
    if isinstance(item, CommunicationStatement) and access.is_message:
        return "receives into" if access.is_write else "sends"
    where = f" (line {access.line})" if access.line != item.line else ""
    return f"{'writes' if access.is_write else 'reads'}{where}"


__all__ = ["describe_shared_array", "explain_refused_order"]
