"""Finds regions: consecutive statements of a block that either communicate or are loop nests that may be moved. Any
other statement ends a region, and the reason is recorded in `missed`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from nearfield.rewrite.analysis.accesses import OUTPUT_STREAM
from nearfield.rewrite.analysis.blocking import find_blocking_calls, has_wildcard_receives, unsplittable_reason
from nearfield.rewrite.analysis.communication import (
    CommunicationCollector,
    PostedMessage,
)
from nearfield.rewrite.analysis.conditions import is_branch_never_taken
from nearfield.rewrite.analysis.directives import (
    PRAGMA,
    check_directives_before,
    check_directives_inside,
    pragmas_above,
)
from nearfield.rewrite.analysis.expressions import KINDS_WITHOUT_READS, ExpressionReader
from nearfield.rewrite.analysis.loop_bounds import canonical_loop, induction_variable_key, secondary_induction_variables
from nearfield.rewrite.analysis.modified_symbols import remove_modified_symbols
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import (
    NONBLOCKING_EQUIVALENTS,
    Access,
    BlockingCall,
    CommunicationStatement,
    Loop,
    LoopNest,
    MissedOptimization,
    NotMovable,
    Region,
    RegionItem,
)
from nearfield.rewrite.analysis.requests import is_plain_wait
from nearfield.rewrite.analysis.scalars import privatize_scalars, replace_members_by_structures
from nearfield.rewrite.analysis.shadowing import check_shadowed_names
from nearfield.rewrite.frontend.call_arguments import sendrecv_arguments, split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBER_TYPES
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts
from nearfield.rewrite.frontend.language import (
    has_if_initialization,
    may_split_loop,
)
from nearfield.rewrite.frontend.text import identifiers_in, line_number_of, skip_blank, statement_end

MAX_REGION_ITEMS = 40  # maximum number of statements of a region
NUM_CONTEXT_ITEMS = 8  # statements that a longer region keeps before its first and after its last call
_BLOCK_KINDS = (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT)
_INVARIANT_KINDS = (*KINDS_WITHOUT_READS, Kind.TYPE_REF, Kind.INIT_LIST_EXPR)
_ALONE_REASON = "nothing in its block could be done before or after it"


@dataclass
class RegionFinder:
    """Finds the regions of one function. `split_depth` is the number of nested loops whose iterations may be split into
    several loops; code inside the innermost of these is copied verbatim."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    split_depth: int
    replaces_constants: bool = False
    missed: list[MissedOptimization] = field(default_factory=list)

    def find_regions(self) -> Iterator[Region]:
        """Yields the regions of the function, those of inner blocks first."""
        if self.function.body is not None:
            yield from self._regions_of_block(self.function.body)

    def _regions_of_block(self, block: SyntaxNode) -> Iterator[Region]:
        """Yields the regions of a block of statements and of the blocks inside it."""
        items: list[RegionItem] = []
        expressions = self._new_expression_reader()
        posted_messages: list[PostedMessage] = []
        declaration_spans: list[tuple[int, int]] = []
        previous_barrier: NotMovable | None = None
        near_statements = self._statements_near_calls(block)
        next_offsets = [*(statement.offset for statement in block.children[1:]), block.end]
        statement_starts = [block.offset + 1, *(statement.end for statement in block.children)]
        for number, (statement, next_offset) in enumerate(zip(block.children, next_offsets, strict=False)):
            num_refusals = len(self.missed)
            inner = list(self._regions_inside(statement)) if statement.kind in _BLOCK_KINDS else []
            yield from inner
            try:
                if number not in near_statements:
                    raise NotMovable("it is far from the communication", statement.line)
                if inner and statement.kind in LOOP_KINDS:
                    raise NotMovable("a loop with communication of its own", statement.line)
                check_directives_before(self.unit, statement_starts[number], statement, any_directive=bool(items))
                if (
                    items
                    and statement.kind == Kind.DECL_STMT
                    and self._can_be_hoisted(statement, block, items[0].pragma_offset)
                ):
                    declaration_spans.append((statement.offset, self.unit.statement_end(statement)))
                    continue
                region_start = items[0].start if items else statement.offset
                items.append(self._make_item(statement, next_offset, expressions, posted_messages, region_start))
                if not inner and statement.kind not in LOOP_KINDS:
                    del self.missed[num_refusals:]  # reasons inside a block that is moved as a whole do not matter
            except NotMovable as barrier:
                if not inner and len(self.missed) == num_refusals and self._has_message_call(statement):
                    self._record_refusal(
                        statement.line, self._reason_with_line(barrier, statement.line), barrier.assumption
                    )
                yield from self._make_regions(
                    items, declaration_spans, expressions, posted_messages, previous_barrier, barrier
                )
                items, declaration_spans, posted_messages, expressions, previous_barrier = (
                    [],
                    [],
                    [],
                    self._new_expression_reader(),
                    barrier,
                )
        yield from self._make_regions(items, declaration_spans, expressions, posted_messages, previous_barrier, None)

    def _can_be_hoisted(self, statement: SyntaxNode, block: SyntaxNode, start: int) -> bool:
        """Returns whether a declaration statement can be hoisted to the offset `start`: the statements in between do
        not use the variables, and the initial values are invariant."""
        if self.unit.is_macro_use(statement.offset) or self.function.contains_label(block):
            return False
        earlier_names = identifiers_in(self.unit.text[start : statement.offset])
        earlier_names |= {
            word for name in earlier_names & self.unit.macros.keys() for word in identifiers_in(self.unit.macros[name])
        }
        for one in statement.children:
            element_type = one.type
            while element_type.kind in ARRAY_TYPES:
                element_type = element_type.element_type.get_canonical()
            is_plain = element_type.kind in (*NUMBER_TYPES, TypeKind.POINTER) or element_type.spelling.startswith(
                "MPI_"
            )
            if (
                one.kind != Kind.VAR_DECL
                or not is_plain
                or element_type.is_volatile_qualified()
                or one.name in earlier_names
            ):
                return False
            if one.cursor.storage_class.name in ("STATIC", "EXTERN") or not all(
                map(self._is_invariant_value, one.children)
            ):
                return False
        return True

    def _is_invariant_value(self, value: SyntaxNode) -> bool:
        """Returns whether an expression has the same value everywhere in the function."""
        for node in value.walk():
            if node.kind == Kind.DECL_REF_EXPR:
                declaration = node.declaration
                if (
                    declaration is None
                    or node.constant_value is None
                    and not self.function.is_never_changed(declaration.key)
                ):
                    return False
            elif node.kind not in _INVARIANT_KINDS and node.operator not in ("+", "-", "*", "/", "%"):
                return False
        return True

    def _has_message_call(self, statement: SyntaxNode) -> bool:
        return any(
            statement.offset <= call.offset < statement.end and self.functions.communicates(call)
            for call in self.function.calls
        )

    @staticmethod
    def _reason_with_line(barrier: NotMovable, line: int) -> str:
        """Returns the reason why a statement cannot be moved, with the line number of the reason if it is not
        `line`."""
        return barrier.reason if barrier.line in (0, line) else f"{barrier.reason} (line {barrier.line})"

    def _statements_near_calls(self, block: SyntaxNode) -> set[int]:
        """Returns the numbers of the statements of a block that are close enough to a call to be in a region with the
        call."""
        near: set[int] = set()
        for number, statement in enumerate(block.children):
            if any(statement.offset <= place < statement.end for place in self._communicating_call_offsets):
                near.update(range(number - MAX_REGION_ITEMS // 2, number + MAX_REGION_ITEMS // 2))
        return near

    @functools.cached_property
    def _communicating_call_offsets(self) -> list[int]:
        """Returns the source offsets of calls that may communicate: calls of MPI and calls of functions whose
        definition is known."""
        calls = self.function.calls
        return [
            call.offset
            for call in calls
            if call.name.startswith(("MPI_", "PMPI_")) or self.functions.definition_of(call) is not None
        ]

    def _regions_inside(self, statement: SyntaxNode) -> Iterator[Region]:
        """Yields the regions of the blocks inside a statement, such as a loop body or the branches of an `if`."""
        if statement.kind == Kind.COMPOUND_STMT:
            yield from self._regions_of_block(statement)
        elif statement.kind == Kind.IF_STMT and not has_if_initialization(statement):
            for branch, is_true in zip(statement.children[1:], (True, False), strict=False):
                if not is_branch_never_taken(statement.children[0], is_true, self.function):
                    yield from self._regions_inside(branch)
        elif statement.kind in _BLOCK_KINDS:
            for child in statement.children:
                yield from self._regions_inside(child)

    def _new_expression_reader(self) -> ExpressionReader:
        return ExpressionReader(
            self.function, replaces_constants=self.replaces_constants, find_definition=self.functions.definition_of
        )

    def _make_regions(
        self,
        run_items: list[RegionItem],
        declaration_spans: list[tuple[int, int]],
        expressions: ExpressionReader,
        posted_messages: list[PostedMessage],
        barrier_before: NotMovable | None,
        barrier_after: NotMovable | None,
    ) -> Iterator[Region]:
        """Yields a run of consecutive statements as a region if it has both communication and loop nests to move. A
        statement of the run that cannot be moved splits the run in two. `barrier_before` and `barrier_after` are the
        reasons why the run ends on either side."""
        calls = [item for item in run_items if isinstance(item, CommunicationStatement)]
        if not any(call.messages for call in calls):
            return
        if len(run_items) > MAX_REGION_ITEMS:
            numbers = [number for number, item in enumerate(run_items) if isinstance(item, CommunicationStatement)]
            run_items = run_items[max(0, numbers[0] - NUM_CONTEXT_ITEMS) : numbers[-1] + NUM_CONTEXT_ITEMS + 1]
        if len(run_items) > MAX_REGION_ITEMS:
            self._record_refusal(
                calls[0].line, f"{len(run_items)} statements follow one another, which are too many to decide in time"
            )
            return
        items = [replace(item, accesses=list(item.accesses)) for item in run_items]
        if len([call for call in calls for _ in call.blocking_calls]) > 1 and has_wildcard_receives(self.functions):
            reason = "a rank that receives from any source could get a message that is begun with others too early"
            items = [
                replace(item, unsplittable_reason=item.unsplittable_reason or reason)
                if isinstance(item, CommunicationStatement)
                else item
                for item in items
            ]
        region = Region(self.function.name, items, expressions.symbols, calls[0].line, declaration_spans)
        region = region.subregion(items, region.line)
        try:
            replace_members_by_structures(region)
            writes = [access for item in region.items for access in item.accesses if access.is_write]
            privatize_scalars(region, self.function)
            remove_modified_symbols(region, writes)
            check_shadowed_names(region, self.function)
        except NotMovable as barrier:
            barrier_index = next(
                (n for n, item in enumerate(run_items) if self._item_spans_line(item, barrier.line)), None
            )
            if barrier_index is None or isinstance(run_items[barrier_index], CommunicationStatement):
                self._record_refusal(barrier.line, barrier.reason, barrier.assumption)
                return
            yield from self._make_regions(
                run_items[:barrier_index], declaration_spans, expressions, posted_messages, barrier_before, barrier
            )
            yield from self._make_regions(
                run_items[barrier_index + 1 :], declaration_spans, expressions, posted_messages, barrier, barrier_after
            )
            return
        if not any(access.base.dimension_sizes for nest in region.nests for access in nest.accesses):
            stops = [
                (side, stop)
                for side, stop in (("before", barrier_before), ("after", barrier_after))
                if stop is not None
            ]
            barrier_texts = "; ".join(f"{side} it, at line {stop.line}: {stop.reason}" for side, stop in stops)
            reason = f"what stands beside it may not be passed: {barrier_texts}" if barrier_texts else _ALONE_REASON
            self._record_refusal(
                calls[0].line, reason, next((stop.assumption for _, stop in stops if stop.assumption), "")
            )
            return
        yield region

    def _item_spans_line(self, item: RegionItem, line: int) -> bool:
        return line_number_of(self.unit.text, item.start) <= line <= line_number_of(self.unit.text, item.end)

    def _record_refusal(self, line: int, reason: str, assumption: str = "") -> None:
        missed = MissedOptimization(line, reason, self.function.name, assumption)
        if missed not in self.missed:
            self.missed.append(missed)

    # ---- a statement as an item of a region

    def _make_item(
        self,
        statement: SyntaxNode,
        next_offset: int,
        expressions: ExpressionReader,
        posted_messages: list[PostedMessage],
        region_start: int,
    ) -> RegionItem:
        """Returns a statement as a loop nest or, if it communicates, as a call. `next_offset` is the source offset of
        the next statement, `region_start` that of the first statement of the region. Raises NotMovable if nothing can
        be moved across the statement."""
        if statement.kind == Kind.DECL_STMT:
            raise NotMovable("a variable is declared", statement.line)
        text = self.unit.text
        end = self._statement_end(statement, next_offset)
        check_directives_inside(self.unit, statement, end)
        trial_messages = list(posted_messages)
        pragma_offset, pragmas = pragmas_above(self.unit, statement)
        is_indivisible = not all(map(may_split_loop, pragmas))
        loops, body = ([], statement) if is_indivisible else self._peel_loops(statement, expressions)
        collector = CommunicationCollector(
            expressions, self.functions, posted_messages=trial_messages, region_start=region_start, statement_end=end
        )
        for loop, node in loops:
            collector.add_header_reads(node)
            collector.make_iterator_private(node, induction_variable_key(node), loop)
            expressions.value_by_declaration[induction_variable_key(node)] = Polynomial.from_symbol(loop.iterator.key)
        try:
            collector.collect_accesses(body)
        finally:
            expressions.value_by_declaration.clear()
        start = statement.offset
        accesses = collector.accesses
        if not collector.call_names:
            begin = skip_blank(text, body.offset)
            body_span = begin, statement_end(text, begin)
            item: RegionItem = LoopNest([loop for loop, _ in loops], accesses, start, end, body_span, statement.line)
            if not loops and statement.kind not in (Kind.FOR_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT):
                self._require_known_effects(accesses, statement)
        else:
            if loops:
                accesses = [replace(one, loops=(*(loop for loop, _ in loops), *one.loops)) for one in accesses]
            item = CommunicationStatement(
                start, end, statement.line, ", ".join(dict.fromkeys(collector.call_names)), accesses,
                collector.messages, collector.begins_messages, collector.completes_messages,
            )  # fmt: skip
            call = statement.without_casts
            if call.kind == Kind.CALL_EXPR and call.name == "MPI_Sendrecv":
                item.sendrecv_arguments = sendrecv_arguments(call)
            item.is_plain_wait = is_plain_wait(statement, self.function)
            self._record_blocking_calls(item, statement, collector)
            posted_messages[:] = trial_messages
            accesses.append(Access(OUTPUT_STREAM, (), False, statement.line))
        item.outer_iterators = collector.outer_iterators
        item.pragma_offset = pragma_offset
        if isinstance(item, LoopNest) and item.loops:
            item.loops[0] = replace(item.loops[0], pragmas=pragmas)
            if PRAGMA.search(text[item.start : item.body_span[0]]):
                raise NotMovable("a pragma stands between its loops", item.line)
        return item

    def _record_blocking_calls(
        self, communication: CommunicationStatement, statement: SyntaxNode, collector: CommunicationCollector
    ) -> None:
        """Records in `communication.blocking_calls` the blocking MPI calls of a statement whose begin and completion
        can be separated, or in `communication.unsplittable_reason` the reason why they cannot."""
        calls = find_blocking_calls(statement, self.functions.communicates)
        if not calls or any(
            part.offset not in collector.access_numbers_by_call or self.unit.is_macro_use(part.offset)
            for part, _ in calls
        ):
            return
        communication.unsplittable_reason = next(
            (why for part, _ in calls if (why := unsplittable_reason(part.without_casts, self.function))), ""
        )
        if any(
            len(collector.access_numbers_by_call[part.offset]) < len(NONBLOCKING_EQUIVALENTS[part.without_casts.name])
            for part, _ in calls
        ):
            communication.unsplittable_reason = (
                "a message is of a variable that its block declares, and that ends with it"
            )
        for part, is_in_block in calls:
            argument_texts = tuple(split_arguments(part.without_casts))
            end = self.unit.statement_end(part)
            communication.blocking_calls.append(
                BlockingCall(
                    part.without_casts.name,
                    argument_texts,
                    part.offset,
                    end,
                    collector.access_numbers_by_call[part.offset],
                    is_in_block,
                )
            )

    def _statement_end(self, statement: SyntaxNode, next_offset: int) -> int:
        """Returns the source offset at which a statement ends. Raises NotMovable if a macro hides the end."""
        end = self.unit.statement_end(statement)
        if end > next_offset or (self.unit.is_macro_use(statement.offset) and end < statement.end):
            raise NotMovable("a macro hides where it ends", statement.line)
        return end

    def _require_known_effects(self, accesses: Sequence[object], statement: SyntaxNode) -> None:
        """Raises NotMovable for a statement without known memory accesses, since its effects are unknown."""
        if not accesses:
            raise NotMovable("its effects are not known", statement.line)

    def _peel_loops(
        self, node: SyntaxNode, expressions: ExpressionReader
    ) -> tuple[list[tuple[Loop, SyntaxNode]], SyntaxNode]:
        """Returns the canonical loops around the innermost part of a loop nest, at most `split_depth`, and the
        innermost part."""
        loops: list[tuple[Loop, SyntaxNode]] = []
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
