"""Partitions a region's instances by their dependences on its communication, and describes orders of execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import Call
from nearfield.rewrite.model.polyhedral import Model

Sets = dict[int, isl.Set]  # instances of each nest, by item number


@dataclass(frozen=True)
class ComputeStep:
    """Instances that are executed together, nest by nest in the original order, with the `reverse` outermost loops
    reversed."""

    sets: Sets
    reverse: int = 0


@dataclass(frozen=True)
class CallStep:
    """The execution of a call, verbatim, or only its begin, or only its completion."""

    call: int
    begins: bool = True
    completes: bool = True


ChunkMaps = dict[int, isl.Map]  # for each nest, by item number, the chunk with which an instance is executed


@dataclass(frozen=True)
class ChunkLoop:
    """A loop over the chunks of a call's messages. Each iteration executes the instances of `before`, one chunk of the
    call (or only its begin or completion), and the instances of `after`."""

    call: int
    before: ChunkMaps = field(default_factory=dict)
    after: ChunkMaps = field(default_factory=dict)
    begins: bool = True
    completes: bool = True


Step = ComputeStep | CallStep | ChunkLoop


@dataclass(frozen=True)
class Order:
    """A new order of a region's instances and calls."""

    steps: tuple[Step, ...]
    words: str = ""

    @property
    def reverse(self) -> int:
        """Returns the maximum number of reversed loops."""
        return max((step.reverse for step in self.steps if isinstance(step, ComputeStep)), default=0)


@dataclass(frozen=True)
class Transformation:
    """A kind of reordering. `orders` yields the orders to try, the best first. With `chunks_messages` it needs messages
    that are split into chunks."""

    name: str
    summary: str
    orders: Callable[[Partition], Iterable[Order]]
    chunks_messages: bool = False


