"""Writes a new order of a region as C code: calls and whole loop nests verbatim, parts of nests as new loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from nearfield.rewrite.analysis.program import NONBLOCKING, BlockingCall, CommunicationStatement, LoopNest
from nearfield.rewrite.codegen.chunk_code import ChunkCode
from nearfield.rewrite.codegen.code import LoopStyle, LoopWriter, NotExpressible, c_names_of_parameters, expression_as_c
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, reindent
from nearfield.rewrite.model.instances import ChunkMaps, has_no_iterations
from nearfield.rewrite.model.polyhedral import Model
from nearfield.rewrite.model.schedule import CallStep, ChunkLoop, ComputeStep, ExecutionOrder, Step

_NONE = "MPI_REQUEST_NULL"
MAX_CONDITION_CHARS = 100  # maximum characters of a condition on one line


@dataclass
class EmittedRegion:
    """The new C code for a region. `pieces` lists its contents in textual order: statement numbers for loop nests,
    CallSteps for MPI calls. `guard` is the condition under which the new order is legal; '' if it always is. `asserted`
    is set if the compiler checks the guard."""

    text: str
    pieces: list[int | CallStep] = field(default_factory=list)
    guard: str = ""
    asserted: bool = False
    check: str = ""  # run-time check that pointers do not alias, tested before the guard

    @property
    def condition(self) -> str:
        """Returns the condition of the `if` around the new code; '' if there is no `if`."""
        guard = "" if self.asserted else self.guard
        wrapped = f"({guard})" if self.check and ("||" in guard or "&&" in guard) else guard
        return " && ".join(part for part in (self.check, wrapped) if part)


def _group_completions(steps: Sequence[Step]) -> Iterator[tuple[list[CallStep], Step | None]]:
    """Yields the steps that are not empty, each with the calls that one MPI_Waitall completes before it; at the end
    None as the step, if calls are left to complete."""
    waiting: list[CallStep] = []
    for step in steps:
        if isinstance(step, CallStep) and step.completes and not step.begins:
            waiting.append(step)
        elif not isinstance(step, ComputeStep) or not has_no_iterations(step.sets):
            yield waiting, step
            waiting = []
    if waiting:
        yield waiting, None


def requests_declaration(calls: Sequence[CommunicationStatement], name: str) -> str:
    """Returns the declaration of a request array for MPI calls that begin and complete separately. Requests of calls in
    branches are initialised to MPI_REQUEST_NULL, since the calls may not be executed."""
    count = sum(call.request_count for call in calls)
    certain = all(call.is_single_blocking_call for call in calls)
    return f"MPI_Request {name}[{count}]" + ("" if certain else f" = {{{', '.join([_NONE] * count)}}}") + ";"


class RegionEmitter:
    """Writes new orders of one region of a source file as C code."""

    def __init__(self, text: str, model: Model, *, cplusplus: bool, requests: str = "nearfield_requests") -> None:
        self._text = text
        self._model = model
        self._cplusplus = cplusplus
        self._requests = requests
        region = model.region
        self._indent = indent_at(text, region.start)
        self._step = indent_unit_of(text)
        self._leads = self._comments_before_items()
        # True if blank lines separate the statements of the original region.
        self._blank_lines = any(lead.startswith("\n") for lead in self._leads.values())

    def _comments_before_items(self) -> dict[int, str]:
        """Returns the text between the statements of the region, such as comments, by the number of the following
        statement."""
        found = {}
        items = self._model.region.items
        for number in range(1, len(items)):
            between = self._model.region.text_without_declarations(
                self._text, items[number - 1].end, items[number].lead
            )
            lead = between if "\n" in between.strip(" \t") else f"\n{between}"
            blank = re.match(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)?[ \t]*\n", lead)
            found[number] = lead[blank.end() if blank and not blank[1] else 0 :].strip(" \t")
            found[number] = "\n".join(line.rstrip() for line in found[number].split("\n"))
        return found

    def emit(self, order: ExecutionOrder, guard: isl.Set, check: str = "") -> EmittedRegion:
        """Returns the new code for an order, which replaces the region from its first character, or the pragma above
        it, to its last. `check` is a run-time condition in C, tested in addition to the guard. Raises NotExpressible if
        the order cannot be written."""
        emitted = EmittedRegion("", check=check)
        known = self._model.names.parameter_set([])
        condition = self._guard_condition(guard)
        values = self._holds_for_constants(guard)
        emitted.guard, emitted.asserted = condition, bool(condition) and values is True
        if condition and values is False:
            raise NotExpressible("the constants have values for which the order does not hold")
        self._check_computable(emitted.condition)
        nested = bool(emitted.condition)
        indent = self._indent + (self._step if nested else "")
        context = guard.intersect(known)
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, LoopNest):
                context = context.intersect(self._model.nest_domain(number).params())
        lines = self._write_steps(order, context, indent, emitted)
        if emitted.asserted:
            word = "static_assert" if self._cplusplus else "_Static_assert"
            lines.insert(0, f'{indent}{word}({condition}, "the order of this loop and its messages needs it");')
        text = "\n".join(lines).rstrip()
        if nested:
            head, between = (
                f"{self._indent}if ({self._break_lines(emitted.condition)}) {{\n",
                f"\n{self._indent}}} else {{\n",
            )
            text = f"{head}{text}{between}{self._original_text()}\n{self._indent}}}"
        for start, end in reversed(self._model.region.declared):
            text = f"{self._indent}{self._text[start:end]}\n{text}"
        there = indent_at(self._text, self._model.region.items[0].lead)  # indent that the first line keeps
        emitted.text = text[len(there) :] if text.startswith(there) else text
        return emitted

    def _break_lines(self, condition: str) -> str:
        """Returns a long C condition broken into several lines."""
        if len(condition) < MAX_CONDITION_CHARS:
            return condition
        return condition.replace(" && ", f" &&\n{self._indent}    ")

    def _original_text(self) -> str:
        """Returns the original code of the region, indented for the else branch of the guard."""
        text = self._model.region.source_text(self._text)
        return reindent(text.lstrip(), self._indent, self._indent + self._step)

    # ---- the guard: the condition for the new order

    def _guard_condition(self, guard: isl.Set) -> str:
        """Returns the guard as a C condition; '' if it always holds."""
        shown = guard.gist(self._model.context).coalesce()
        if self._model.context.is_subset(guard):
            return ""
        build = isl.AstBuild.from_context(self._model.context)
        return expression_as_c(build.expr_from_set(shown), c_names_of_parameters(self._model.names))

    def _check_computable(self, condition: str) -> None:
        """Raises NotExpressible if a condition evaluates an expression that may trap, such as a division, which the
        original code does not always evaluate."""
        region = self._model.region
        polys = [one for nest in region.nests for loop in nest.loops[:1] for one in (*loop.lower, *loop.upper)]
        for call in region.calls:
            if all(message.certain for message in call.messages):
                polys += [message.count for message in call.messages if message.count is not None]
                polys += [one for access in call.accesses if access.message for one in access.index if one is not None]
        always = {key for poly in polys for key in poly.keys}
        for key, symbol in region.symbols.items():
            if symbol.may_fail and key not in always and symbol.text in condition:
                raise NotExpressible(f"it depends on {symbol.text}, which may be computed under a condition only")

    def _holds_for_constants(self, guard: isl.Set) -> bool | None:
        """Returns whether the guard holds for the values of the constants in it; None if it depends on other
        parameters."""
        shown = guard.gist(self._model.context)
        for keys, name in self._model.names.parameters.items():
            place = shown.find_dim_by_name(isl.dim_type.param, name)
            if place < 0 or not shown.involves_dims(isl.dim_type.param, place, 1):
                continue
            value = 1
            for key in keys:
                own = self._model.region.symbols[key].value
                if own is None:
                    return None
                value *= own
            shown = shown.fix_val(isl.dim_type.param, place, isl.Val(value))
        return not shown.is_empty()

    # ---- the steps of an order

    def _write_steps(self, order: ExecutionOrder, context: isl.Set, indent: str, emitted: EmittedRegion) -> list[str]:
        """Returns the lines of code for all steps of an order, separated by blank lines if the region has some."""
        commented: set[int] = set()
        groups = [self._request_declarations(order.steps, indent)]
        number_of_requests = 0
        for waiting, step in _group_completions(order.steps):
            lines = self._waitall_lines(waiting, number_of_requests, indent, emitted) if waiting else []
            if isinstance(step, ComputeStep):
                lines += self._write_compute_step(step, context, indent, emitted, commented)
            elif isinstance(step, ChunkLoop):
                lines += self._write_chunk_loop(step, context, indent, emitted, commented)
            elif step is not None and step.completes:
                lines += [*self._comment_lines(step.call, indent, commented), self._verbatim_text(step.call, indent)]
                emitted.pieces.append(step)
            elif step is not None:
                lines += self._write_begin(step, number_of_requests, indent, emitted, commented)
                number_of_requests += self._call_of_step(step).request_count
            groups.append(lines)
        if order.whole_statements:
            return self._join_statements(groups, order.steps).split("\n")
        between = "\n\n" if self._blank_lines else "\n"
        return between.join("\n".join(lines) for lines in groups if lines).split("\n")

    def _join_statements(self, groups: Sequence[Sequence[str]], steps: Sequence[Step]) -> str:
        """Returns the lines of whole statements, each behind a blank line if it was so in the original."""
        numbers = [next(iter(step.sets)) if isinstance(step, ComputeStep) else step.call for step in steps]
        made = ""
        for number, lines in zip(numbers, [lines for lines in groups if lines], strict=True):
            made += ("\n" if self._leads.get(number, "").startswith("\n") else "") + "\n".join([*lines, ""])
        return made

    def _request_declarations(self, steps: Sequence[Step], indent: str) -> list[str]:
        """Returns the declarations of the request arrays for MPI calls that begin and complete separately."""
        begins = [step for step in steps if not isinstance(step, ComputeStep) and step.begins and not step.completes]
        chunked = [
            f"MPI_Request {self._request_array_declarator(step)};" for step in begins if isinstance(step, ChunkLoop)
        ]
        calls = [self._call_of_step(step) for step in begins if isinstance(step, CallStep)]
        plain = [requests_declaration(calls, self._requests)] if calls else []
        return [indent + line for line in chunked + plain]

    def _write_compute_step(
        self, phase: ComputeStep, context: isl.Set, indent: str, emitted: EmittedRegion, commented: set[int]
    ) -> list[str]:
        """Returns the lines of code for a step that executes loop iterations."""
        lines: list[str] = []
        for number, instances in sorted(phase.sets.items()):
            instances = instances.intersect_params(context)
            if instances.is_empty():
                continue
            lines += self._comment_lines(number, indent, commented)
            whole = self._model.nest_domain(number).intersect_params(context)
            nest = self._model.region.items[number]
            assert isinstance(nest, LoopNest)
            if not phase.reverse and instances.is_equal(whole) or not nest.loops:
                if not instances.is_equal(whole):
                    raise NotExpressible("a statement without loops is executed for some parameters only")
                lines.append(self._verbatim_text(number, indent))
                emitted.pieces.append(number)
                continue
            writer = self._new_loop_writer(nest)
            lines.append(writer.write_loops(instances, context, indent, reverse=phase.reverse))
            emitted.pieces += [number] * writer.written
        return lines

    def _new_loop_writer(self, nest: LoopNest, at: Mapping[str, str] | None = None) -> LoopWriter:
        """Returns a writer for loops over parts of a loop nest. `at` maps an isl parameter to its C name."""
        text = self._text[nest.start : nest.end]
        body = self._text[nest.body[0] : nest.body[1]]
        style = LoopStyle.from_text(text[: nest.body[0] - nest.start] or text, self._step)
        return LoopWriter(self._model.names, nest, body, indent_at(self._text, nest.body[0]), style, at or {})

    def _write_chunk_loop(
        self, step: ChunkLoop, context: isl.Set, indent: str, emitted: EmittedRegion, commented: set[int]
    ) -> list[str]:
        """Returns the lines of the loop over the chunks of an MPI call's messages."""
        written, inner = self._chunk_code(step), indent + self._step
        lines = self._comment_lines(step.call, indent, commented) if step.begins else []
        lines.append(f"{indent}{written.loop_header} {{")
        if step.begins:
            lines.append(f"{inner}{written.count_declaration};")
        lines += self._write_chunk_nests(step.before, step.call, context, inner, emitted, commented)
        emitted.pieces.append(CallStep(step.call, step.begins, step.completes))
        lines += [f"{inner}{call}" for call in written.call_lines(begins=step.begins, completes=step.completes)]
        lines += self._write_chunk_nests(step.after, step.call, context, inner, emitted, commented)
        return [*lines, f"{indent}}}"]

    def _request_array_declarator(self, step: ChunkLoop) -> str:
        """Returns the declarator of the request array for a chunked MPI call. Raises NotExpressible if it would be a
        variable-length array in C++."""
        chunk = self._call_of_step(step).chunking
        constant = chunk and all(self._model.region.symbols[key].value is not None for key in chunk.count.keys)
        if self._cplusplus and not constant:
            raise NotExpressible("C++ has no arrays of variable length")
        return self._chunk_code(step).requests_declaration

    def _chunk_code(self, step: ChunkLoop) -> ChunkCode:
        """Returns the source text of the loop over the chunks of an MPI call's messages."""
        number = [number for number, _ in self._model.chunked_calls].index(step.call)
        call = self._call_of_step(step)
        assert call.chunking
        return ChunkCode(call.chunking, call.exchange, f"{self._requests}{f'_{number + 1}' if number else ''}")

    def _write_chunk_nests(
        self, pieces: ChunkMaps, call: int, context: isl.Set, indent: str, emitted: EmittedRegion, commented: set[int]
    ) -> list[str]:
        """Returns loops over the iterations that are executed together with one message chunk, whose first element is
        an isl parameter."""
        lines: list[str] = []
        domain = self._model.domains[call][0]
        at = self._model.region.items[call].loops[0].iterator
        name = self._model.names.iterator_name(at.key)
        known = domain.move_dims(isl.dim_type.param, domain.dim(isl.dim_type.param), isl.dim_type.set, 0, 1)
        known = known.set_dim_name(isl.dim_type.param, known.dim(isl.dim_type.param) - 1, name).params()
        for number, chunk in sorted(pieces.items()):
            nest = self._model.region.items[number]
            assert isinstance(nest, LoopNest)
            place = chunk.dim(isl.dim_type.param)
            of_chunk = chunk.move_dims(isl.dim_type.param, place, isl.dim_type.out, 0, 1)
            instances = of_chunk.set_dim_name(isl.dim_type.param, place, name).domain()
            lines += self._comment_lines(number, indent, commented)
            writer = self._new_loop_writer(nest, {name: at.text})
            within = context.intersect(known)
            instances = instances.intersect_params(context).gist_params(within)
            lines.append(writer.write_loops(instances, within, indent))
            emitted.pieces += [number] * writer.written
        return lines

    def _verbatim_text(self, number: int, indent: str) -> str:
        """Returns the original text of a statement of the region, with another indent."""
        item = self._model.region.items[number]
        text = self._text[item.lead : item.end]
        return reindent(text.lstrip(), self._indent, indent)

    def _comment_lines(self, number: int, indent: str, commented: set[int]) -> list[str]:
        """Returns the comment lines in front of a statement; none if they were returned before."""
        lead = "" if number in commented else self._leads.get(number, "").strip("\n \t")
        commented.add(number)
        return [f"{indent}{line.strip()}" if line.strip() else "" for line in lead.split("\n")] if lead else []

    def _write_begin(
        self, step: CallStep, place: int, indent: str, emitted: EmittedRegion, commented: set[int]
    ) -> list[str]:
        """Returns the lines that begin an MPI call without completing it; `place` is the number of its first
        request."""
        call = self._call_of_step(step)
        emitted.pieces.append(step)
        lead = self._comment_lines(step.call, indent, commented)
        begin_calls = [self._nonblocking_calls(one, place + number) for number, one in self._with_request_numbers(call)]
        if call.is_single_blocking_call:
            return lead + [f"{indent}{line}" for line in begin_calls[0]]
        text, last = "", call.lead
        for one, lines in zip(call.blocking, begin_calls, strict=True):
            text += self._text[last : one.start]
            between = "\n" + indent_at(self._text, one.start)
            text += between.join(lines) if one.listed or len(lines) == 1 else f"{{ {' '.join(lines)} }}"
            last = one.end
        text += self._text[last : call.end]
        return [*lead, reindent(text.lstrip(), self._indent, indent)]

    @staticmethod
    def _with_request_numbers(call: CommunicationStatement) -> Iterator[tuple[int, BlockingCall]]:
        """Yields the blocking calls of a statement, each with the number of its first request."""
        number = 0
        for one in call.blocking:
            yield number, one
            number += len(NONBLOCKING[one.name])

    def _nonblocking_calls(self, call: BlockingCall, place: int) -> list[str]:
        """Returns the nonblocking calls, as C statements, that begin a blocking call; `place` is the number of its
        first request."""
        return [
            f"{name}({', '.join(words)}, &{self._requests}[{place + number}]);"
            for number, (name, words) in enumerate(call.begin_calls())
        ]

    def _waitall_lines(self, waiting: list[CallStep], count: int, indent: str, emitted: EmittedRegion) -> list[str]:
        """Returns the MPI_Waitall that completes `count` requests."""
        emitted.pieces += waiting
        return [f"{indent}MPI_Waitall({count}, {self._requests}, MPI_STATUSES_IGNORE);"]

    def _call_of_step(self, step: CallStep | ChunkLoop) -> CommunicationStatement:
        """Returns the MPI call that a step executes. Raises NotExpressible if the call cannot be split into begin and
        completion."""
        call = self._model.region.items[step.call]
        assert isinstance(call, CommunicationStatement)
        if call.unsplit:
            raise NotExpressible(call.unsplit)
        return call
