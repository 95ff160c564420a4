"""Proves a text with persistent requests again, from the text alone: reads it with libclang, finds the calls that
create, start, complete and free each request, and checks all rules for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearfield.base.errors import UsageError
from nearfield.rewrite.analysis.communication import split_arguments
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.check.translation import NotEquivalent
from nearfield.rewrite.frontend.callee_lookup import Others, ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, Node, TranslationUnit
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.text import has_same_tokens
from nearfield.rewrite.placement.fixed_values import FixedValues
from nearfield.rewrite.placement.loop_exits import check_loop
from nearfield.rewrite.placement.persistent import Edit, FixedMessage, PersistentLoop, guard_condition, guard_texts
from nearfield.rewrite.placement.request_pairs import RequestPairs, guards_between

_GuardedCall = tuple[str, Node]  # the condition of a call, '' if there is none, and the call


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

    def __init__(self, unit: TranslationUnit, original: str, others: Others, placed: PersistentLoop) -> None:
        self._unit, self._original, self._others, self._placed = unit, original, others, placed

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
        edits = placed.edits
        start, behind = places[0], places[-1]
        at = start + len(edits[0].text)
        function, loop = self._find_loop(unit, functions, at)
        check_loop(loop, function, functions, unit)
        block = function.parent(loop)
        assert block is not None
        number = next(n for n, one in enumerate(block.children) if one is loop)
        first = next(n for n, one in enumerate(block.children) if one.offset >= start)
        before = block.children[first:number]
        after = [one for one in block.children[number + 1 :] if one.offset < behind + len(edits[-1].text)]
        declared = [one for one in before if one.kind == Kind.DECL_STMT]
        if before[: len(declared)] != declared or len(declared) != len(placed.moved) + bool(placed.declared):
            raise NotEquivalent("a declaration of requests is not found in the new code")
        self._check_declarations(unit, declared)
        created = list(self._calls_of(before[len(declared) :]))
        freed = list(self._calls_of(after))
        wanted = [(guard_condition(m.guards), name, list(words)) for m in placed.messages for name, words in m.creates]
        if [(test, call.name, split_arguments(call)) for test, call in created] != wanted:
            raise NotEquivalent("the calls that create the requests are not those of the messages")
        wanted = [(guard_condition(m.guards), "MPI_Request_free", [one]) for m in placed.messages for one in m.requests]
        if [(test, call.name, split_arguments(call)) for test, call in freed] != wanted:
            raise NotEquivalent("not each request that is created is freed")
        own = frozenset(call.offset for _, call in (*created, *freed))
        self._check_messages(function, loop, FixedValues(functions, function, loop), own, created, places)

    def _find_loop(self, unit: TranslationUnit, functions: ProgramFunctions, offset: int) -> tuple[FunctionFacts, Node]:
        """Returns the function and the loop at an offset of the new text. Raises NotEquivalent if there is none."""
        for node in unit.functions:
            if node.name == self._placed.function and node.offset < offset < node.end:
                function = functions.function_of(node)
                for one in function.body.walk() if function.body is not None else ():
                    if one.kind in LOOPS and one.offset == offset:
                        return function, one
        raise NotEquivalent("the loop is not found in the new code")

    def _check_declarations(self, unit: TranslationUnit, declared: Sequence[Node]) -> None:
        """Raises NotEquivalent unless the declarations in front of the loop are those that stood in it, and that of the
        new requests."""
        texts = [unit.text[one.offset : unit.statement_end(one)] for one in declared]
        wanted = [self._original[start:end] for start, end in self._placed.moved]
        if self._placed.declared:
            wanted.append(f"MPI_Request {self._placed.array}[{self._placed.declared}];")
        if not all(map(has_same_tokens, texts, wanted)):
            raise NotEquivalent("a declaration of requests is another one in the new code")
        for node in (child for one in declared for child in one.children):
            values = [child for child in node.children if child.kind == Kind.CALL_EXPR]
            if not node.cursor.type.spelling.startswith("MPI_Request") or values:
                raise NotEquivalent(f"the declaration of {node.name} may not stand in front of the loop")

    @staticmethod
    def _calls_of(statements: Sequence[Node]) -> Iterator[_GuardedCall]:
        """Yields the calls of statements, each with its condition. Raises NotEquivalent for any other statement."""
        for statement in statements:
            test, body = "", [statement]
            if statement.kind == Kind.IF_STMT and len(statement.children) == 2:
                condition, branch = statement.children
                text = statement.unit.text
                test = text[text.index("(", statement.offset) + 1 : branch.offset].rstrip(" \t\r\n{")[:-1]
                body = branch.children if branch.kind == Kind.COMPOUND_STMT else [branch]
            for one in body:
                if one.kind != Kind.CALL_EXPR:
                    raise NotEquivalent("a statement is not expected beside the loop")
                yield test, one

    def _check_messages(
        self, function: FunctionFacts, loop: Node, fixed: FixedValues, own: frozenset[int],
        created: Sequence[_GuardedCall], places: Sequence[int],
    ) -> None:  # fmt: skip
        """Raises NotEquivalent or NotMovable unless each message starts the requests that were created for it, with
        arguments that are fixed in the loop, and each request is inactive whenever it is started and freed."""
        pairs, rest = RequestPairs(function, loop, fixed, own), list(created)
        skipped = 1 + len(self._placed.moved)
        spans = [(place, place + len(edit.text)) for place, edit in zip(places, self._placed.edits, strict=True)]
        for message, (first, last) in zip(self._placed.messages, spans[skipped:-1], strict=True):
            starts = [c for c in function.calls if first <= c.offset < last and c.name.startswith("MPI_Start")]
            start = min(starts, key=lambda call: call.offset, default=None)
            count = len(message.requests)
            words = [message.requests[0]] if count == 1 else ["2", message.requests[0]]
            if start is None or start.name != ("MPI_Start" if count == 1 else "MPI_Startall"):
                raise NotEquivalent("a message is not started in the new code")
            if split_arguments(start) != words:
                raise NotEquivalent("another request is started in the new code")
            guards = guards_between(start, loop, function)
            if guard_texts(guards) != message.guards:
                raise NotEquivalent("a message is started under another condition than its request is created")
            for guard in guards:
                fixed.require_fixed(guard.test)
            for _, call in rest[:count]:
                for argument in call.arguments[:-1]:
                    fixed.require_fixed(argument)
            rest = rest[count:]
            pairs.check_request(start, start.arguments[-1], count)
            if message.is_blocking:
                self._check_wait(function, message, start)

    @staticmethod
    def _check_wait(function: FunctionFacts, message: FixedMessage, start: Node) -> None:
        """Raises NotEquivalent unless the statement behind the start of a blocking message waits for it."""
        block = function.parent(start)
        following = [one for one in block.children if one.offset > start.offset] if block is not None else []
        name, words = "MPI_Wait", [message.requests[0], message.status]
        if len(message.requests) > 1:
            name, words = "MPI_Waitall", ["2", message.requests[0], "MPI_STATUSES_IGNORE"]
        wait = following[0] if following else None
        if wait is None or wait.kind != Kind.CALL_EXPR or wait.name != name or split_arguments(wait) != words:
            raise NotEquivalent("a blocking message is not waited for in the new code")
