"""Proves the rewritten text with persistent requests independently of the code that wrote it: reads it with libclang,
finds the calls that create, start, complete and free each request, and checks all rules for them."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.analysis.requests import is_request_variable
from nearfield.rewrite.check.translation import NotEquivalent
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts
from nearfield.rewrite.frontend.text import has_same_tokens
from nearfield.rewrite.placement.fixed_values import LoopInvarianceChecker
from nearfield.rewrite.placement.loop_exits import check_loop_exits
from nearfield.rewrite.placement.persistent import (
    PersistentLoop,
    PersistentMessage,
    TextEdit,
    statements_before,
    statements_behind,
)
from nearfield.rewrite.placement.request_pairs import WaitMatcher


def apply_edits(text: str, edits: Sequence[TextEdit]) -> tuple[str, list[int]]:
    """Returns a text with edits, which must not overlap, and the offset of each edit in it."""
    edit_order = sorted(range(len(edits)), key=lambda number: (edits[number].start, edits[number].end))
    new_text, previous_end, edit_offsets = "", 0, dict[int, int]()
    for number in edit_order:
        edit = edits[number]
        new_text += text[previous_end : edit.start]
        edit_offsets[number] = len(new_text)
        new_text += edit.text
        previous_end = edit.end
    return new_text + text[previous_end:], [edit_offsets[number] for number in range(len(edits))]


class PersistentProof:
    """Proves the text in which the messages of one loop have persistent requests."""

    def __init__(self, functions: ProgramFunctions, persistent_loop: PersistentLoop) -> None:
        self._unit, self._original, self._persistent_loop = functions.unit, functions.unit.text, persistent_loop
        self._other_files = functions.other_files

    def prove(self) -> str:
        """Returns the new text. Raises NotEquivalent if a rule does not hold for it."""
        text, edit_offsets = apply_edits(self._original, self._persistent_loop.edits)
        if not self._is_undone_by_edits(text, edit_offsets):
            raise NotEquivalent("more than the messages of the loop has changed")
        try:
            unit = self._unit.parse_second_text(text)
        except UsageError as error:
            raise NotEquivalent(f"the new code does not compile: {error.message}") from error
        try:
            self._check_text(unit, text, edit_offsets)
        except NotMovable as why:
            raise NotEquivalent(f"{why.reason} (line {why.line} of the new text)") from why
        return text

    def _is_undone_by_edits(self, text: str, edit_offsets: Sequence[int]) -> bool:
        """Returns whether the new text is the original one but for the edits."""
        edits = self._persistent_loop.edits
        restored_text = text
        for edit_offset, edit in sorted(
            zip(edit_offsets, edits, strict=True), key=lambda one: one[1].start, reverse=True
        ):
            restored_text = (
                restored_text[:edit_offset]
                + self._original[edit.start : edit.end]
                + restored_text[edit_offset + len(edit.text) :]
            )
        return restored_text == self._original

    def _check_text(self, unit: TranslationUnit, text: str, edit_offsets: Sequence[int]) -> None:
        """Raises NotEquivalent or NotMovable if a rule does not hold for the new text."""
        persistent_loop, functions = self._persistent_loop, ProgramFunctions(unit, self._other_files)
        spans = [
            (place, place + len(edit.text)) for place, edit in zip(edit_offsets, persistent_loop.edits, strict=True)
        ]
        function, loop = self._find_loop(unit, functions, spans[0][1])
        check_loop_exits(loop, function, functions, unit)
        block = function.parent_of(loop)
        assert block is not None
        statements_in_front = [one for one in block.children if spans[0][0] <= one.offset < loop.offset]
        following_statements = [one for one in block.children if loop.offset < one.offset < spans[-1][1]]
        self._check_statements(unit, statements_in_front, statements_before(persistent_loop, self._original))
        self._check_statements(unit, following_statements, statements_behind(persistent_loop))
        if len(set(persistent_loop.requests)) != len(persistent_loop.requests):
            raise NotEquivalent("two messages have the same request")
        patch_spans = [spans[0], *spans[1 + len(persistent_loop.moved_declaration_spans) :]]
        wait_matcher, invariance = WaitMatcher(function, loop, patch_spans), LoopInvarianceChecker(function, loop)
        for message, span in zip(persistent_loop.messages, patch_spans[1:-1], strict=True):
            self._check_message(function, message, span, wait_matcher, invariance)

    def _find_loop(
        self, unit: TranslationUnit, functions: ProgramFunctions, offset: int
    ) -> tuple[FunctionFacts, SyntaxNode]:
        """Returns the function and the loop at an offset of the new text. Raises NotEquivalent if there is none."""
        for node in unit.functions:
            if node.name == self._persistent_loop.function and node.offset < offset < node.end:
                function = functions.function_of(node)
                for one in function.body.walk() if function.body is not None else ():
                    if one.kind in LOOP_KINDS and one.offset == offset:
                        return function, one
        raise NotEquivalent("the loop is not found in the new code")

    def _check_statements(
        self, unit: TranslationUnit, statements: Sequence[SyntaxNode], expected_texts: Sequence[str]
    ) -> None:
        """Raises NotEquivalent unless statements of the new code are the expected ones, and declare nothing but
        requests of the loop, without initial values."""
        texts = [unit.text[one.offset : unit.statement_end(one)] for one in statements]
        if len(texts) != len(expected_texts) or not all(map(has_same_tokens, texts, expected_texts)):
            raise NotEquivalent("the statements beside the loop are not those that declare, set and free requests")
        for node in (child for one in statements if one.kind == Kind.DECL_STMT for child in one.children):
            elements = node.type.element_count if node.type.kind in ARRAY_TYPES else 0
            request_texts = [f"{node.name}[{one}]" for one in range(elements)] or [node.name]
            if not is_request_variable(node) or not set(request_texts) <= set(self._persistent_loop.requests):
                raise NotEquivalent(f"the declaration of {node.name} may not stand in front of the loop")

    @staticmethod
    def _check_message(
        function: FunctionFacts,
        message: PersistentMessage,
        span: tuple[int, int],
        wait_matcher: WaitMatcher,
        invariance: LoopInvarianceChecker,
    ) -> None:
        """Raises NotEquivalent or NotMovable unless the new code of a message creates its requests if they are not
        made yet, with arguments that are fixed in the loop, starts them, and waits for them if its call waited."""
        calls = sorted((one for one in function.calls if span[0] <= one.offset < span[1]), key=lambda one: one.offset)
        expected_calls = [*message.init_calls, *message.start_calls]
        if [(one.name, tuple(split_arguments(one))) for one in calls] != expected_calls:
            raise NotEquivalent("the calls that create and start a request are not those of its message")
        created, started = calls[: len(message.init_calls)], calls[len(message.init_calls) :]
        block = function.parent_of(started[0])
        statements = [one for one in block.children if span[0] <= one.offset < span[1]] if block is not None else []
        if block is None or block.kind != Kind.COMPOUND_STMT or statements[1:] != started:
            raise NotEquivalent("a message is not started in the new code")
        test = statements[0]
        if_parts = test.children if test.kind == Kind.IF_STMT else []
        creating_statements = (
            if_parts[1].children if len(if_parts) == 2 and if_parts[1].kind == Kind.COMPOUND_STMT else if_parts[1:]
        )
        if len(if_parts) != 2 or list(creating_statements) != created:
            raise NotEquivalent("a request is created by other calls")
        condition = f"if ({message.requests[0]} == MPI_REQUEST_NULL)"
        start = test.unit.text[test.offset : if_parts[1].offset]
        if not has_same_tokens(start, condition):
            raise NotEquivalent("a request is created under another condition")
        for call in created:
            for argument in call.arguments[:-1]:
                invariance.require_invariant(argument)
        wait_matcher.check_request(started[0], len(message.requests))
