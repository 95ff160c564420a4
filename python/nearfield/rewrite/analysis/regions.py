"""Finds regions: consecutive statements of a block that either communicate or are loop nests that may be moved. Any
other statement is a barrier, which ends a region.

There are two passes over a block. The first one classifies each statement as an item of a region, as a declaration that
can be hoisted, or as a barrier. The second one cuts the block at its barriers, and makes a region of each run of items
in between."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nearfield.rewrite.analysis.blocking import has_wildcard_receives
from nearfield.rewrite.analysis.conditions import is_branch_never_taken
from nearfield.rewrite.analysis.directives import check_directives_before
from nearfield.rewrite.analysis.expressions import ExpressionReader
from nearfield.rewrite.analysis.hoisting import can_be_hoisted
from nearfield.rewrite.analysis.modified_symbols import remove_modified_symbols
from nearfield.rewrite.analysis.polynomials import Symbol
from nearfield.rewrite.analysis.program import (
    CommunicationStatement,
    MissedOptimization,
    NotMovable,
    Region,
    RegionItem,
)
from nearfield.rewrite.analysis.scalars import privatize_scalars, replace_members_by_structures
from nearfield.rewrite.analysis.shadowing import check_shadowed_names
from nearfield.rewrite.analysis.statements import StatementReader
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts
from nearfield.rewrite.frontend.language import has_if_initialization
from nearfield.rewrite.frontend.text import line_number_of

MAX_REGION_ITEMS = 40  # maximum number of statements of a region
NUM_CONTEXT_ITEMS = 8  # statements that a longer region keeps before its first and after its last call
_BLOCK_KINDS = (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT)
_ALONE_REASON = "nothing in its block could be done before or after it"
_WILDCARD_REASON = "a rank that receives from any source could get a message that is begun with others too early"


@dataclass(frozen=True)
class FoundRegions:
    """The regions of a part of a function, those of inner blocks first, and the communication that is in none."""

    regions: tuple[Region, ...] = ()
    missed: tuple[MissedOptimization, ...] = ()

    @staticmethod
    def join(parts: Iterable[FoundRegions]) -> FoundRegions:
        """Returns the regions of consecutive parts of a function."""
        parts = list(parts)
        regions = tuple(region for part in parts for region in part.regions)
        return FoundRegions(regions, tuple(missed for part in parts for missed in part.missed))


@dataclass(frozen=True)
class HoistedDeclaration:
    """The source offsets of the start and end of a declaration that can be hoisted to the beginning of its region."""

    span: tuple[int, int]


@dataclass(frozen=True)
class ClassifiedStatement:
    """A statement of a block, and the regions of the blocks inside it. A statement that is not movable is a barrier.
    `symbols` are those of all statements up to the next barrier."""

    role: RegionItem | HoistedDeclaration | NotMovable
    inner: FoundRegions
    symbols: dict[str, Symbol]


@dataclass(frozen=True)
class StatementRun:
    """Consecutive items of a block, and the barriers on either side; None at the beginning and the end of the block."""

    items: tuple[RegionItem, ...]
    declaration_spans: tuple[tuple[int, int], ...]
    symbols: dict[str, Symbol]
    barrier_before: NotMovable | None
    barrier_after: NotMovable | None

    @property
    def calls(self) -> list[CommunicationStatement]:
        return [item for item in self.items if isinstance(item, CommunicationStatement)]

    @property
    def barriers(self) -> list[tuple[str, NotMovable]]:
        """Returns the barriers, each with the side of the run on which it stands."""
        sides = (("before", self.barrier_before), ("after", self.barrier_after))
        return [(side, barrier) for side, barrier in sides if barrier is not None]

    def trim_to_calls(self) -> StatementRun:
        """Returns the run without the items far from its calls, if it has more than MAX_REGION_ITEMS items."""
        if len(self.items) <= MAX_REGION_ITEMS:
            return self
        numbers = [number for number, item in enumerate(self.items) if isinstance(item, CommunicationStatement)]
        first, behind = max(0, numbers[0] - NUM_CONTEXT_ITEMS), numbers[-1] + NUM_CONTEXT_ITEMS + 1
        return replace(self, items=self.items[first:behind])

    def split_at(self, number: int, barrier: NotMovable) -> tuple[StatementRun, StatementRun]:
        """Returns the items before and those after the item with the given number, which is a barrier."""
        return (
            replace(self, items=self.items[:number], barrier_after=barrier),
            replace(self, items=self.items[number + 1 :], barrier_before=barrier),
        )


@dataclass(frozen=True)
class RegionFinder:
    """Finds the regions of one function. `split_depth` is the number of nested loops whose iterations may be split into
    several loops; code inside the innermost of these is copied verbatim."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    split_depth: int
    replaces_constants: bool = False

    def find_regions(self) -> FoundRegions:
        """Returns the regions of the function, and its communication that is in none."""
        return self._regions_of_block(self.function.body) if self.function.body is not None else FoundRegions()

    def _regions_of_block(self, block: SyntaxNode) -> FoundRegions:
        """Returns the regions of a block of statements and of the blocks inside it."""
        parts: list[FoundRegions] = []
        barrier_before: NotMovable | None = None
        for statements in _cut_after_barriers(self._classify_statements(block)):
            parts += [statement.inner for statement in statements]
            roles = [statement.role for statement in statements]
            barrier_after = next((role for role in roles if isinstance(role, NotMovable)), None)
            run = StatementRun(
                tuple(role for role in roles if not isinstance(role, HoistedDeclaration | NotMovable)),
                tuple(role.span for role in roles if isinstance(role, HoistedDeclaration)),
                statements[0].symbols,
                barrier_before,
                barrier_after,
            )
            parts.append(self._regions_of_run(run))
            barrier_before = barrier_after
        return FoundRegions.join(parts)

    # ---- first pass: what each statement of a block is

    def _classify_statements(self, block: SyntaxNode) -> Iterator[ClassifiedStatement]:
        """Yields the statements of a block, each as an item of a region, a hoisted declaration or a barrier."""
        reader = self._new_statement_reader()
        near_statements = self._statements_near_calls(block)
        next_offsets = [*(statement.offset for statement in block.children[1:]), block.end]
        previous_ends = [block.offset + 1, *(statement.end for statement in block.children)]
        for number, (statement, next_offset) in enumerate(zip(block.children, next_offsets, strict=False)):
            inner = self._regions_inside(statement)
            symbols = reader.expressions.symbols
            try:
                if number not in near_statements:
                    raise NotMovable("it is far from the communication", statement.line)
                if inner.regions and statement.kind in LOOP_KINDS:
                    raise NotMovable("a loop with communication of its own", statement.line)
                is_first = reader.first_item is None
                check_directives_before(self.unit, previous_ends[number], statement, any_directive=not is_first)
                role = self._hoisted_declaration(statement, block, reader) or reader.read_item(statement, next_offset)
            except NotMovable as barrier:
                yield ClassifiedStatement(barrier, self._add_barrier_reason(inner, statement, barrier), symbols)
                reader = self._new_statement_reader()
                continue
            if not inner.regions and statement.kind not in LOOP_KINDS:
                inner = FoundRegions()  # reasons inside a block that is moved as a whole do not matter
            yield ClassifiedStatement(role, inner, symbols)

    def _new_statement_reader(self) -> StatementReader:
        expressions = ExpressionReader(
            self.function, replaces_constants=self.replaces_constants, find_definition=self.functions.definition_of
        )
        return StatementReader(self.unit, self.functions, self.function, self.split_depth, expressions)

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

    def _regions_inside(self, statement: SyntaxNode) -> FoundRegions:
        """Returns the regions of the blocks inside a statement, such as a loop body or the branches of an `if`."""
        if statement.kind == Kind.COMPOUND_STMT:
            return self._regions_of_block(statement)
        if statement.kind not in _BLOCK_KINDS:
            return FoundRegions()
        if statement.kind != Kind.IF_STMT:
            return FoundRegions.join(map(self._regions_inside, statement.children))
        if has_if_initialization(statement):
            return FoundRegions()
        test, *branches = statement.children
        return FoundRegions.join(
            self._regions_inside(branch)
            for branch, is_true in zip(branches, (True, False), strict=False)
            if not is_branch_never_taken(test, is_true, self.function)
        )

    def _hoisted_declaration(
        self, statement: SyntaxNode, block: SyntaxNode, reader: StatementReader
    ) -> HoistedDeclaration | None:
        """Returns a statement as a declaration that can be hoisted to the beginning of the current region; None if it
        is none, or if it is the first statement."""
        if reader.first_item is None or statement.kind != Kind.DECL_STMT:
            return None
        if not can_be_hoisted(statement, block, reader.first_item.pragma_offset, self.unit, self.function):
            return None
        return HoistedDeclaration((statement.offset, self.unit.statement_end(statement)))

    def _add_barrier_reason(self, inner: FoundRegions, statement: SyntaxNode, barrier: NotMovable) -> FoundRegions:
        """Returns the regions inside a barrier. If the barrier sends or receives, and neither a region nor a reason is
        known of the blocks inside it, adds the reason why it is a barrier."""
        if inner.regions or inner.missed or not self._has_message_call(statement):
            return inner
        is_same_line = barrier.line in (0, statement.line)
        reason = barrier.reason if is_same_line else f"{barrier.reason} (line {barrier.line})"
        return self._make_refusal(statement.line, reason, barrier.assumption)

    def _has_message_call(self, statement: SyntaxNode) -> bool:
        return any(
            statement.offset <= call.offset < statement.end and self.functions.communicates(call)
            for call in self.function.calls
        )

    # ---- second pass: runs of items between barriers

    def _regions_of_run(self, run: StatementRun) -> FoundRegions:
        """Returns the region that a run is, if it has both communication and loop nests to move. An item that turns out
        to be a barrier among the other items splits the run in two."""
        if not any(call.messages for call in run.calls):
            return FoundRegions()
        run, line = run.trim_to_calls(), run.calls[0].line
        if len(run.items) > MAX_REGION_ITEMS:
            reason = f"{len(run.items)} statements follow one another, which are too many to decide in time"
            return self._make_refusal(line, reason)
        try:
            region = self._make_region(run)
        except NotMovable as barrier:
            number = next((n for n, item in enumerate(run.items) if self._spans_line(item, barrier.line)), None)
            if number is None or isinstance(run.items[number], CommunicationStatement):
                return self._make_refusal(barrier.line, barrier.reason, barrier.assumption)
            return FoundRegions.join(map(self._regions_of_run, run.split_at(number, barrier)))
        if any(access.base.dimension_sizes for nest in region.nests for access in nest.accesses):
            return FoundRegions((region,))
        barrier_texts = "; ".join(f"{side} it, at line {stop.line}: {stop.reason}" for side, stop in run.barriers)
        reason = f"what stands beside it may not be passed: {barrier_texts}" if barrier_texts else _ALONE_REASON
        return self._make_refusal(line, reason, next((one.assumption for _, one in run.barriers if one.assumption), ""))

    def _make_region(self, run: StatementRun) -> Region:
        """Returns the items of a run as a region, in which what each item accesses is known with respect to the others.
        Raises NotMovable, with the line of an item, if an item is a barrier among the others."""
        items = [replace(item, accesses=list(item.accesses)) for item in run.items]
        if sum(len(call.blocking_calls) for call in run.calls) > 1 and has_wildcard_receives(self.functions):
            items = [
                replace(item, unsplittable_reason=item.unsplittable_reason or _WILDCARD_REASON)
                if isinstance(item, CommunicationStatement)
                else item
                for item in items
            ]
        line, spans = run.calls[0].line, list(run.declaration_spans)
        region = Region(self.function.name, items, run.symbols, line, spans).subregion(items, line)
        replace_members_by_structures(region)
        writes = [access for item in region.items for access in item.accesses if access.is_write]
        privatize_scalars(region, self.function)
        remove_modified_symbols(region, writes)
        check_shadowed_names(region, self.function)
        return region

    def _spans_line(self, item: RegionItem, line: int) -> bool:
        return line_number_of(self.unit.text, item.start) <= line <= line_number_of(self.unit.text, item.end)

    def _make_refusal(self, line: int, reason: str, assumption: str = "") -> FoundRegions:
        """Returns no region but the reason why the communication at a line is in none."""
        return FoundRegions(missed=(MissedOptimization(line, reason, self.function.name, assumption),))


def _cut_after_barriers(statements: Iterable[ClassifiedStatement]) -> Iterator[Sequence[ClassifiedStatement]]:
    """Yields the statements of a block in sequences, each of which ends with a barrier or at the end of the block."""
    sequence: list[ClassifiedStatement] = []
    for statement in statements:
        sequence.append(statement)
        if isinstance(statement.role, NotMovable):
            yield sequence
            sequence = []
    if sequence:
        yield sequence