@dataclass
class Partition:
    """Partition of the iterations by dependence on the calls: before = a call depends on them, after = they depend on a
    call, between = both, free = neither; warm = those that access sent data."""

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
        begins, completes = _union(events[0::2]), _union(events[1::2])
        whole = {n: model.nest_domain(n) for n, item in enumerate(model.region.items) if not isinstance(item, Call)}
        later = self._for_all(model.nest_instances(model.reachable(completes, model.dependences)), whole)
        earlier = self._for_all(model.nest_instances(model.reachable(begins, model.dependences.reverse())), whole)
        self.between = {n: later[n].intersect(earlier[n]).coalesce() for n in whole}
        self.after = {n: later[n].subtract(earlier[n]).coalesce() for n in whole}
        self.before = {n: earlier[n].subtract(later[n]).coalesce() for n in whole}
        self.free = {n: whole[n].subtract(later[n]).subtract(earlier[n]).coalesce() for n in whole}
        accesses = model.reads.union(model.writes)
        self.warm = self._for_all(model.nest_instances(model.sent.apply(accesses.reverse())), whole)

    def _for_all(self, sets: Sets, whole: Sets) -> Sets:
        """Returns the sets without conditions on parameters alone, so that an order depends on them as little as
        possible. Each part of a set also loses conditions that only select messages, such as whether a rank has a
        neighbour."""
        result: Sets = {}
        for number, some in sets.items():
            if not some.is_empty():
                some = some.gist_params(some.params()).intersect(whole[number])
            parts = [isl.Set.from_basic_set(part) for part in some.coalesce().get_basic_sets()]
            result[number] = isl.Set.empty(some.get_space())
            for part in parts:
                part = part.gist_params(self.model.project_out_sizes(part.params()))
                result[number] = result[number].union(part.intersect(whole[number])).coalesce()
        return result

    @property
    def whole(self) -> Sets:
        return {number: self.model.nest_domain(number) for number in self.free}

    def original_calls(self) -> list[Step]:
        """Returns the calls in their original form and order, with the instances that must stay between them."""
        steps: list[Step] = []
        for place, number in enumerate(self.calls):
            steps.append(CallStep(number))
            following = self.calls[place + 1] if place + 1 < len(self.calls) else number
            steps.append(ComputeStep({n: some for n, some in self.between.items() if number < n < following}))
        return steps

    def producers(self, call: int, among: Sets) -> ChunkMaps:
        """Returns the instances that a call's chunks depend on, or that access what a chunk sends, each with the first
        such chunk."""
        begins = isl.UnionSet.from_set(self.model.domains[call][0])
        reads = self.model.reads.intersect_domain(begins).intersect_range(self.model.sent)
        touched = self.model.reads.union(self.model.writes).apply_range(reads.reverse())
        return self._chunk_maps_of(self.model.dependences.intersect_range(begins).union(touched), call, 0, among)

    def consumers(self, call: int, among: Sets) -> ChunkMaps:
        """Returns the instances that depend on a call's chunks, each with the last such chunk."""
        completes = isl.UnionSet.from_set(self.model.domains[call][1])
        return self._chunk_maps_of(self.model.dependences.intersect_domain(completes).reverse(), call, 1, among)

    def _chunk_maps_of(self, relation: isl.UnionMap, call: int, half: int, among: Sets) -> ChunkMaps:
        """Returns the first (half 0) or last (half 1) chunk that the relation assigns to each instance; omits nests
        whose instances all have the same chunk."""
        result: ChunkMaps = {}
        for number, some in among.items():
            event = self.model.domains[call][half]
            space = isl.Map.from_domain_and_range(some, event).get_space()
            joined = relation.extract_map(space).intersect_domain(some).intersect_range(event)
            joined = joined.set_tuple_name(isl.dim_type.out, "")
            chunk = (joined.lexmax() if half else joined.lexmin()).coalesce()
            if not chunk.range().lexmin().is_equal(chunk.range().lexmax()):
                result[number] = chunk
        return result

    def begin_last(self, last: int) -> tuple[list[Step], list[Step]] | None:
        """Returns the calls with the `last` ones begun first and completed later; None if a call cannot be split."""
        steps: list[Step] = []
        steps_in_order = self.original_calls()
        first = len(self.calls) - last
        for place, between in enumerate(steps_in_order[1::2]):
            if place < first:
                steps += [CallStep(self.calls[place]), between]
            elif isinstance(between, ComputeStep) and not is_empty(between.sets):
                return None
        begin_and_complete = self.begin_and_complete(self.calls[first:])
        return (steps + begin_and_complete[0], begin_and_complete[1]) if begin_and_complete else None

    def begin_and_complete(self, calls: Sequence[int]) -> tuple[list[Step], list[Step]] | None:
        """Returns the steps that begin some calls and those that complete them; None if a call cannot be split."""
        begin: list[Step] = []
        completions: list[Step] = []  # completions of calls that were split
        complete: list[Step] = []
        for number in calls:
            call = self.model.region.items[number]
            assert isinstance(call, Call)
            if call.blocking and self.model.can_begin_all_first(number):
                begin.append(CallStep(number, completes=False))
                completions.append(CallStep(number, begins=False))
            elif call.post and call.wait:
                return None
            else:
                (begin if call.post else complete).append(CallStep(number))
        return begin, completions + complete

    def exchange_rounds(self) -> list[list[int]]:
        """Returns the calls in rounds. Between rounds there are loops, and no message is in flight."""
        result: list[list[int]] = [[]]
        under_way = 0
        for number, item in enumerate(self.model.region.items):
            if isinstance(item, Call):
                result[-1].append(number)
                under_way += item.post - item.wait
            elif item.loops and result[-1] and under_way <= 0:
                result.append([])
        return [one for one in result if one]

    def predecessors(self, calls: Sequence[int]) -> Sets:
        """Returns the instances that must be executed before some calls begin."""
        begins = _union([isl.UnionSet.from_set(self.model.domains[number][0]) for number in calls])
        return self._for_all(
            self.model.nest_instances(self.model.reachable(begins, self.model.dependences.reverse())), self.whole
        )

    def successors(self, calls: Sequence[int]) -> Sets:
        """Returns the instances that must be executed after some calls complete."""
        completes = _union([isl.UnionSet.from_set(self.model.domains[number][1]) for number in calls])
        return self._for_all(
            self.model.nest_instances(self.model.reachable(completes, self.model.dependences)), self.whole
        )


def union_of(*several: Sets) -> Sets:
    """Returns the union of the instances."""
    result: Sets = {}
    for sets in several:
        for number, some in sets.items():
            result[number] = result[number].union(some).coalesce() if number in result else some
    return result


def intersection(one: Sets, other: Sets) -> Sets:
    """Returns the instances in both sets."""
    return {number: some.intersect(other[number]).coalesce() for number, some in one.items()}


def difference(one: Sets, other: Sets) -> Sets:
    """Returns the instances of the first that are not in the second."""
    return {
        number: some.subtract(other[number]).coalesce() if number in other else some for number, some in one.items()
    }


def executed_instances(*several: ChunkMaps) -> Sets:
    """Returns the instances that chunk loops execute."""
    return union_of(*({number: chunk.domain() for number, chunk in pieces.items()} for pieces in several))


def is_empty(sets: Sets) -> bool:
    """Returns whether there are no instances."""
    return all(bool(some.is_empty()) for some in sets.values())


def _union(some: list[isl.UnionSet]) -> isl.UnionSet:
    result = isl.UnionSet("{ }")
    for one in some:
        result = result.union(one)
    return result
