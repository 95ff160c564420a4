"""Reads a statement as an item of a region: a loop nest, or a call that communicates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nearfield.rewrite.analysis.accesses import OUTPUT_STREAM
from nearfield.rewrite.analysis.blocking import find_blocking_calls, unsplittable_reason
from nearfield.rewrite.analysis.communication import CommunicationCollector
from nearfield.rewrite.analysis.completion import PostedMessage
from nearfield.rewrite.analysis.directives import PRAGMA, check_directives_inside, pragmas_above
from nearfield.rewrite.analysis.expressions import ExpressionReader
from nearfield.rewrite.analysis.loop_bounds import canonical_loop, induction_variable_key, secondary_induction_variables
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import (
    NONBLOCKING_EQUIVALENTS,
    Access,
    BlockingCall,
    CommunicationStatement,
    Loop,
    LoopNest,
    NotMovable,
    RegionItem,
)
from nearfield.rewrite.analysis.requests import is_plain_wait
from nearfield.rewrite.frontend.call_arguments import sendrecv_arguments, split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.language import may_split_loop
from nearfield.rewrite.frontend.text import skip_blank, statement_end

_NestedLoops = list[tuple[Loop, SyntaxNode]]  # loops of a nest, the outermost first, each with its statement


@dataclass
class StatementReader:
    """Reads consecutive statements of a block, each of which may be moved. A statement is read with the symbols and the
    messages in flight of the statements before it, so that a statement that cannot be moved needs a new reader behind
    it. `split_depth` is the number of nested loops that may be split."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    split_depth: int
    expressions: ExpressionReader
    posted_messages: list[PostedMessage] = field(default_factory=list)  # messages in flight
    first_item: RegionItem | None = None

    def read_item(self, statement: SyntaxNode, next_offset: int) -> RegionItem:
        """Returns a statement as a loop nest or, if it communicates, as a call. `next_offset` is the source offset of
        the next statement. Raises NotMovable if nothing can be moved across the statement."""
        if statement.kind == Kind.DECL_STMT:
            raise NotMovable("a variable is declared", statement.line)
        end = self._statement_end(statement, next_offset)
        check_directives_inside(self.unit, statement, end)
        pragma_offset, pragmas = pragmas_above(self.unit, statement)
        is_indivisible = not all(map(may_split_loop, pragmas))
        loops, body = ([], statement) if is_indivisible else self._peel_loops(statement)
        collector = self._collect_accesses(statement, end, loops, body)
        item: RegionItem
        if collector.call_names:
            item = self._make_communication(statement, end, pragma_offset, [loop for loop, _ in loops], collector)
            self.posted_messages = collector.posted_messages
        else:
            item = self._make_nest(statement, end, pragma_offset, pragmas, loops, body, collector)
        self.first_item = self.first_item or item
        return item

    def _collect_accesses(
        self, statement: SyntaxNode, end: int, loops: _NestedLoops, body: SyntaxNode
    ) -> CommunicationCollector:
        """Returns the collector with all accesses and messages of a statement, which consists of `loops` and `body`."""
        expressions = self.expressions
        collector = CommunicationCollector(
            expressions,
            self.functions,
            posted_messages=list(self.posted_messages),
            region_start=self.first_item.start if self.first_item else statement.offset,
            statement_end=end,
        )
        for loop, node in loops:
            collector.add_header_reads(node)
            collector.make_iterator_private(node, induction_variable_key(node), loop)
            expressions.value_by_declaration[induction_variable_key(node)] = Polynomial.from_symbol(loop.iterator.key)
        try:
            collector.collect_accesses(body)
        finally:
            expressions.value_by_declaration.clear()
        return collector

    def _make_nest(
        self,
        statement: SyntaxNode,
        end: int,
        pragma_offset: int,
        pragmas: tuple[str, ...],
        loops: _NestedLoops,
        body: SyntaxNode,
        collector: CommunicationCollector,
    ) -> LoopNest:
        """Returns a statement without communication as a loop nest. Raises NotMovable if the effects of the statement
        are unknown, or if a pragma stands between the loops."""
        may_be_empty = statement.kind in (Kind.FOR_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT)
        if not collector.accesses and not loops and not may_be_empty:
            raise NotMovable("its effects are not known", statement.line)
        start, begin = statement.offset, skip_blank(self.unit.text, body.offset)
        if loops and PRAGMA.search(self.unit.text[start:begin]):
            raise NotMovable("a pragma stands between its loops", statement.line)
        nest_loops = [replace(loop, pragmas=() if n else pragmas) for n, (loop, _) in enumerate(loops)]
        body_span = begin, statement_end(self.unit.text, begin)
        return LoopNest(
            nest_loops, collector.accesses, start, end, body_span, statement.line, pragma_offset,
            collector.outer_iterators,
        )  # fmt: skip

    def _make_communication(
        self, statement: SyntaxNode, end: int, pragma_offset: int, loops: list[Loop], collector: CommunicationCollector
    ) -> CommunicationStatement:
        """Returns a statement that communicates, inside `loops`, as an item that is moved as a whole."""
        accesses = [replace(one, loops=(*loops, *one.loops)) for one in collector.accesses]
        call = statement.without_casts
        is_sendrecv = call.kind == Kind.CALL_EXPR and call.name == "MPI_Sendrecv"
        blocking_calls, reason = self._find_blocking_calls(statement, collector)
        return CommunicationStatement(
            statement.offset,
            end,
            statement.line,
            ", ".join(dict.fromkeys(collector.call_names)),
            [*accesses, Access(OUTPUT_STREAM, (), False, statement.line)],
            collector.messages,
            collector.begins_messages,
            collector.completes_messages,
            pragma_offset,
            collector.outer_iterators,
            sendrecv_arguments=sendrecv_arguments(call) if is_sendrecv else {},
            blocking_calls=blocking_calls,
            is_plain_wait=is_plain_wait(statement, self.function),
            unsplittable_reason=reason,
        )

    def _find_blocking_calls(
        self, statement: SyntaxNode, collector: CommunicationCollector
    ) -> tuple[list[BlockingCall], str]:
        """Returns the blocking MPI calls of a statement if their begin and completion could be separated, and the
        reason why they must not be; '' if there is none."""
        calls = find_blocking_calls(statement, self.functions.communicates) or []
        numbers_by_call = collector.access_numbers_by_call
        if any(part.offset not in numbers_by_call or self.unit.is_macro_use(part.offset) for part, _ in calls):
            return [], ""
        reason = next((why for part, _ in calls if (why := unsplittable_reason(part.without_casts, self.function))), "")
        if any(
            len(numbers_by_call[part.offset]) < len(NONBLOCKING_EQUIVALENTS[part.without_casts.name])
            for part, _ in calls
        ):
            reason = "a message is of a variable that its block declares, and that ends with it"
        blocking_calls = [
            BlockingCall(
                part.without_casts.name,
                tuple(split_arguments(part.without_casts)),
                part.offset,
                self.unit.statement_end(part),
                numbers_by_call[part.offset],
                is_in_block,
            )
            for part, is_in_block in calls
        ]
        return blocking_calls, reason

    def _statement_end(self, statement: SyntaxNode, next_offset: int) -> int:
        """Returns the source offset at which a statement ends. Raises NotMovable if a macro hides the end."""
        end = self.unit.statement_end(statement)
        if end > next_offset or (self.unit.is_macro_use(statement.offset) and end < statement.end):
            raise NotMovable("a macro hides where it ends", statement.line)
        return end

    def _peel_loops(self, node: SyntaxNode) -> tuple[_NestedLoops, SyntaxNode]:
        """Returns the canonical loops around the innermost part of a loop nest, at most `split_depth`, and the
        innermost part."""
        loops: _NestedLoops = []
        expressions = self.expressions
        outer_values = dict(expressions.value_by_declaration)
        while len(loops) < self.split_depth and node.kind == Kind.FOR_STMT:
            loop = canonical_loop(node, expressions)
            if isinstance(loop, str) or secondary_induction_variables(node):
                break
            loops.append((loop, node))
            expressions.value_by_declaration[induction_variable_key(node)] = Polynomial.from_symbol(loop.iterator.key)
            node = node.children[-1]
            if node.kind == Kind.COMPOUND_STMT and len(node.children) == 1 and len(loops) < self.split_depth:
                inner = node.children[0]
                is_canonical = inner.kind == Kind.FOR_STMT and not isinstance(canonical_loop(inner, expressions), str)
                if is_canonical and not secondary_induction_variables(inner):
                    node = inner
        expressions.value_by_declaration = outer_values
        return loops, node
