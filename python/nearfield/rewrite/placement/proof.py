"""Proves a text with persistent requests again, from the text alone: reads it with libclang, finds the calls that
create, start, complete and free each request, and checks all rules for them."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.analysis.requests import is_requests
from nearfield.rewrite.check.translation import NotEquivalent
from nearfield.rewrite.frontend.call_arguments import split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.text import has_same_tokens
from nearfield.rewrite.placement.fixed_values import FixedValues
from nearfield.rewrite.placement.loop_exits import check_loop
from nearfield.rewrite.placement.persistent import (
    Edit,
    FixedMessage,
    PersistentLoop,
    statements_before,
    statements_behind,
)
from nearfield.rewrite.placement.request_pairs import RequestPairs


def apply_edits(text: str, edits: Sequence[Edit]) -> tuple[str, list[int]]:
    """Returns a text with edits, which must not overlap, and the offset of each edit in it."""
    order = sorted(range(len(edits)), key=lambda number: (edits[number].start, edits[number].end))
    made, last, places = "", 0, dict[int, int]()
    for number in order:
        edit = edits[number]
        made += text[last : edit.start]
        places[number] = len(made)
        made += edit.text
        last = edit.end
    return made + text[last:], [places[number] for number in range(len(edits))]


class PersistentProof:
    """Proves the text in which the messages of one loop have persistent requests."""

    def __init__(self, functions: ProgramFunctions, placed: PersistentLoop) -> None:
        self._unit, self._original, self._placed = functions.unit, functions.unit.text, placed
        self._others = functions.others

    def prove(self) -> str:
        """Returns the new text. Raises NotEquivalent if a rule does not hold for it."""
        text, places = apply_edits(self._original, self._placed.edits)
        if not self._is_undone_by_edits(text, places):
            raise NotEquivalent("more than the messages of the loop has changed")
        try:
            unit = self._unit.parse_second_text(text)
        except UsageError as error:
            raise NotEquivalent(f"the new code does not compile: {error.message}") from error
        try:
            self._check_text(unit, text, places)
        except NotMovable as why:
            raise NotEquivalent(f"{why.reason} (line {why.line} of the new text)") from why
        return text

    def _is_undone_by_edits(self, text: str, places: Sequence[int]) -> bool:
        """Returns whether the new text is the original one but for the edits."""
        edits = self._placed.edits
        undone = text
        for place, edit in sorted(zip(places, edits, strict=True), key=lambda one: one[1].start, reverse=True):
            undone = undone[:place] + self._original[edit.start : edit.end] + undone[place + len(edit.text) :]
        return undone == self._original

    def _check_text(self, unit: TranslationUnit, text: str, places: Sequence[int]) -> None:
        """Raises NotEquivalent or NotMovable if a rule does not hold for the new text."""
        placed, functions = self._placed, ProgramFunctions(unit, self._others)
        spans = [(place, place + len(edit.text)) for place, edit in zip(places, placed.edits, strict=True)]
        function, loop = self._find_loop(unit, functions, spans[0][1])
        check_loop(loop, function, functions, unit)
        block = function.parent(loop)
        assert block is not None
        before = [one for one in block.children if spans[0][0] <= one.offset < loop.offset]
        behind = [one for one in block.children if loop.offset < one.offset < spans[-1][1]]
        self._check_statements(unit, before, statements_before(placed, self._original))
        self._check_statements(unit, behind, statements_behind(placed))
        if len(set(placed.requests)) != len(placed.requests):
            raise NotEquivalent("two messages have the same request")
        own = [spans[0], *spans[1 + len(placed.moved) :]]
        pairs, fixed = RequestPairs(function, loop, own), FixedValues(function, loop)
        for message, span in zip(placed.messages, own[1:-1], strict=True):
            self._check_message(function, message, span, pairs, fixed)

    def _find_loop(self, unit: TranslationUnit, functions: ProgramFunctions, offset: int) -> tuple[FunctionFacts, Node]:
        """Returns the function and the loop at an offset of the new text. Raises NotEquivalent if there is none."""
        for node in unit.functions:
            if node.name == self._placed.function and node.offset < offset < node.end:
                function = functions.function_of(node)
                for one in function.body.walk() if function.body is not None else ():
                    if one.kind in LOOPS and one.offset == offset:
                        return function, one
        raise NotEquivalent("the loop is not found in the new code")

    def _check_statements(self, unit: TranslationUnit, found: Sequence[Node], wanted: Sequence[str]) -> None:
        """Raises NotEquivalent unless statements of the new code are the wanted ones, and what they declare has no
        initial value that a later iteration of the loop would need again."""
        texts = [unit.text[one.offset : unit.statement_end(one)] for one in found]
        if len(texts) != len(wanted) or not all(map(has_same_tokens, texts, wanted)):
            raise NotEquivalent("the statements beside the loop are not those that declare, set and free requests")
        for node in (child for one in found if one.kind == Kind.DECL_STMT for child in one.children):
            elements = node.type.element_count if node.type.kind in ARRAYS else 0
            own = [f"{node.name}[{one}]" for one in range(elements)] or [node.name]
            if not is_requests(node) or not set(own) <= set(self._placed.requests):
                raise NotEquivalent(f"the declaration of {node.name} may not stand in front of the loop")

    @staticmethod
    def _check_message(
        function: FunctionFacts, message: FixedMessage, span: tuple[int, int], pairs: RequestPairs, fixed: FixedValues
    ) -> None:
        """Raises NotEquivalent or NotMovable unless the new code of a message creates its requests if they are not
        made yet, with arguments that are fixed in the loop, starts them, and waits for them if its call waited."""
        calls = sorted((one for one in function.calls if span[0] <= one.offset < span[1]), key=lambda one: one.offset)
        wanted = [*message.creates, *message.starts]
        if [(one.name, tuple(split_arguments(one))) for one in calls] != wanted:
            raise NotEquivalent("the calls that create and start a request are not those of its message")
        created, started = calls[: len(message.creates)], calls[len(message.creates) :]
        block = function.parent(started[0])
        inside = [one for one in block.children if span[0] <= one.offset < span[1]] if block is not None else []
        if block is None or block.kind != Kind.COMPOUND_STMT or inside[1:] != started:
            raise NotEquivalent("a message is not started in the new code")
        test = inside[0]
        parts = test.children if test.kind == Kind.IF_STMT else []
        made = parts[1].children if len(parts) == 2 and parts[1].kind == Kind.COMPOUND_STMT else parts[1:]
        if len(parts) != 2 or list(made) != created:
            raise NotEquivalent("a request is created by other calls")
        condition = f"if ({message.requests[0]} == MPI_REQUEST_NULL)"
        start = test.unit.text[test.offset : parts[1].offset]
        if not has_same_tokens(start, condition):
            raise NotEquivalent("a request is created under another condition")
        for call in created:
            for argument in call.arguments[:-1]:
                fixed.require_fixed(argument)
        pairs.check_request(started[0], len(message.requests))
