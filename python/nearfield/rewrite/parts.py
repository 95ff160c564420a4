"""Divides a region's instances by what its communication needs of them, and describes new orders of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.model import Model
from nearfield.rewrite.program import Call

Sets = dict[int, isl.Set]  # instances of each nest, by its number in the region


@dataclass(frozen=True)
class Phase:
    """Instances that are executed together, nest by nest in their original order, but with the `reverse` outermost
    loops of each nest backwards."""

    sets: Sets
    reverse: int = 0


@dataclass(frozen=True)
class Event:
    """A call is executed here: as it is written, or only begun, or only completed."""

    call: int
    begins: bool = True
    completes: bool = True


Pieces = dict[int, isl.Map]  # of each nest, by its number: in which piece of a message an instance is executed


@dataclass(frozen=True)
class Strips:
    """A loop over the pieces of a call's messages: in each of them some instances, the piece of the call, or the half
    of it that is asked for, and other instances."""

    call: int
    before: Pieces = field(default_factory=dict)
    after: Pieces = field(default_factory=dict)
    begins: bool = True
    completes: bool = True


Step = Phase | Event | Strips


@dataclass(frozen=True)
class Order:
    """A new order of a region's instances and calls."""

    steps: tuple[Step, ...]
    words: str = ""

    @property
    def reverse(self) -> int:
        """Returns how many loops go backwards."""
        return max((step.reverse for step in self.steps if isinstance(step, Phase)), default=0)


@dataclass(frozen=True)
class Transformation:
    """A way to reorder a region. `orders` returns the orders to try, the most desired first; if it `cuts`, messages are
    cut into pieces that it takes apart."""

    name: str
    summary: str
    orders: Callable[[Parts], Iterable[Order]]
    cuts: bool = False


