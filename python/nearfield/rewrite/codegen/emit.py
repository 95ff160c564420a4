"""Writes a new order of a region as C code: calls and whole loop nests verbatim, parts of nests as new loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import NONBLOCKING_EQUIVALENTS, BlockingCall, CommunicationStatement, LoopNest
from nearfield.rewrite.codegen.chunk_code import ChunkCode
from nearfield.rewrite.codegen.code import LoopStyle, LoopWriter, NotExpressible, c_names_of_parameters, expression_to_c
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, reindent
from nearfield.rewrite.model.instances import ChunkMapsByNest, has_no_iterations
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import CallStep, ChunkLoop, ComputeStep, ExecutionOrder, Step

_NULL_REQUEST = "MPI_REQUEST_NULL"
MAX_CONDITION_CHARS = 100  # maximum characters of a condition on one line


@dataclass
class EmittedRegion:
    """The new C code for a region. `pieces` lists its contents in textual order: statement numbers for loop nests,
    CallSteps for MPI calls. `guard` is the condition under which the new order is legal; '' if it always is.
    `is_guard_asserted` is set if the compiler checks the guard."""

    text: str
    pieces: list[int | CallStep] = field(default_factory=list)
    guard: str = ""
    is_guard_asserted: bool = False
    alias_check: str = ""  # run-time check that pointers do not alias, tested before the guard

    @property
    def condition(self) -> str:
        """Returns the condition of the `if` around the new code; '' if there is no `if`."""
        guard = "" if self.is_guard_asserted else self.guard
        wrapped = f"({guard})" if self.alias_check and ("||" in guard or "&&" in guard) else guard
        return " && ".join(part for part in (self.alias_check, wrapped) if part)


def _group_completions(steps: Sequence[Step]) -> Iterator[tuple[list[CallStep], Step | None]]:
    """Yields each nonempty step with the calls that one MPI_Waitall completes before it. If calls are left to complete
    after the last step, finally yields these with None as the step."""
    waiting: list[CallStep] = []
    for step in steps:
        if isinstance(step, CallStep) and step.completes_call and not step.begins_call:
            waiting.append(step)
        elif not isinstance(step, ComputeStep) or not has_no_iterations(step.iterations):
            yield waiting, step
            waiting = []
    if waiting:
        yield waiting, None


def declare_request_array(calls: Sequence[CommunicationStatement], array_name: str) -> str:
    """Returns the declaration of a request array for MPI calls that begin and complete separately. Requests of calls in
    branches are initialised to MPI_REQUEST_NULL, since the calls may not be executed."""
    count = sum(call.num_requests for call in calls)
    are_all_certain = all(call.is_single_blocking_call for call in calls)
    return (
        f"MPI_Request {array_name}[{count}]"
        + ("" if are_all_certain else f" = {{{', '.join([_NULL_REQUEST] * count)}}}")
        + ";"
    )


class RegionEmitter:
    """Writes new orders of one region of a source file as C code."""

    def __init__(
        self, text: str, model: PolyhedralModel, *, cplusplus: bool, request_array_name: str = "nearfield_requests"
    ) -> None:
        self._text = text
        self._model = model
        self._cplusplus = cplusplus
        self._request_array_name = request_array_name
        region = model.region
        self._indent = indent_at(text, region.start)
        self._indent_step = indent_unit_of(text)
        self._comment_before_item = self._comments_before_items()
        # True if blank lines separate the statements of the original region.
        self._has_blank_lines = any(comment.startswith("\n") for comment in self._comment_before_item.values())

    def _comments_before_items(self) -> dict[int, str]:
        """Returns the text between the statements of the region, such as comments, by the number of the following
        statement."""
        comments = {}
        items = self._model.region.items
        for number in range(1, len(items)):
            between = self._model.region.text_without_declarations(
                self._text, items[number - 1].end, items[number].pragma_offset
            )
            comment = between if "\n" in between.strip(" \t") else f"\n{between}"
            blank = re.match(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)?[ \t]*\n", comment)
            comments[number] = comment[blank.end() if blank and not blank[1] else 0 :].strip(" \t")
            comments[number] = "\n".join(line.rstrip() for line in comments[number].split("\n"))
        return comments

    def emit(self, order: ExecutionOrder, guard: isl.Set, alias_check: str = "") -> EmittedRegion:
        """Returns the new code for an order, which replaces the region from its first character, or the pragma above
        it, to its last. `alias_check` is a run-time condition in C, tested in addition to the guard. Raises
        NotExpressible if the order cannot be written."""
        emitted = EmittedRegion("", alias_check=alias_check)
        all_parameters = self._model.names.parameter_set([])
        condition = self._guard_condition(guard)
        holds_for_constants = self._holds_for_constants(guard)
        emitted.guard, emitted.is_guard_asserted = condition, bool(condition) and holds_for_constants is True
        if condition and holds_for_constants is False:
            raise NotExpressible("the constants have values for which the order does not hold")
        self._check_computable(emitted.condition)
        is_guarded = bool(emitted.condition)
        indent = self._indent + (self._indent_step if is_guarded else "")
        parameters = guard.intersect(all_parameters)
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, LoopNest):
                parameters = parameters.intersect(self._model.nest_domain(number).params())
        lines = self._write_steps(order, parameters, indent, emitted)
        if emitted.is_guard_asserted:
            word = "static_assert" if self._cplusplus else "_Static_assert"
            lines.insert(0, f'{indent}{word}({condition}, "the order of this loop and its messages needs it");')
        text = "\n".join(lines).rstrip()
        if is_guarded:
            head, between = (
                f"{self._indent}if ({self._break_lines(emitted.condition)}) {{\n",
                f"\n{self._indent}}} else {{\n",
            )
            text = f"{head}{text}{between}{self._original_text()}\n{self._indent}}}"
        for start, end in reversed(self._model.region.hoisted_declaration_spans):
            text = f"{self._indent}{self._text[start:end]}\n{text}"
        first_indent = indent_at(
            self._text, self._model.region.items[0].pragma_offset
        )  # indent that the first line keeps
        emitted.text = text[len(first_indent) :] if text.startswith(first_indent) else text
        return emitted

    def _break_lines(self, condition: str) -> str:
        """Returns a long C condition broken into several lines."""
        if len(condition) < MAX_CONDITION_CHARS:
            return condition
        return condition.replace(" && ", f" &&\n{self._indent}    ")

    def _original_text(self) -> str:
        """Returns the original code of the region, indented for the else branch of the guard."""
        text = self._model.region.source_text(self._text)
        return reindent(text.lstrip(), self._indent, self._indent + self._indent_step)

    # ---- the guard: the condition for the new order

    def _guard_condition(self, guard: isl.Set) -> str:
        """Returns the guard as a C condition; '' if it always holds."""
        simplified_guard = guard.gist(self._model.parameter_context).coalesce()
        if self._model.parameter_context.is_subset(guard):
            return ""
        build = isl.AstBuild.from_context(self._model.parameter_context)
        return expression_to_c(build.expr_from_set(simplified_guard), c_names_of_parameters(self._model.names))

    def _check_computable(self, condition: str) -> None:
        """Raises NotExpressible if a condition evaluates an expression that may trap, such as a division, which the
        original code does not always evaluate."""
        region = self._model.region
        polynomials = [
            one for nest in region.nests for loop in nest.loops[:1] for one in (*loop.lower_bounds, *loop.upper_bounds)
        ]
        for call in region.calls:
            if all(message.is_certain for message in call.messages):
                polynomials += [message.count for message in call.messages if message.count is not None]
                polynomials += [
                    one for access in call.accesses if access.is_message for one in access.indices if one is not None
                ]
        always_computed_keys = {key for poly in polynomials for key in poly.keys}
        for key, symbol in region.symbols.items():
            if symbol.may_trap and key not in always_computed_keys and symbol.text in condition:
                raise NotExpressible(f"it depends on {symbol.text}, which may be computed under a condition only")

    def _holds_for_constants(self, guard: isl.Set) -> bool | None:
        """Returns whether the guard holds for the values of the constants in it; None if it depends on other
        parameters."""
        simplified_guard = guard.gist(self._model.parameter_context)
        for keys, name in self._model.names.parameters.items():
            dimension = simplified_guard.find_dim_by_name(isl.dim_type.param, name)
            if dimension < 0 or not simplified_guard.involves_dims(isl.dim_type.param, dimension, 1):
                continue
            value = 1
            for key in keys:
                constant_value = self._model.region.symbols[key].constant_value
                if constant_value is None:
                    return None
                value *= constant_value
            simplified_guard = simplified_guard.fix_val(isl.dim_type.param, dimension, isl.Val(value))
        return not simplified_guard.is_empty()

    # ---- the steps of an order

    def _write_steps(
        self, order: ExecutionOrder, parameters: isl.Set, indent: str, emitted: EmittedRegion
    ) -> list[str]:
        """Returns the lines of code for all steps of an order, separated by blank lines if the region has some."""
        written_comments: set[int] = set()
        groups = [self._request_declarations(order.steps, indent)]
        num_requests = 0
        for call_steps, step in _group_completions(order.steps):
            lines = self._waitall_lines(call_steps, num_requests, indent, emitted) if call_steps else []
            if isinstance(step, ComputeStep):
                lines += self._write_compute_step(step, parameters, indent, emitted, written_comments)
            elif isinstance(step, ChunkLoop):
                lines += self._write_chunk_loop(step, parameters, indent, emitted, written_comments)
            elif step is not None and step.completes_call:
                lines += [
                    *self._comment_lines(step.call_number, indent, written_comments),
                    self._verbatim_text(step.call_number, indent),
                ]
                emitted.pieces.append(step)
            elif step is not None:
                lines += self._write_begin(step, num_requests, indent, emitted, written_comments)
                num_requests += self._call_of_step(step).num_requests
            groups.append(lines)
        if order.keeps_statements_whole:
            return self._join_statements(groups, order.steps).split("\n")
        separator = "\n\n" if self._has_blank_lines else "\n"
        return separator.join("\n".join(lines) for lines in groups if lines).split("\n")

    def _join_statements(self, groups: Sequence[Sequence[str]], steps: Sequence[Step]) -> str:
        """Returns the lines of whole statements, each behind a blank line if it was so in the original."""
        numbers = [next(iter(step.iterations)) if isinstance(step, ComputeStep) else step.call_number for step in steps]
        text = ""
        for number, lines in zip(numbers, [lines for lines in groups if lines], strict=True):
            text += ("\n" if self._comment_before_item.get(number, "").startswith("\n") else "") + "\n".join(
                [*lines, ""]
            )
        return text

    def _request_declarations(self, steps: Sequence[Step], indent: str) -> list[str]:
        """Returns the declarations of the request arrays for MPI calls that begin and complete separately."""
        begin_steps = [
            step for step in steps if not isinstance(step, ComputeStep) and step.begins_call and not step.completes_call
        ]
        chunk_declarations = [
            f"MPI_Request {self._request_array_declarator(step)};"
            for step in begin_steps
            if isinstance(step, ChunkLoop)
        ]
        calls = [self._call_of_step(step) for step in begin_steps if isinstance(step, CallStep)]
        plain_declarations = [declare_request_array(calls, self._request_array_name)] if calls else []
        return [indent + line for line in chunk_declarations + plain_declarations]

    def _write_compute_step(
        self, step: ComputeStep, parameters: isl.Set, indent: str, emitted: EmittedRegion, written_comments: set[int]
    ) -> list[str]:
        """Returns the lines of code for a step that executes loop iterations."""
        lines: list[str] = []
        for number, instances in sorted(step.iterations.items()):
            instances = instances.intersect_params(parameters)
            if instances.is_empty():
                continue
            lines += self._comment_lines(number, indent, written_comments)
            all_iterations = self._model.nest_domain(number).intersect_params(parameters)
            nest = self._model.region.items[number]
            assert isinstance(nest, LoopNest)
            if not step.num_reversed_loops and instances.is_equal(all_iterations) or not nest.loops:
                if not instances.is_equal(all_iterations):
                    raise NotExpressible("a statement without loops is executed for some parameters only")
                lines.append(self._verbatim_text(number, indent))
                emitted.pieces.append(number)
                continue
            writer = self._new_loop_writer(nest)
            lines.append(writer.write_loops(instances, parameters, indent, num_reversed_loops=step.num_reversed_loops))
            emitted.pieces += [number] * writer.num_body_copies
        return lines

    def _new_loop_writer(self, nest: LoopNest, extra_c_names: Mapping[str, str] | None = None) -> LoopWriter:
        """Returns a writer for loops over parts of a loop nest. `extra_c_names` maps an isl parameter to its C name."""
        text = self._text[nest.start : nest.end]
        body = self._text[nest.body_span[0] : nest.body_span[1]]
        style = LoopStyle.from_text(text[: nest.body_span[0] - nest.start] or text, self._indent_step)
        return LoopWriter(
            self._model.names, nest, body, indent_at(self._text, nest.body_span[0]), style, extra_c_names or {}
        )

    def _write_chunk_loop(
        self, step: ChunkLoop, parameters: isl.Set, indent: str, emitted: EmittedRegion, written_comments: set[int]
    ) -> list[str]:
        """Returns the lines of the loop over the chunks of an MPI call's messages."""
        chunk_code, inner_indent = self._chunk_code(step), indent + self._indent_step
        lines = self._comment_lines(step.call_number, indent, written_comments) if step.begins_call else []
        lines.append(f"{indent}{chunk_code.loop_header} {{")
        if step.begins_call:
            lines.append(f"{inner_indent}{chunk_code.count_declaration};")
        lines += self._write_chunk_nests(
            step.iterations_before, step.call_number, parameters, inner_indent, emitted, written_comments
        )
        emitted.pieces.append(CallStep(step.call_number, step.begins_call, step.completes_call))
        lines += [
            f"{inner_indent}{call}"
            for call in chunk_code.call_lines(begins=step.begins_call, completes=step.completes_call)
        ]
        lines += self._write_chunk_nests(
            step.iterations_after, step.call_number, parameters, inner_indent, emitted, written_comments
        )
        return [*lines, f"{indent}}}"]

    def _request_array_declarator(self, step: ChunkLoop) -> str:
        """Returns the declarator of the request array for a chunked MPI call. Raises NotExpressible if it would be a
        variable-length array in C++."""
        chunking = self._call_of_step(step).chunking
        has_constant_count = chunking and all(
            self._model.region.symbols[key].constant_value is not None for key in chunking.count.keys
        )
        if self._cplusplus and not has_constant_count:
            raise NotExpressible("C++ has no arrays of variable length")
        return self._chunk_code(step).requests_declaration

    def _chunk_code(self, step: ChunkLoop) -> ChunkCode:
        """Returns the source text of the loop over the chunks of an MPI call's messages."""
        number = [number for number, _ in self._model.chunked_calls].index(step.call_number)
        call = self._call_of_step(step)
        assert call.chunking
        return ChunkCode(
            call.chunking, call.sendrecv_arguments, f"{self._request_array_name}{f'_{number + 1}' if number else ''}"
        )

    def _write_chunk_nests(
        self,
        chunk_maps: ChunkMapsByNest,
        call_number: int,
        parameters: isl.Set,
        indent: str,
        emitted: EmittedRegion,
        written_comments: set[int],
    ) -> list[str]:
        """Returns C loops over the iterations that are executed together with one message chunk. An isl parameter
        stands for the first element of the chunk."""
        lines: list[str] = []
        call_instances = self._model.instance_sets[call_number][0]
        chunk_iterator = self._model.region.items[call_number].loops[0].iterator
        name = self._model.names.iterator_name(chunk_iterator.key)
        chunk_parameters = call_instances.move_dims(
            isl.dim_type.param, call_instances.dim(isl.dim_type.param), isl.dim_type.set, 0, 1
        )
        chunk_parameters = chunk_parameters.set_dim_name(
            isl.dim_type.param, chunk_parameters.dim(isl.dim_type.param) - 1, name
        ).params()
        for number, chunk in sorted(chunk_maps.items()):
            nest = self._model.region.items[number]
            assert isinstance(nest, LoopNest)
            dimension = chunk.dim(isl.dim_type.param)
            map_from_chunk = chunk.move_dims(isl.dim_type.param, dimension, isl.dim_type.out, 0, 1)
            instances = map_from_chunk.set_dim_name(isl.dim_type.param, dimension, name).domain()
            lines += self._comment_lines(number, indent, written_comments)
            writer = self._new_loop_writer(nest, {name: chunk_iterator.text})
            inner_parameters = parameters.intersect(chunk_parameters)
            instances = instances.intersect_params(parameters).gist_params(inner_parameters)
            lines.append(writer.write_loops(instances, inner_parameters, indent))
            emitted.pieces += [number] * writer.num_body_copies
        return lines

    def _verbatim_text(self, item_number: int, indent: str) -> str:
        """Returns the original text of a statement of the region, with another indent."""
        item = self._model.region.items[item_number]
        text = self._text[item.pragma_offset : item.end]
        return reindent(text.lstrip(), self._indent, indent)

    def _comment_lines(self, item_number: int, indent: str, written_comments: set[int]) -> list[str]:
        """Returns the comment lines in front of a statement; none if they were returned before."""
        comment = (
            "" if item_number in written_comments else self._comment_before_item.get(item_number, "").strip("\n \t")
        )
        written_comments.add(item_number)
        return [f"{indent}{line.strip()}" if line.strip() else "" for line in comment.split("\n")] if comment else []

    def _write_begin(
        self, step: CallStep, first_request: int, indent: str, emitted: EmittedRegion, written_comments: set[int]
    ) -> list[str]:
        """Returns the lines that begin an MPI call without completing it; `first_request` is the number of its first
        request."""
        call = self._call_of_step(step)
        emitted.pieces.append(step)
        comment_lines = self._comment_lines(step.call_number, indent, written_comments)
        begin_calls = [
            self._nonblocking_calls(one, first_request + number)
            for number, one in self._calls_with_request_numbers(call)
        ]
        if call.is_single_blocking_call:
            return comment_lines + [f"{indent}{line}" for line in begin_calls[0]]
        text, previous_end = "", call.pragma_offset
        for one, lines in zip(call.blocking_calls, begin_calls, strict=True):
            text += self._text[previous_end : one.start]
            separator = "\n" + indent_at(self._text, one.start)
            text += separator.join(lines) if one.is_in_block or len(lines) == 1 else f"{{ {' '.join(lines)} }}"
            previous_end = one.end
        text += self._text[previous_end : call.end]
        return [*comment_lines, reindent(text.lstrip(), self._indent, indent)]

    @staticmethod
    def _calls_with_request_numbers(call: CommunicationStatement) -> Iterator[tuple[int, BlockingCall]]:
        """Yields the blocking calls of a statement, each with the number of its first request."""
        number = 0
        for one in call.blocking_calls:
            yield number, one
            number += len(NONBLOCKING_EQUIVALENTS[one.name])

    def _nonblocking_calls(self, call: BlockingCall, first_request: int) -> list[str]:
        """Returns the nonblocking calls, as C statements, that begin a blocking call; `first_request` is the number of
        its first request."""
        return [
            f"{name}({', '.join(arguments)}, &{self._request_array_name}[{first_request + number}]);"
            for number, (name, arguments) in enumerate(call.begin_calls())
        ]

    def _waitall_lines(
        self, call_steps: list[CallStep], num_requests: int, indent: str, emitted: EmittedRegion
    ) -> list[str]:
        """Returns the MPI_Waitall that completes `num_requests` requests."""
        emitted.pieces += call_steps
        return [f"{indent}MPI_Waitall({num_requests}, {self._request_array_name}, MPI_STATUSES_IGNORE);"]

    def _call_of_step(self, step: CallStep | ChunkLoop) -> CommunicationStatement:
        """Returns the MPI call that a step executes. Raises NotExpressible if the call cannot be split into begin and
        completion."""
        call = self._model.region.items[step.call_number]
        assert isinstance(call, CommunicationStatement)
        if call.unsplittable_reason:
            raise NotExpressible(call.unsplittable_reason)
        return call
