"""Partitions the loop iterations of a region by their dependences on its communication, and describes orders of
execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest
from nearfield.rewrite.model.instances import (
    ChunkMaps,
    Sets,
    common_iterations,
    has_no_iterations,
    iterations_in_chunk_loops,
    remaining_iterations,
    union_of_iterations,
)
from nearfield.rewrite.model.polyhedral import Model, union_of_sets


@dataclass(frozen=True)
class ComputeStep:
    """A step of a new order that executes loop iterations, nest by nest in the original order, with the `reverse`
    outermost loops reversed."""

    sets: Sets
    reverse: int = 0


@dataclass(frozen=True)
class CallStep:
    """A step of a new order that executes an MPI call unchanged, or only begins it, or only completes it."""

    call: int
    begins: bool = True
    completes: bool = True


@dataclass(frozen=True)
class ChunkLoop:
    """A step of a new order: a loop over the chunks of an MPI call's messages. Each iteration executes the loop
    iterations in `before`, one chunk of the call (or only its begin or completion), and the loop iterations in
    `after`."""

    call: int
    before: ChunkMaps = field(default_factory=dict)
    after: ChunkMaps = field(default_factory=dict)
    begins: bool = True
    completes: bool = True


Step = ComputeStep | CallStep | ChunkLoop


@dataclass(frozen=True)
class ExecutionOrder:
    """A new order of execution for the loop iterations and MPI calls of a region. If `whole_statements` is set, each
    step executes one statement as it is."""

    steps: tuple[Step, ...]
    words: str = ""
    whole_statements: bool = False

    @property
    def max_reversed_loops(self) -> int:
        """Returns the maximum number of loops that a step of the order reverses."""
        return max((step.reverse for step in self.steps if isinstance(step, ComputeStep)), default=0)


@dataclass(frozen=True)
class Transformation:
    """A kind of reordering, such as overlap. `orders` yields the orders to try, the best first. If `chunks_messages` is
    set, it needs messages that are split into chunks."""

    name: str
    summary: str
    orders: Callable[[DependencePartition], Iterable[ExecutionOrder]]
    chunks_messages: bool = False


@dataclass
class DependencePartition:
    """The loop iterations of a region by their dependence on its MPI calls: a call depends on those in `before`; those
    in `after` depend on a call; `between` has both kinds of dependences, `free` none. `warm` are the iterations that
    access data to be sent."""

    model: Model
    calls: list[int] = field(init=False)
    whole: Sets = field(init=False)
    before: Sets = field(init=False)
    after: Sets = field(init=False)
    between: Sets = field(init=False)
    free: Sets = field(init=False)
    warm: Sets = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        self.calls = [
            number for number, item in enumerate(model.region.items) if isinstance(item, CommunicationStatement)
        ]
        self.whole = {
            n: model.nest_domain(n) for n, item in enumerate(model.region.items) if isinstance(item, LoopNest)
        }
        whole, later, earlier = self.whole, self.successors_of_calls(self.calls), self.predecessors_of_calls(self.calls)
        self.between = {n: later[n].intersect(earlier[n]).coalesce() for n in whole}
        self.after = {n: later[n].subtract(earlier[n]).coalesce() for n in whole}
        self.before = {n: earlier[n].subtract(later[n]).coalesce() for n in whole}
        self.free = {n: whole[n].subtract(later[n]).subtract(earlier[n]).coalesce() for n in whole}
        accesses = model.reads.union(model.writes)
        self.warm = self._without_parameter_conditions(model.accesses.sent.apply(accesses.reverse()))

    def _without_parameter_conditions(self, some_instances: isl.UnionSet) -> Sets:
        """Returns loop iterations by nest, without conditions on parameters alone, so that an order depends on
        parameters as little as possible. Conditions that only select messages, such as whether a rank has a neighbour,
        are dropped from each part of a set, too."""
        result: Sets = {}
        for number, some in self.model.nest_instances(some_instances).items():
            if not some.is_empty():
                some = some.gist_params(some.params()).intersect(self.whole[number])
            parts = [isl.Set.from_basic_set(part) for part in some.coalesce().get_basic_sets()]
            result[number] = isl.Set.empty(some.get_space())
            for part in parts:
                part = part.gist_params(self.model.project_out_sizes(part.params()))
                result[number] = result[number].union(part.intersect(self.whole[number])).coalesce()
        return result

    def original_call_steps(self) -> list[Step]:
        """Returns the MPI calls unchanged and in their original order, with the loop iterations that must stay between
        them."""
        steps: list[Step] = []
        for place, number in enumerate(self.calls):
            steps.append(CallStep(number))
            following = self.calls[place + 1] if place + 1 < len(self.calls) else number
            steps.append(ComputeStep({n: some for n, some in self.between.items() if number < n < following}))
        return steps

    def chunk_assignments(self) -> Iterator[tuple[dict[int, ChunkMaps], dict[int, ChunkMaps], bool, bool]]:
        """Yields, by MPI call, the loop iterations to execute before and after each of its chunks, and whether
        producers and whether consumers are chunked: both, or one of the two. Iterations that several calls depend on
        come before the first of these calls; iterations that depend on several calls come after the last."""
        numbers = [number for number, _ in self.model.chunked_calls]
        for producers_chunked, consumers_chunked in ((True, True), (True, False), (False, True)):
            before: dict[int, ChunkMaps] = {number: {} for number in numbers}
            after: dict[int, ChunkMaps] = {number: {} for number in numbers}
            left = union_of_iterations(self.before, common_iterations(self.free, self.warm))
            for number in numbers if producers_chunked else []:
                before[number] = self.producers_of_chunks(number, left)
                left = remaining_iterations(left, iterations_in_chunk_loops(before[number]))
            left = self.after
            for number in reversed(numbers) if consumers_chunked else []:
                after[number] = self.consumers_of_chunks(number, left)
                left = remaining_iterations(left, iterations_in_chunk_loops(after[number]))
            if any(before.values()) >= producers_chunked and any(after.values()) >= consumers_chunked:
                yield before, after, producers_chunked, consumers_chunked

    def producers_of_chunks(self, call: int, among: Sets) -> ChunkMaps:
        """Returns the loop iterations that an MPI call's chunks depend on, or that access what a chunk sends, each
        mapped to the first such chunk."""
        begins = isl.UnionSet.from_set(self.model.domains[call][0])
        reads = self.model.reads.intersect_domain(begins).intersect_range(self.model.accesses.sent)
        touched = self.model.reads.union(self.model.writes).apply_range(reads.reverse())
        return self._chunk_maps_of(self.model.dependences.intersect_range(begins).union(touched), call, 0, among)

    def consumers_of_chunks(self, call: int, among: Sets) -> ChunkMaps:
        """Returns the loop iterations that depend on an MPI call's chunks, each mapped to the last such chunk."""
        completes = isl.UnionSet.from_set(self.model.domains[call][1])
        return self._chunk_maps_of(self.model.dependences.intersect_domain(completes).reverse(), call, 1, among)

    def _chunk_maps_of(self, relation: isl.UnionMap, call: int, half: int, among: Sets) -> ChunkMaps:
        """Returns the first (half 0) or last (half 1) chunk that a relation assigns to each loop iteration. Omits nests
        whose iterations all have the same chunk."""
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

    def split_last_calls(self, last: int) -> tuple[list[Step], list[Step]] | None:
        """Returns the steps up to the begin of the `last` last MPI calls, and the steps that complete these calls.
        Returns None if a call cannot be split into begin and completion."""
        steps: list[Step] = []
        steps_in_order = self.original_call_steps()
        first = len(self.calls) - last
        for place, between in enumerate(steps_in_order[1::2]):
            if place < first:
                steps += [CallStep(self.calls[place]), between]
            elif isinstance(between, ComputeStep) and not has_no_iterations(between.sets):
                return None
        begin_and_complete = self.split_calls(self.calls[first:])
        return (steps + begin_and_complete[0], begin_and_complete[1]) if begin_and_complete else None

    def split_calls(self, calls: Sequence[int]) -> tuple[list[Step], list[Step]] | None:
        """Returns the steps that begin some MPI calls, and the steps that complete them. Returns None if a call cannot
        be split into begin and completion."""
        begin: list[Step] = []
        completions: list[Step] = []  # completions of calls that were split
        complete: list[Step] = []
        for number in calls:
            call = self.model.region.items[number]
            assert isinstance(call, CommunicationStatement)
            if call.blocking and self.model.can_begin_all_first(number):
                begin.append(CallStep(number, completes=False))
                completions.append(CallStep(number, begins=False))
            elif call.post and call.wait:
                return None
            else:
                (begin if call.post else complete).append(CallStep(number))
        return begin, completions + complete

    def exchange_rounds(self) -> list[list[int]]:
        """Returns the MPI calls in rounds: between two rounds there are loops, and no message is in flight."""
        result: list[list[int]] = [[]]
        under_way = 0
        for number, item in enumerate(self.model.region.items):
            if isinstance(item, CommunicationStatement):
                result[-1].append(number)
                under_way += item.post - item.wait
            elif item.loops and result[-1] and under_way <= 0:
                result.append([])
        return [one for one in result if one]

    def predecessors_of_calls(self, calls: Sequence[int]) -> Sets:
        """Returns the loop iterations that must be executed before the given MPI calls begin."""
        begins = union_of_sets(self.model.domains[number][0] for number in calls)
        return self._without_parameter_conditions(self.model.reachable_from(begins, self.model.dependences.reverse()))

    def successors_of_calls(self, calls: Sequence[int]) -> Sets:
        """Returns the loop iterations that must be executed after the given MPI calls complete."""
        completes = union_of_sets(self.model.domains[number][1] for number in calls)
        return self._without_parameter_conditions(self.model.reachable_from(completes, self.model.dependences))