@dataclass
class Parts:
    """The instances of a region's nests: those that the calls need first (before), those that need the calls (after),
    both (between), and neither (free). `warm` access what is sent, `fresh` what is received."""

    model: Model
    calls: list[int] = field(init=False)
    before: Sets = field(init=False)
    after: Sets = field(init=False)
    between: Sets = field(init=False)
    free: Sets = field(init=False)
    warm: Sets = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        self.calls = [number for number, item in enumerate(model.region.items) if isinstance(item, Call)]
        events = [isl.UnionSet.from_set(part) for number in self.calls for part in model.domains[number]]
        begins, completes = _united(events[0::2]), _united(events[1::2])
        whole = {n: model.nest_domain(n) for n, item in enumerate(model.region.items) if not isinstance(item, Call)}
        later = self._for_all(model.of_nests(model.reached(completes, model.dependences)), whole)
        earlier = self._for_all(model.of_nests(model.reached(begins, model.dependences.reverse())), whole)
        self.between = {n: later[n].intersect(earlier[n]).coalesce() for n in whole}
        self.after = {n: later[n].subtract(earlier[n]).coalesce() for n in whole}
        self.before = {n: earlier[n].subtract(later[n]).coalesce() for n in whole}
        self.free = {n: whole[n].subtract(later[n]).subtract(earlier[n]).coalesce() for n in whole}
        accesses = model.reads.union(model.writes)
        self.warm = self._for_all(model.of_nests(model.sent.apply(accesses.reverse())), whole)

    def _for_all(self, sets: Sets, whole: Sets) -> Sets:
        """Returns the sets without conditions on parameters alone, so that an order does not depend on them more than
        it must; and each part of a set without conditions on what only decides which messages there are, such as
        whether a rank has a neighbour."""
        made: Sets = {}
        for number, some in sets.items():
            if not some.is_empty():
                some = some.gist_params(some.params()).intersect(whole[number])
            parts = [isl.Set.from_basic_set(part) for part in some.coalesce().get_basic_sets()]
            made[number] = isl.Set.empty(some.get_space())
            for part in parts:
                part = part.gist_params(self.model.only_choices(part.params()))
                made[number] = made[number].union(part.intersect(whole[number])).coalesce()
        return made

    @property
    def whole(self) -> Sets:
        return {number: self.model.nest_domain(number) for number in self.free}

    def exchange(self) -> list[Step]:
        """Returns the calls as they are written, with what must stay between them."""
        steps: list[Step] = []
        for place, number in enumerate(self.calls):
            steps.append(Event(number))
            following = self.calls[place + 1] if place + 1 < len(self.calls) else number
            steps.append(Phase({n: some for n, some in self.between.items() if number < n < following}))
        return steps

    def producing(self, call: int, among: Sets) -> Pieces:
        """Returns which of these instances a call's pieces need first, or which access what a piece sends, each with
        the first such piece."""
        begins = isl.UnionSet.from_set(self.model.domains[call][0])
        reads = self.model.reads.intersect_domain(begins).intersect_range(self.model.sent)
        touched = self.model.reads.union(self.model.writes).apply_range(reads.reverse())
        return self._pieces(self.model.dependences.intersect_range(begins).union(touched), call, 0, among)

    def using(self, call: int, among: Sets) -> Pieces:
        """Returns which of these instances need a call's pieces, each with the last such piece."""
        completes = isl.UnionSet.from_set(self.model.domains[call][1])
        return self._pieces(self.model.dependences.intersect_domain(completes).reverse(), call, 1, among)

    def _pieces(self, relation: isl.UnionMap, call: int, half: int, among: Sets) -> Pieces:
        """Returns the first or the last piece to which a relation joins instances; nothing for nests that it joins to
        one piece only."""
        made: Pieces = {}
        for number, some in among.items():
            event = self.model.domains[call][half]
            space = isl.Map.from_domain_and_range(some, event).get_space()
            joined = relation.extract_map(space).intersect_domain(some).intersect_range(event)
            joined = joined.set_tuple_name(isl.dim_type.out, "")
            piece = (joined.lexmax() if half else joined.lexmin()).coalesce()
            if not piece.range().lexmin().is_equal(piece.range().lexmax()):
                made[number] = piece
        return made

    def split(self, last: int) -> tuple[list[Step], list[Step]] | None:
        """Returns the calls with the `last` ones begun first and completed later; None if a call is not to be split."""
        steps: list[Step] = []
        kept = self.exchange()
        first = len(self.calls) - last
        for place, between in enumerate(kept[1::2]):
            if place < first:
                steps += [Event(self.calls[place]), between]
            elif isinstance(between, Phase) and not empty(between.sets):
                return None
        halves = self.halves(self.calls[first:])
        return (steps + halves[0], halves[1]) if halves else None

    def halves(self, calls: Sequence[int]) -> tuple[list[Step], list[Step]] | None:
        """Returns what begins some calls and what completes them; None if a call is not to be split."""
        begin: list[Step] = []
        together: list[Step] = []  # which one call completes
        complete: list[Step] = []
        for number in calls:
            call = self.model.region.items[number]
            assert isinstance(call, Call)
            if call.blocking and self.model.begins_apart(number):
                begin.append(Event(number, completes=False))
                together.append(Event(number, begins=False))
            elif call.post and call.wait:
                return None
            else:
                (begin if call.post else complete).append(Event(number))
        return begin, together + complete

    def rounds(self) -> list[list[int]]:
        """Returns the calls in rounds, between which no message is under way and loops stand."""
        made: list[list[int]] = [[]]
        under_way = 0
        for number, item in enumerate(self.model.region.items):
            if isinstance(item, Call):
                made[-1].append(number)
                under_way += item.post - item.wait
            elif item.loops and made[-1] and under_way <= 0:
                made.append([])
        return [one for one in made if one]

    def needed(self, calls: Sequence[int]) -> Sets:
        """Returns what must be executed before some calls begin."""
        begins = _united([isl.UnionSet.from_set(self.model.domains[number][0]) for number in calls])
        return self._for_all(
            self.model.of_nests(self.model.reached(begins, self.model.dependences.reverse())), self.whole
        )

    def needing(self, calls: Sequence[int]) -> Sets:
        """Returns what must be executed after some calls are complete."""
        completes = _united([isl.UnionSet.from_set(self.model.domains[number][1]) for number in calls])
        return self._for_all(self.model.of_nests(self.model.reached(completes, self.model.dependences)), self.whole)


def united(*several: Sets) -> Sets:
    """Returns the instances of several sets."""
    made: Sets = {}
    for sets in several:
        for number, some in sets.items():
            made[number] = made[number].union(some).coalesce() if number in made else some
    return made


def common(one: Sets, other: Sets) -> Sets:
    """Returns the instances of both sets."""
    return {number: some.intersect(other[number]).coalesce() for number, some in one.items()}


def without(one: Sets, other: Sets) -> Sets:
    """Returns the instances of the first that are not in the second."""
    return {
        number: some.subtract(other[number]).coalesce() if number in other else some for number, some in one.items()
    }


def executed(*several: Pieces) -> Sets:
    """Returns the instances that are executed with pieces."""
    return united(*({number: piece.domain() for number, piece in pieces.items()} for pieces in several))


def empty(sets: Sets) -> bool:
    """Returns whether there are no instances."""
    return all(bool(some.is_empty()) for some in sets.values())


def _united(some: list[isl.UnionSet]) -> isl.UnionSet:
    made = isl.UnionSet("{ }")
    for one in some:
        made = made.union(one)
    return made
