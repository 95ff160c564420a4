"""Normalizes an order of execution: lists the pieces of code that an order consists of, in paragraphs.

It is decided here what is written where. How each piece of code is written is decided in `emit.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import LoopNest
from nearfield.rewrite.model.instances import ChunkMapsByNest, has_no_iterations
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import CallStep, ChunkLoop, ComputeStep, ExecutionOrder, Step


@dataclass(frozen=True)
class RequestDeclarations:
    """The declarations of the request arrays of calls that are begun and completed separately."""

    steps: Sequence[CallStep | ChunkLoop]


@dataclass(frozen=True)
class Comment:
    """The text, such as comments, in front of a statement of the original region."""

    item_number: int


@dataclass(frozen=True)
class Begin:
    """The nonblocking calls that begin the messages of a call. `first_request` is the number of its first request."""

    step: CallStep
    first_request: int


@dataclass(frozen=True)
class Wait:
    """The MPI_Waitall that completes `num_requests` requests, which are those of `steps`."""

    steps: Sequence[CallStep]
    num_requests: int


@dataclass(frozen=True)
class Verbatim:
    """A statement of the original region as it is. `step` is set if it communicates."""

    item_number: int
    step: CallStep | None = None


@dataclass(frozen=True)
class NestLoops:
    """Loops over a part of the iterations of a loop nest, of which the `num_reversed_loops` outermost are reversed.
    `context` is the isl set of parameters for which they are executed; `c_names` maps isl parameters of these loops
    only to their C names."""

    item_number: int
    iterations: isl.Set
    context: isl.Set
    num_reversed_loops: int = 0
    c_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChunkLoopCode:
    """The loop over the chunks of a call's messages, with the code before and after the call in its body."""

    step: ChunkLoop
    code_before: Sequence[Comment | NestLoops]
    code_after: Sequence[Comment | NestLoops]


Code = RequestDeclarations | Comment | Begin | Wait | Verbatim | NestLoops | ChunkLoopCode


@dataclass(frozen=True)
class Paragraph:
    """Code without blank lines in between. `item_number` is the first statement of the region that it executes; None
    if it executes none."""

    code: Sequence[Code]
    item_number: int | None = None


def list_paragraphs(order: ExecutionOrder, model: PolyhedralModel, parameters: isl.Set) -> list[Paragraph]:
    """Returns the code for an order as paragraphs. `parameters` is the isl set of parameters for which the code is
    executed."""
    return list(_ParagraphBuilder(model, parameters).build(order.steps))


class _ParagraphBuilder:
    """Lists the code for the steps of an order one after the other. The comment in front of a statement is listed in
    front of the first part of the statement only."""

    def __init__(self, model: PolyhedralModel, parameters: isl.Set) -> None:
        self._model, self._parameters = model, parameters
        self._items_with_comment: set[int] = set()
        self._num_requests = 0  # requests of the calls that are begun so far

    def build(self, steps: Sequence[Step]) -> Iterator[Paragraph]:
        """Yields a paragraph for each nonempty step, together with the calls that one MPI_Waitall completes in front of
        it, and for calls that are completed after the last step."""
        begun_steps = [
            step for step in steps if not isinstance(step, ComputeStep) and step.begins_call and not step.completes_call
        ]
        yield Paragraph([RequestDeclarations(begun_steps)])
        waiting_steps: list[CallStep] = []
        for step in steps:
            if isinstance(step, CallStep) and step.completes_call and not step.begins_call:
                waiting_steps.append(step)
            elif not isinstance(step, ComputeStep) or not has_no_iterations(step.iterations):
                yield Paragraph([*self._wait(waiting_steps), *self._code_of_step(step)], _first_item_of(step))
                waiting_steps = []
        yield Paragraph(self._wait(waiting_steps))

    def _wait(self, steps: Sequence[CallStep]) -> list[Code]:
        """Returns the code that completes some calls, all of which were begun before."""
        return [Wait(steps, self._num_requests)] if steps else []

    def _code_of_step(self, step: Step) -> list[Code]:
        """Returns the code for a step that does more than to complete a call."""
        if isinstance(step, ComputeStep):
            return self._code_of_nests(step)
        if isinstance(step, ChunkLoop):
            return self._code_of_chunk_loop(step)
        comment = self._comment(step.call_number)
        if step.completes_call:
            return [*comment, Verbatim(step.call_number, step)]
        first_request = self._num_requests
        call = self._model.region.items[step.call_number]
        assert not isinstance(call, LoopNest)
        self._num_requests += call.num_requests
        return [*comment, Begin(step, first_request)]

    def _comment(self, item_number: int) -> list[Comment]:
        """Returns the comment in front of a statement; none if it was returned before."""
        if item_number in self._items_with_comment:
            return []
        self._items_with_comment.add(item_number)
        return [Comment(item_number)]

    def _code_of_nests(self, step: ComputeStep) -> list[Code]:
        """Returns the code for a step that executes loop iterations."""
        code: list[Code] = []
        for number, iterations in sorted(step.iterations.items()):
            iterations = iterations.intersect_params(self._parameters)
            if iterations.is_empty():
                continue
            nest = self._model.region.items[number]
            is_whole = iterations.is_equal(self._model.nest_domain(number).intersect_params(self._parameters))
            is_verbatim = is_whole and not (step.num_reversed_loops and nest.loops)
            loops = NestLoops(number, iterations, self._parameters, step.num_reversed_loops)
            code += [*self._comment(number), Verbatim(number) if is_verbatim else loops]
        return code

    def _code_of_chunk_loop(self, step: ChunkLoop) -> list[Code]:
        """Returns the loop over the chunks of a call's messages."""
        comment = self._comment(step.call_number) if step.begins_call else []
        code_before = self._code_in_chunk_loop(step.iterations_before, step.call_number)
        code_after = self._code_in_chunk_loop(step.iterations_after, step.call_number)
        return [*comment, ChunkLoopCode(step, code_before, code_after)]

    def _code_in_chunk_loop(self, chunk_maps: ChunkMapsByNest, call_number: int) -> list[Comment | NestLoops]:
        """Returns the loops over the iterations that are executed together with one message chunk. An isl parameter
        stands for the first element of the chunk."""
        call_instances = self._model.instance_sets[call_number][0]
        chunk_iterator = self._model.region.items[call_number].loops[0].iterator
        name = self._model.names.iterator_name(chunk_iterator.key)
        chunk_parameters = call_instances.move_dims(
            isl.dim_type.param, call_instances.dim(isl.dim_type.param), isl.dim_type.set, 0, 1
        )
        chunk_parameters = chunk_parameters.set_dim_name(
            isl.dim_type.param, chunk_parameters.dim(isl.dim_type.param) - 1, name
        ).params()
        code: list[Comment | NestLoops] = []
        for number, chunk in sorted(chunk_maps.items()):
            dimension = chunk.dim(isl.dim_type.param)
            map_from_chunk = chunk.move_dims(isl.dim_type.param, dimension, isl.dim_type.out, 0, 1)
            iterations = map_from_chunk.set_dim_name(isl.dim_type.param, dimension, name).domain()
            context = self._parameters.intersect(chunk_parameters)
            iterations = iterations.intersect_params(self._parameters).gist_params(context)
            loops = NestLoops(number, iterations, context, c_names={name: chunk_iterator.text})
            code += [*self._comment(number), loops]
        return code


def _first_item_of(step: Step) -> int:
    return min(step.iterations) if isinstance(step, ComputeStep) else step.call_number
