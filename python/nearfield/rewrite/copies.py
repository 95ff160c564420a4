"""The pieces of which new code consists, and the three proofs that they do what the region did: each call is executed
once, each instance of a loop is executed once, and the order in which they stand keeps every dependence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import islpy as isl

from nearfield.rewrite.model import Model, maps_of
from nearfield.rewrite.parts import Event
from nearfield.rewrite.program import Call, Loop, Nest


class Invalid(Exception):
    """The emitted code is not proved to do the same."""


@dataclass
class Copy:
    """A piece of the emitted code: where it stands, and under which loops."""

    time: tuple[str, ...]  # numbers of statements and variables of loops, from the outermost to the innermost
    piece: int | Event = -1
    loops: list[Loop] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # constraints of isl
    strips: Loop | None = None  # the loop over pieces of messages in which it stands

    @property
    def is_alone(self) -> bool:
        """Returns whether it stands under no loop and no condition but the guard."""
        return not self.loops and not self.tests


class Counts(Protocol):
    """Says what loops of the new code count."""

    def head(self) -> str: ...
    def counts(self, loop: Loop) -> str: ...


class Proof:
    """Proves that copies do what a region did, where the guard holds."""

    def __init__(self, model: Model, guard: isl.Set, copies: Sequence[Copy], names: Counts) -> None:
        self._model, self._guard, self._copies, self._names = model, guard, copies, names

    def check(self) -> None:
        """Raises Invalid if one of the three proofs fails."""
        self._calls_are_kept()
        self._instances_are_kept()
        self._order_is_kept()

    def _calls_are_kept(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, Call):
                events = [c.piece for c in self._copies if isinstance(c.piece, Event) and c.piece.call == number]
                if sum(e.begins for e in events) != 1 or sum(e.completes for e in events) != 1:
                    raise Invalid("a call is not executed exactly once")

    def _instances(self, copy: Copy) -> isl.Set:
        """Returns the instances that a copy executes."""
        number = copy.piece
        assert isinstance(number, int)
        constraints = [f"({test})" for test in copy.tests]
        nest = self._model.region.items[number]
        assert isinstance(nest, Nest)
        if copy.loops and copy.loops[0] is nest.loops[0]:
            return self._model.nest_domain(number).intersect_params(self._guard)
        constraints += [self._names.counts(loop) for loop in copy.loops]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in copy.loops)
        name, head = self._model.tuple_name(number), self._names.head()
        if copy.strips:
            at, piece = f"c_{copy.strips.iterator.text}", " and ".join([*constraints, self._names.counts(copy.strips)])
            pieces = isl.Map(f"{head}{{ {name}[{dims}] -> [{at}] : {piece} }}").intersect_params(self._guard)
            if not pieces.is_single_valued():
                raise Invalid("an instance of a loop is executed with two pieces")
            return pieces.domain()
        where = f" : {' and '.join(constraints)}" if constraints else ""
        return isl.Set(f"{head}{{ {name}[{dims}] {where} }}").intersect_params(self._guard)

    def _instances_are_kept(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if not isinstance(item, Nest):
                continue
            whole = self._model.nest_domain(number).intersect_params(self._guard)
            seen = isl.Set.empty(whole.get_space())
            for copy in self._copies:
                if copy.piece == number and isinstance(copy.piece, int):
                    some = self._instances(copy)
                    if not some.intersect(seen).is_empty():
                        raise Invalid("an instance of a loop is executed twice")
                    seen = seen.union(some)
            if not seen.is_equal(whole):
                raise Invalid("the new loops do not execute the same instances")

    def _order_is_kept(self) -> None:
        longest = max(len(copy.time) for copy in self._copies) + 2
        times: dict[str, isl.Map] = {}
        for order, copy in enumerate(self._copies):
            for one in self._times(copy, order, longest):
                name = one.get_tuple_name(isl.dim_type.in_)
                times[name] = times[name].union(one) if name in times else one
        for one in maps_of(self._model.dependences.intersect_params(self._guard)):
            first, second = (times[one.get_tuple_name(side)] for side in (isl.dim_type.in_, isl.dim_type.out))
            moved = one.apply_domain(first).apply_range(second)
            if not moved.intersect(isl.Map.lex_ge(first.range().get_space())).is_empty():
                raise Invalid("the new code breaks a dependence")

    def _times(self, copy: Copy, order: int, longest: int) -> Iterator[isl.Map]:
        """Yields when a copy's instances are executed; both halves of a call have their times."""
        head = self._names.head()
        if isinstance(copy.piece, Event):
            names = self._model.events(copy.piece.call)
            for half, wanted in enumerate((copy.piece.begins, copy.piece.completes)):
                if wanted:
                    numbers = [*copy.time, str(order), str(half)]
                    numbers += ["0"] * (longest - len(numbers))
                    at, where = "", ""
                    if copy.strips:
                        at, where = f"c_{copy.strips.iterator.text}", f": {self._names.counts(copy.strips)}"
                    yield isl.Map(f"{head}{{ {names[half]}[{at}] -> [{', '.join(numbers)}] {where} }}")
            return
        numbers = [*copy.time, *["0"] * (longest - len(copy.time))]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in copy.loops)
        name = self._model.tuple_name(copy.piece)
        where = ""
        if copy.strips:  # a variable of the time, which the loops' bounds tie to the instance
            counted = [*(f"({test})" for test in copy.tests), *map(self._names.counts, [copy.strips, *copy.loops])]
            where = f": {' and '.join(counted)}"
        made = isl.Map(f"{head}{{ {name}[{dims}] -> [{', '.join(numbers)}] {where} }}")
        yield made.intersect_domain(self._instances(copy))
