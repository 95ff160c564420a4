"""Partitions the loop iterations of a region by their dependences on its communication, and describes orders of
execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest
from nearfield.rewrite.model.instances import (
    ChunkMapsByNest,
    IterationsByNest,
    common_iterations,
    has_no_iterations,
    iterations_in_chunk_loops,
    remaining_iterations,
    union_of_iterations,
)
from nearfield.rewrite.model.isl_sets import union_of_sets
from nearfield.rewrite.model.polyhedral import PolyhedralModel


@dataclass(frozen=True)
class ComputeStep:
    """A step of a new order that executes loop iterations, nest by nest in the original order, with the
    `num_reversed_loops` outermost loops reversed."""

    iterations: IterationsByNest
    num_reversed_loops: int = 0


@dataclass(frozen=True)
class CallStep:
    """A step of a new order that executes an MPI call unchanged, or only begins it, or only completes it."""

    call_number: int
    begins_call: bool = True
    completes_call: bool = True


@dataclass(frozen=True)
class ChunkLoop:
    """A step of a new order: a loop over the chunks of an MPI call's messages. Each iteration executes the loop
    iterations in `iterations_before`, one chunk of the call (or only its begin or completion), and the loop iterations
    in `iterations_after`."""

    call_number: int
    iterations_before: ChunkMapsByNest = field(default_factory=dict)
    iterations_after: ChunkMapsByNest = field(default_factory=dict)
    begins_call: bool = True
    completes_call: bool = True


Step = ComputeStep | CallStep | ChunkLoop


@dataclass(frozen=True)
class ExecutionOrder:
    """A new order of execution for the loop iterations and MPI calls of a region. If `keeps_statements_whole` is set,
    each step executes one statement as it is."""

    steps: tuple[Step, ...]
    description: str = ""
    keeps_statements_whole: bool = False

    @property
    def max_reversed_loops(self) -> int:
        """Returns the maximum number of loops that a step of the order reverses."""
        return max((step.num_reversed_loops for step in self.steps if isinstance(step, ComputeStep)), default=0)


@dataclass(frozen=True)
class Transformation:
    """A kind of reordering, such as overlap. `find_orders` yields the orders to try, the best first. If
    `chunks_messages` is set, it needs messages that are split into chunks."""

    name: str
    summary: str
    find_orders: Callable[[DependencePartition], Iterable[ExecutionOrder]]
    chunks_messages: bool = False


@dataclass
class DependencePartition:
    """The loop iterations of a region by their dependence on its MPI calls: a call depends on those in `predecessors`;
    those in `successors` depend on a call; `between_calls` has both kinds of dependences, `independent` none.
    `accessing_sent_data` are the iterations that access data to be sent."""

    model: PolyhedralModel
    call_numbers: list[int] = field(init=False)
    all_iterations: IterationsByNest = field(init=False)
    predecessors: IterationsByNest = field(init=False)
    successors: IterationsByNest = field(init=False)
    between_calls: IterationsByNest = field(init=False)
    independent: IterationsByNest = field(init=False)
    accessing_sent_data: IterationsByNest = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        self.call_numbers = [
            number for number, item in enumerate(model.region.items) if isinstance(item, CommunicationStatement)
        ]
        self.all_iterations = {
            n: model.nest_domain(n) for n, item in enumerate(model.region.items) if isinstance(item, LoopNest)
        }
        all_iterations, all_successors, all_predecessors = (
            self.all_iterations,
            self.successors_of_calls(self.call_numbers),
            self.predecessors_of_calls(self.call_numbers),
        )
        self.between_calls = {n: all_successors[n].intersect(all_predecessors[n]).coalesce() for n in all_iterations}
        self.successors = {n: all_successors[n].subtract(all_predecessors[n]).coalesce() for n in all_iterations}
        self.predecessors = {n: all_predecessors[n].subtract(all_successors[n]).coalesce() for n in all_iterations}
        self.independent = {
            n: all_iterations[n].subtract(all_successors[n]).subtract(all_predecessors[n]).coalesce()
            for n in all_iterations
        }
        accesses = model.reads.union(model.writes)
        self.accessing_sent_data = self._without_parameter_conditions(
            model.accesses.sent_elements.apply(accesses.reverse())
        )

    def _without_parameter_conditions(self, instances: isl.UnionSet) -> IterationsByNest:
        """Returns loop iterations by nest, without conditions on parameters alone, so that an order depends on
        parameters as little as possible. Conditions that only select messages, such as whether a rank has a neighbour,
        are dropped from each part of a set, too."""
        result: IterationsByNest = {}
        for number, iterations in self.model.nest_instances(instances).items():
            if not iterations.is_empty():
                iterations = iterations.gist_params(iterations.params()).intersect(self.all_iterations[number])
            parts = [isl.Set.from_basic_set(part) for part in iterations.coalesce().get_basic_sets()]
            result[number] = isl.Set.empty(iterations.get_space())
            for part in parts:
                part = part.gist_params(self.model.project_out_sizes(part.params()))
                result[number] = result[number].union(part.intersect(self.all_iterations[number])).coalesce()
        return result

    def original_call_steps(self) -> list[Step]:
        """Returns the MPI calls unchanged and in their original order, with the loop iterations that must stay between
        them."""
        steps: list[Step] = []
        for position, number in enumerate(self.call_numbers):
            steps.append(CallStep(number))
            next_call = self.call_numbers[position + 1] if position + 1 < len(self.call_numbers) else number
            steps.append(
                ComputeStep({n: iterations for n, iterations in self.between_calls.items() if number < n < next_call})
            )
        return steps

    def chunk_assignments(self) -> Iterator[tuple[dict[int, ChunkMapsByNest], dict[int, ChunkMapsByNest], bool, bool]]:
        """Yields the loop iterations to execute before each chunk and those to execute after it, both by MPI call;
        whether producers are chunked; and whether consumers are chunked. At least one of the two is chunked. Iterations
        that several calls depend on come before the first of these calls; iterations that depend on several calls come
        after the last."""
        numbers = [number for number, _ in self.model.chunked_calls]
        for producers_chunked, consumers_chunked in ((True, True), (True, False), (False, True)):
            iterations_before: dict[int, ChunkMapsByNest] = {number: {} for number in numbers}
            iterations_after: dict[int, ChunkMapsByNest] = {number: {} for number in numbers}
            unassigned = union_of_iterations(
                self.predecessors, common_iterations(self.independent, self.accessing_sent_data)
            )
            for number in numbers if producers_chunked else []:
                iterations_before[number] = self.producers_of_chunks(number, unassigned)
                unassigned = remaining_iterations(unassigned, iterations_in_chunk_loops(iterations_before[number]))
            unassigned = self.successors
            for number in reversed(numbers) if consumers_chunked else []:
                iterations_after[number] = self.consumers_of_chunks(number, unassigned)
                unassigned = remaining_iterations(unassigned, iterations_in_chunk_loops(iterations_after[number]))
            if (
                any(iterations_before.values()) >= producers_chunked
                and any(iterations_after.values()) >= consumers_chunked
            ):
                yield iterations_before, iterations_after, producers_chunked, consumers_chunked

    def producers_of_chunks(self, call_number: int, candidates: IterationsByNest) -> ChunkMapsByNest:
        """Returns the loop iterations that an MPI call's chunks depend on, or that access what a chunk sends, each
        mapped to the first such chunk."""
        begins = isl.UnionSet.from_set(self.model.instance_sets[call_number][0])
        reads = self.model.reads.intersect_domain(begins).intersect_range(self.model.accesses.sent_elements)
        accesses_of_sent_data = self.model.reads.union(self.model.writes).apply_range(reads.reverse())
        return self._chunk_maps_of(
            self.model.dependences.intersect_range(begins).union(accesses_of_sent_data), call_number, 0, candidates
        )

    def consumers_of_chunks(self, call_number: int, candidates: IterationsByNest) -> ChunkMapsByNest:
        """Returns the loop iterations that depend on an MPI call's chunks, each mapped to the last such chunk."""
        completes = isl.UnionSet.from_set(self.model.instance_sets[call_number][1])
        return self._chunk_maps_of(
            self.model.dependences.intersect_domain(completes).reverse(), call_number, 1, candidates
        )

    def _chunk_maps_of(
        self, relation: isl.UnionMap, call_number: int, event_index: int, candidates: IterationsByNest
    ) -> ChunkMapsByNest:
        """Returns, for each loop iteration, the first chunk (`event_index` 0) or the last chunk (1) that a relation
        assigns to it. Omits nests whose iterations all have the same chunk."""
        result: ChunkMapsByNest = {}
        for number, iterations in candidates.items():
            event = self.model.instance_sets[call_number][event_index]
            space = isl.Map.from_domain_and_range(iterations, event).get_space()
            chunks = relation.extract_map(space).intersect_domain(iterations).intersect_range(event)
            chunks = chunks.set_tuple_name(isl.dim_type.out, "")
            selected_chunk = (chunks.lexmax() if event_index else chunks.lexmin()).coalesce()
            if not selected_chunk.range().lexmin().is_equal(selected_chunk.range().lexmax()):
                result[number] = selected_chunk
        return result

    def split_last_calls(self, num_calls: int) -> tuple[list[Step], list[Step]] | None:
        """Returns the steps up to the start of the last `num_calls` MPI calls, and the steps that complete those calls.
        Returns None if one of these calls cannot be split into start and completion."""
        steps: list[Step] = []
        steps_in_order = self.original_call_steps()
        first_split = len(self.call_numbers) - num_calls
        for position, step_between in enumerate(steps_in_order[1::2]):
            if position < first_split:
                steps += [CallStep(self.call_numbers[position]), step_between]
            elif isinstance(step_between, ComputeStep) and not has_no_iterations(step_between.iterations):
                return None
        begin_and_complete = self.split_calls(self.call_numbers[first_split:])
        return (steps + begin_and_complete[0], begin_and_complete[1]) if begin_and_complete else None

    def split_calls(self, call_numbers: Sequence[int]) -> tuple[list[Step], list[Step]] | None:
        """Returns the steps that start some MPI calls, and the steps that complete them. Returns None if one of the
        calls cannot be split into start and completion."""
        begin_steps: list[Step] = []
        completion_steps: list[Step] = []  # completions of calls that were split
        complete_steps: list[Step] = []
        for number in call_numbers:
            call = self.model.region.items[number]
            assert isinstance(call, CommunicationStatement)
            if call.blocking_calls and self.model.can_begin_all_first(number):
                begin_steps.append(CallStep(number, completes_call=False))
                completion_steps.append(CallStep(number, begins_call=False))
            elif call.begins_messages and call.completes_messages:
                return None
            else:
                (begin_steps if call.begins_messages else complete_steps).append(CallStep(number))
        return begin_steps, completion_steps + complete_steps

    def group_calls_by_round(self) -> list[list[int]]:
        """Returns the MPI calls in rounds: between two rounds there are loops, and no message is in flight."""
        rounds: list[list[int]] = [[]]
        num_in_flight = 0
        for number, item in enumerate(self.model.region.items):
            if isinstance(item, CommunicationStatement):
                rounds[-1].append(number)
                num_in_flight += item.begins_messages - item.completes_messages
            elif item.loops and rounds[-1] and num_in_flight <= 0:
                rounds.append([])
        return [one for one in rounds if one]

    def predecessors_of_calls(self, call_numbers: Sequence[int]) -> IterationsByNest:
        """Returns the loop iterations that must be executed before the given MPI calls begin."""
        begins = union_of_sets(self.model.instance_sets[number][0] for number in call_numbers)
        return self._without_parameter_conditions(self.model.reachable_from(begins, self.model.dependences.reverse()))

    def successors_of_calls(self, call_numbers: Sequence[int]) -> IterationsByNest:
        """Returns the loop iterations that must be executed after the given MPI calls complete."""
        completes = union_of_sets(self.model.instance_sets[number][1] for number in call_numbers)
        return self._without_parameter_conditions(self.model.reachable_from(completes, self.model.dependences))
