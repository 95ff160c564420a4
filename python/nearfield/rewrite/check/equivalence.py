"""Proves that emitted code is equivalent to its region, in three steps: each call is executed once, each loop instance
is executed once, and the order keeps every dependence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import islpy as isl

from nearfield.rewrite.analysis.program import Call, Loop, Nest
from nearfield.rewrite.model.polyhedral import Model, maps_of
from nearfield.rewrite.model.schedule import CallStep


class Invalid(Exception):
    """The emitted code could not be proved equivalent."""


@dataclass
class EmittedPiece:
    """A piece of the emitted code, with its position and the loops around it."""

    time: tuple[str, ...]  # statement numbers and loop variables, from the outermost to the innermost
    step: int | CallStep = -1
    loops: list[Loop] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # isl constraints
    chunk_loop: Loop | None = None  # the chunk loop around it

    @property
    def is_alone(self) -> bool:
        """Returns whether no loop and no condition but the guard is around it."""
        return not self.loops and not self.tests


class LoopConstraints(Protocol):
    """Returns the iteration ranges of emitted loops as isl constraints."""

    def head(self) -> str: ...
    def counts(self, loop: Loop) -> str: ...


class EquivalenceProof:
    """Proves that emitted pieces do what the region did, where the guard holds."""

    def __init__(self, model: Model, guard: isl.Set, pieces: Sequence[EmittedPiece], names: LoopConstraints) -> None:
        self._model, self._guard, self._pieces, self._names = model, guard, pieces, names

    def check(self) -> None:
        """Raises Invalid if one of the three proofs fails."""
        self._check_calls()
        self._check_instances()
        self._check_order()

    def _check_calls(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, Call):
                events = [c.step for c in self._pieces if isinstance(c.step, CallStep) and c.step.call == number]
                if sum(e.begins for e in events) != 1 or sum(e.completes for e in events) != 1:
                    raise Invalid("a call is not executed exactly once")

    def _instances(self, piece: EmittedPiece) -> isl.Set:
        """Returns the loop instances that a piece executes."""
        number = piece.step
        assert isinstance(number, int)
        constraints = [f"({test})" for test in piece.tests]
        nest = self._model.region.items[number]
        assert isinstance(nest, Nest)
        if piece.loops and piece.loops[0] is nest.loops[0]:
            return self._model.nest_domain(number).intersect_params(self._guard)
        constraints += [self._names.counts(loop) for loop in piece.loops]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in piece.loops)
        name, head = self._model.tuple_name(number), self._names.head()
        if piece.chunk_loop:
            at, condition = (
                f"c_{piece.chunk_loop.iterator.text}",
                " and ".join([*constraints, self._names.counts(piece.chunk_loop)]),
            )
            pieces = isl.Map(f"{head}{{ {name}[{dims}] -> [{at}] : {condition} }}").intersect_params(self._guard)
            if not pieces.is_single_valued():
                raise Invalid("an instance of a loop is executed with two pieces")
            return pieces.domain()
        where = f" : {' and '.join(constraints)}" if constraints else ""
        return isl.Set(f"{head}{{ {name}[{dims}] {where} }}").intersect_params(self._guard)

    def _check_instances(self) -> None:
        for number, item in enumerate(self._model.region.items):
            if not isinstance(item, Nest):
                continue
            whole = self._model.nest_domain(number).intersect_params(self._guard)
            seen = isl.Set.empty(whole.get_space())
            for piece in self._pieces:
                if piece.step == number and isinstance(piece.step, int):
                    some = self._instances(piece)
                    if not some.intersect(seen).is_empty():
                        raise Invalid("an instance of a loop is executed twice")
                    seen = seen.union(some)
            if not seen.is_equal(whole):
                raise Invalid("the new loops do not execute the same instances")

    def _check_order(self) -> None:
        longest = max(len(piece.time) for piece in self._pieces) + 2
        times: dict[str, isl.Map] = {}
        for order, piece in enumerate(self._pieces):
            for one in self._times(piece, order, longest):
                name = one.get_tuple_name(isl.dim_type.in_)
                times[name] = times[name].union(one) if name in times else one
        for one in maps_of(self._model.dependences.intersect_params(self._guard)):
            first, second = (times[one.get_tuple_name(side)] for side in (isl.dim_type.in_, isl.dim_type.out))
            moved = one.apply_domain(first).apply_range(second)
            if not moved.intersect(isl.Map.lex_ge(first.range().get_space())).is_empty():
                raise Invalid("the new code breaks a dependence")

    def _times(self, piece: EmittedPiece, order: int, longest: int) -> Iterator[isl.Map]:
        """Yields the execution times of a piece's instances; the begin and the completion of a call have separate
        times."""
        head = self._names.head()
        if isinstance(piece.step, CallStep):
            names = self._model.events(piece.step.call)
            for half, wanted in enumerate((piece.step.begins, piece.step.completes)):
                if wanted:
                    numbers = [*piece.time, str(order), str(half)]
                    numbers += ["0"] * (longest - len(numbers))
                    at, where = "", ""
                    if piece.chunk_loop:
                        at, where = f"c_{piece.chunk_loop.iterator.text}", f": {self._names.counts(piece.chunk_loop)}"
                    yield isl.Map(f"{head}{{ {names[half]}[{at}] -> [{', '.join(numbers)}] {where} }}")
            return
        numbers = [*piece.time, *["0"] * (longest - len(piece.time))]
        dims = ", ".join(f"c_{loop.iterator.text}" for loop in piece.loops)
        name = self._model.tuple_name(piece.step)
        where = ""
        if piece.chunk_loop:  # the chunk is part of the time, and the loop bounds tie it to the instance
            counted = [
                *(f"({test})" for test in piece.tests),
                *map(self._names.counts, [piece.chunk_loop, *piece.loops]),
            ]
            where = f": {' and '.join(counted)}"
        made = isl.Map(f"{head}{{ {name}[{dims}] -> [{', '.join(numbers)}] {where} }}")
        yield made.intersect_domain(self._instances(piece))
