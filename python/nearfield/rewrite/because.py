"""Says which dependence keeps communication where it is: which access at which line needs which other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import islpy as isl

from nearfield.rewrite.legality import violated
from nearfield.rewrite.model import Model
from nearfield.rewrite.parts import Order, Parts, empty
from nearfield.rewrite.program import Access, Call, Item, Nest, Region

_LONGEST = 3  # dependences that follow one another, which are told


def reason_of_order(model: Model, parts: Parts, tried: Order | None) -> tuple[str, int]:
    """Returns why no order of a region but its own is legal, and at which line. `tried` is one that is not."""
    told = _bound(model) if tried is None or empty(parts.free) else _broken(model, tried) or _bound(model)
    note = next((one for one in model.notes if told is None or one.reason not in told[0]), None)
    if told is not None:
        return (f"{told[0]}; {note.reason} (line {note.line})" if note is not None else told[0]), told[1]
    if note is not None:
        return note.reason, note.line
    nest = model.region.nests[0]
    return "no order of its loops and messages but this one is known to be legal for more than a few sizes", nest.line


def joined(region: Region) -> str:
    """Returns which loop and message of a region use the same array, without having looked at its elements."""
    calls = [item for item in region.items if isinstance(item, Call)]
    for nest in sorted(region.nests, key=lambda one: not one.loops):
        for call in sorted(calls, key=lambda one: abs(one.start - nest.start)):
            for mine in call.accesses:
                its = next((a for a in nest.accesses if a.base.key == mine.base.key and a.write != mine.write), None)
                if its is not None and mine.base.sizes:
                    return f"{_who(nest)} {_does(nest, its)} {mine.base.text}, which {_who(call)} {_does(call, mine)}"
    return ""


def _bound(model: Model) -> tuple[str, int] | None:
    """Returns the dependences that join a message and the first loops that touch arrays."""
    items = model.region.items
    moved = [n for n, item in enumerate(items) if isinstance(item, Nest) and any(a.base.sizes for a in item.accesses)]
    calls = [n for n, item in enumerate(items) if isinstance(item, Call) and item.messages]
    for nest in sorted(moved, key=lambda n: (not _nest(items[n]).loops, n)):
        for call in sorted(calls, key=lambda n: abs(n - nest)):
            path = _path(model, min(nest, call), max(nest, call))
            if path:
                said = "; ".join(_said(model, *pair) for pair in zip(path, path[1:], strict=False))
                return f"{said}{_why_whole(_nest(items[nest]))}", items[nest].line
    return None


def _why_whole(nest: Nest) -> str:
    """Returns why a nest is not split, if it has no loops of its own."""
    return "" if nest.loops else "; it is moved as a whole, since only loops that stand in this block are split"


def _nest(item: Item) -> Nest:
    assert isinstance(item, Nest)
    return item


def _broken(model: Model, tried: Order) -> tuple[str, int] | None:
    """Returns a dependence that an order would turn round."""
    for one in violated(model, tried):
        first, second = (int(one.get_tuple_name(side)[1:]) for side in (isl.dim_type.in_, isl.dim_type.out))
        if _shared(model, first, second) is not None:
            between = "their own order must stay" if first == second else "this order must stay"
            return f"{_said(model, first, second)}, and {between}", model.region.items[second].line
    return None


def _path(model: Model, first: int, last: int) -> list[int]:
    """Returns the shortest way from one item to a later one over dependences; empty if there is none."""
    came: dict[int, int] = {first: first}
    waiting = deque([first])
    while waiting and last not in came:
        at = waiting.popleft()
        for following in range(at + 1, last + 1):
            if following not in came and _shared(model, at, following) is not None:
                came[following] = at
                waiting.append(following)
    if last not in came:
        return []
    path = [last]
    while path[0] != first:
        path.insert(0, came[path[0]])
    return path if len(path) <= _LONGEST + 1 else []


def _shared(model: Model, first: int, second: int) -> tuple[Access, Access] | None:
    """Returns accesses of two items to the same elements of an array, one of which writes; arrays come first."""
    found = sorted(_conflicts(model, first, second), key=lambda pair: (not pair[0].base.sizes, not pair[0].write))
    return found[0] if found else None


def _conflicts(model: Model, first: int, second: int) -> Iterator[tuple[Access, Access]]:
    for one in _names(model, first):
        for other in _names(model, second):
            between = model.dependences.intersect_domain(one).intersect_range(other)
            if between.is_empty():
                continue
            for mine in model.region.items[first].accesses:
                for its in model.region.items[second].accesses:
                    if mine.base.key == its.base.key and (mine.write or its.write):
                        yield from _touching(model, (one, mine), (other, its))


def _touching(
    model: Model, first: tuple[isl.UnionSet, Access], second: tuple[isl.UnionSet, Access]
) -> Iterator[tuple[Access, Access]]:
    """Yields the accesses if all that their items access so has something in common."""
    sets = [
        domain.apply(model.writes if access.write else model.reads) for domain, access in (first, second)
    ]  # fmt: skip
    array = isl.UnionSet(f"{{ {model.array(first[1])}[{_dims(sets[0], model.array(first[1]))}] }}")
    if not sets[0].intersect(sets[1]).intersect(array).is_empty():
        yield first[1], second[1]


def _dims(some: isl.UnionSet, array: str) -> str:
    """Returns names for the dimensions of an array."""
    sets = some.get_set_list()
    for place in range(sets.n_set()):
        one = sets.get_at(place)
        if one.get_tuple_name() == array:
            return ", ".join(f"a{dim}" for dim in range(one.dim(isl.dim_type.set)))
    return ""


def _names(model: Model, number: int) -> Iterator[isl.UnionSet]:
    for one in model.domains[number]:
        yield isl.UnionSet.from_set(one.intersect_params(model.needed))


def _said(model: Model, first: int, second: int) -> str:
    """Returns the dependence of two items as a sentence: what the later one does with what the earlier one does."""
    pair = _shared(model, first, second)
    assert pair is not None
    one, other = model.region.items[first], model.region.items[second]
    what = pair[1].base.text
    note = f" ({pair[1].note or pair[0].note})" if pair[1].note or pair[0].note else ""
    if what == "what is printed":
        return f"{_who(other)} and {_who(one)} print, or stand among what is printed"
    return f"{_who(other)} {_does(other, pair[1])} {what}{note}, which {_who(one)} {_does(one, pair[0])}"


def _who(item: Item) -> str:
    if isinstance(item, Call):
        return f"the {item.name} at line {item.line}"
    kind = "loop" if item.loops else "statement"
    return f"the {kind} at line {item.line}"


def _does(item: Item, access: Access) -> str:
    if isinstance(item, Call) and access.message:
        return "receives into" if access.write else "sends"
    where = f" (line {access.line})" if access.line != item.line else ""
    return f"{'writes' if access.write else 'reads'}{where}"


__all__ = ["joined", "reason_of_order"]
