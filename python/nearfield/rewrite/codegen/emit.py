"""Writes a new order of a region as C code: calls and whole loop nests verbatim, parts of nests as new loops.

The order is first normalized to paragraphs, each a list of pieces of code (`paragraphs.py`). Then each piece of code is
written for itself. At the end, the paragraphs are joined, with blank lines in between if the region has some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.program import NONBLOCKING_EQUIVALENTS, BlockingCall, CommunicationStatement, LoopNest
from nearfield.rewrite.codegen.chunk_code import ChunkCode
from nearfield.rewrite.codegen.code import LoopStyle, LoopWriter, NotExpressible
from nearfield.rewrite.codegen.guard import GuardedCode, write_guard
from nearfield.rewrite.codegen.paragraphs import (
    Begin,
    ChunkLoopCode,
    Code,
    Comment,
    NestLoops,
    Paragraph,
    RequestDeclarations,
    Verbatim,
    Wait,
    list_paragraphs,
)
from nearfield.rewrite.frontend.text import indent_at, indent_unit_of, reindent
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import CallStep, ChunkLoop, ExecutionOrder

_NULL_REQUEST = "MPI_REQUEST_NULL"
MAX_CONDITION_CHARS = 100  # maximum characters of a condition on one line


@dataclass(frozen=True, kw_only=True)
class EmittedRegion(GuardedCode):
    """The new C code for a region, with the guard under which the new order is legal. `pieces` lists its contents in
    textual order: statement numbers for loop nests, CallSteps for MPI calls."""

    text: str
    pieces: Sequence[int | CallStep]


@dataclass(frozen=True)
class _WrittenCode:
    """Lines of C code, and the pieces of the region that they contain (EmittedRegion.pieces)."""

    lines: Sequence[str] = ()
    pieces: Sequence[int | CallStep] = ()

    @staticmethod
    def join(parts: Iterable[_WrittenCode]) -> _WrittenCode:
        """Returns the code of several parts, one after the other."""
        parts = list(parts)
        return _WrittenCode(
            [line for part in parts for line in part.lines], [piece for part in parts for piece in part.pieces]
        )


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
        guarded = write_guard(guard, self._model, alias_check)
        indent = self._indent + (self._indent_step if guarded.condition else "")
        written = self._write_order(order, guard, indent)
        lines = list(written.lines)
        if guarded.is_guard_asserted:
            word = "static_assert" if self._cplusplus else "_Static_assert"
            lines.insert(0, f'{indent}{word}({guarded.guard}, "the order of this loop and its messages needs it");')
        text = self._wrap_in_guard("\n".join(lines).rstrip(), guarded.condition)
        for start, end in reversed(self._model.region.hoisted_declaration_spans):
            text = f"{self._indent}{self._text[start:end]}\n{text}"
        first_indent = indent_at(self._text, self._model.region.items[0].pragma_offset)  # the first line keeps it
        return EmittedRegion(
            text=text.removeprefix(first_indent),
            pieces=written.pieces,
            guard=guarded.guard,
            is_guard_asserted=guarded.is_guard_asserted,
            alias_check=alias_check,
        )

    def _wrap_in_guard(self, text: str, condition: str) -> str:
        """Returns the new code in an `if` with a condition, and the original code in the `else`."""
        if not condition:
            return text
        head, between = f"{self._indent}if ({self._break_lines(condition)}) {{\n", f"\n{self._indent}}} else {{\n"
        return f"{head}{text}{between}{self._original_text()}\n{self._indent}}}"

    def _break_lines(self, condition: str) -> str:
        """Returns a long C condition broken into several lines."""
        if len(condition) < MAX_CONDITION_CHARS:
            return condition
        return condition.replace(" && ", f" &&\n{self._indent}    ")

    def _original_text(self) -> str:
        """Returns the original code of the region, indented for the else branch of the guard."""
        text = self._model.region.source_text(self._text)
        return reindent(text.lstrip(), self._indent, self._indent + self._indent_step)

    # ---- the code of an order

    def _write_order(self, order: ExecutionOrder, guard: isl.Set, indent: str) -> _WrittenCode:
        """Returns the code for all steps of an order, which is executed if the guard holds."""
        parameters = guard.intersect(self._model.names.parameter_set([]))
        for number, item in enumerate(self._model.region.items):
            if isinstance(item, LoopNest):
                parameters = parameters.intersect(self._model.nest_domain(number).params())
        paragraphs = list_paragraphs(order, self._model, parameters)
        written = [
            _WrittenCode.join(self._write_code(code, indent) for code in paragraph.code) for paragraph in paragraphs
        ]
        lines: list[str] = []
        for paragraph, code in zip(paragraphs, written, strict=True):
            if code.lines:
                lines += [*self._blank_lines_before(paragraph, order, is_first=not lines), *code.lines]
        return _WrittenCode(lines, _WrittenCode.join(written).pieces)

    def _blank_lines_before(self, paragraph: Paragraph, order: ExecutionOrder, *, is_first: bool) -> list[str]:
        """Returns the blank line, if there is one, in front of a paragraph. Whole statements stand behind a blank line
        if it was so in the original."""
        if order.keeps_statements_whole and paragraph.item_number is not None:
            is_separate = self._comment_before_item.get(paragraph.item_number, "").startswith("\n")
        else:
            is_separate = self._has_blank_lines and not is_first
        return [""] if is_separate else []

    def _write_code(self, code: Code, indent: str) -> _WrittenCode:
        """Returns one piece of code in C. Raises NotExpressible if that is not possible."""
        match code:
            case RequestDeclarations():
                return _WrittenCode([f"{indent}{line}" for line in self._request_declarations(code)])
            case Comment():
                return _WrittenCode(self._comment_lines(code.item_number, indent))
            case Begin():
                return _WrittenCode(self._begin_lines(code, indent), [code.step])
            case Wait():
                call = f"MPI_Waitall({code.num_requests}, {self._request_array_name}, MPI_STATUSES_IGNORE);"
                return _WrittenCode([f"{indent}{call}"], code.steps)
            case Verbatim():
                return _WrittenCode([self._verbatim_text(code.item_number, indent)], [code.step or code.item_number])
            case NestLoops():
                return self._write_nest_loops(code, indent)
            case ChunkLoopCode():
                return self._write_chunk_loop(code, indent)

    def _request_declarations(self, declarations: RequestDeclarations) -> list[str]:
        """Returns the declarations of the request arrays for MPI calls that begin and complete separately."""
        chunk_declarations = [
            f"MPI_Request {self._request_array_declarator(step)};"
            for step in declarations.steps
            if isinstance(step, ChunkLoop)
        ]
        calls = [self._call_of_step(step) for step in declarations.steps if isinstance(step, CallStep)]
        return chunk_declarations + ([declare_request_array(calls, self._request_array_name)] if calls else [])

    def _write_nest_loops(self, code: NestLoops, indent: str) -> _WrittenCode:
        """Returns loops over a part of the iterations of a loop nest."""
        nest = self._model.region.items[code.item_number]
        assert isinstance(nest, LoopNest)
        if not nest.loops:
            raise NotExpressible("a statement without loops is executed for some parameters only")
        writer = self._new_loop_writer(nest, code.c_names)
        text = writer.write_loops(code.iterations, code.context, indent, num_reversed_loops=code.num_reversed_loops)
        return _WrittenCode([text], [code.item_number] * writer.num_body_copies)

    def _new_loop_writer(self, nest: LoopNest, extra_c_names: Mapping[str, str]) -> LoopWriter:
        """Returns a writer for loops over parts of a loop nest. `extra_c_names` maps an isl parameter to its C name."""
        text = self._text[nest.start : nest.end]
        body = self._text[nest.body_span[0] : nest.body_span[1]]
        style = LoopStyle.from_text(text[: nest.body_span[0] - nest.start] or text, self._indent_step)
        return LoopWriter(self._model.names, nest, body, indent_at(self._text, nest.body_span[0]), style, extra_c_names)

    def _write_chunk_loop(self, code: ChunkLoopCode, indent: str) -> _WrittenCode:
        """Returns the loop over the chunks of an MPI call's messages."""
        step, chunk_code, inner_indent = code.step, self._chunk_code(code.step), indent + self._indent_step
        head = [f"{indent}{chunk_code.loop_header} {{"]
        if step.begins_call:
            head.append(f"{inner_indent}{chunk_code.count_declaration};")
        call_lines = chunk_code.call_lines(begins=step.begins_call, completes=step.completes_call)
        call_step = CallStep(step.call_number, step.begins_call, step.completes_call)
        return _WrittenCode.join(
            [
                _WrittenCode(head),
                *(self._write_code(one, inner_indent) for one in code.code_before),
                _WrittenCode([f"{inner_indent}{line}" for line in call_lines], [call_step]),
                *(self._write_code(one, inner_indent) for one in code.code_after),
                _WrittenCode([f"{indent}}}"]),
            ]
        )

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

    def _verbatim_text(self, item_number: int, indent: str) -> str:
        """Returns the original text of a statement of the region, with another indent."""
        item = self._model.region.items[item_number]
        text = self._text[item.pragma_offset : item.end]
        return reindent(text.lstrip(), self._indent, indent)

    def _comment_lines(self, item_number: int, indent: str) -> list[str]:
        """Returns the comment lines in front of a statement."""
        comment = self._comment_before_item.get(item_number, "").strip("\n \t")
        return [f"{indent}{line.strip()}" if line.strip() else "" for line in comment.split("\n")] if comment else []

    def _begin_lines(self, code: Begin, indent: str) -> list[str]:
        """Returns the lines that begin an MPI call without completing it."""
        call = self._call_of_step(code.step)
        begin_calls = [
            self._nonblocking_calls(one, code.first_request + number)
            for number, one in self._calls_with_request_numbers(call)
        ]
        if call.is_single_blocking_call:
            return [f"{indent}{line}" for line in begin_calls[0]]
        text, previous_end = "", call.pragma_offset
        for one, lines in zip(call.blocking_calls, begin_calls, strict=True):
            text += self._text[previous_end : one.start]
            separator = "\n" + indent_at(self._text, one.start)
            text += separator.join(lines) if one.is_in_block or len(lines) == 1 else f"{{ {' '.join(lines)} }}"
            previous_end = one.end
        text += self._text[previous_end : call.end]
        return [reindent(text.lstrip(), self._indent, indent)]

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

    def _call_of_step(self, step: CallStep | ChunkLoop) -> CommunicationStatement:
        """Returns the MPI call that a step executes. Raises NotExpressible if the call cannot be split into begin and
        completion."""
        call = self._model.region.items[step.call_number]
        assert isinstance(call, CommunicationStatement)
        if call.unsplittable_reason:
            raise NotExpressible(call.unsplittable_reason)
        return call
