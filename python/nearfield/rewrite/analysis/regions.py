"""Finds regions: consecutive statements of a block that either communicate or are loop nests that may be moved. Any
other statement ends a region, and the reason is recorded in `missed`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from nearfield.rewrite.analysis.accesses import OUTPUT
from nearfield.rewrite.analysis.blocking import find_blocking_calls, has_wildcard_receives, unsplittable_reason
from nearfield.rewrite.analysis.communication import (
    CommunicationCollector,
    PostedMessage,
)
from nearfield.rewrite.analysis.conditions import is_branch_never_taken
from nearfield.rewrite.analysis.expressions import VALUES, ExpressionReader
from nearfield.rewrite.analysis.loop_bounds import canonical_loop, induction_variable_key, secondary_induction_variables
from nearfield.rewrite.analysis.modified_symbols import remove_modified_symbols
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import (
    NONBLOCKING,
    Access,
    BlockingCall,
    CommunicationStatement,
    Item,
    Loop,
    LoopNest,
    MissedOptimization,
    NotMovable,
    Region,
)
from nearfield.rewrite.analysis.requests import is_plain_wait
from nearfield.rewrite.analysis.scalars import privatize_scalars, replace_members_by_structures
from nearfield.rewrite.analysis.shadowing import check_shadowed_names
from nearfield.rewrite.frontend.call_arguments import sendrecv_arguments, split_arguments
from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node, TranslationUnit, TypeKind
from nearfield.rewrite.frontend.conversions import NUMBERS
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.language import (
    has_if_initialisation,
    may_move_loop,
    may_split_loop,
    refused_pragma_inside,
)
from nearfield.rewrite.frontend.text import identifiers_in, line_number_of, skip_blank, split_lines, statement_end

MAX_ITEMS = 40  # maximum number of statements of a region
CONTEXT_ITEMS = 8  # statements that a longer region keeps before its first and after its last call
_BLOCKS = (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b(?:[^\n]*\\\n)*[^\n]*\n", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma\b)\w+", re.MULTILINE)
_INVARIANT = (*VALUES, Kind.TYPE_REF, Kind.INIT_LIST_EXPR)
_ALONE = "nothing in its block could be done before or after it"


@dataclass
class RegionFinder:
    """Finds the regions of one function. `depth` is the number of nested loops whose iterations may be split into
    several loops; code inside the innermost of these is copied verbatim."""

    unit: TranslationUnit
    functions: ProgramFunctions
    function: FunctionFacts
    depth: int
    by_value: bool = False
    missed: list[MissedOptimization] = field(default_factory=list)

    def find_regions(self) -> Iterator[Region]:
        """Yields the regions of the function, those of inner blocks first."""
        if self.function.body is not None:
            yield from self._regions_of_block(self.function.body)

    def _regions_of_block(self, block: Node) -> Iterator[Region]:
        """Yields the regions of a block of statements and of the blocks inside it."""
        run: list[Item] = []
        expressions = self._new_expression_reader()
        posted: list[PostedMessage] = []
        declared: list[tuple[int, int]] = []
        why: NotMovable | None = None
        near = self._statements_near_calls(block)
        ends = [*(statement.offset for statement in block.children[1:]), block.end]
        begins = [block.offset + 1, *(statement.end for statement in block.children)]
        for number, (statement, following) in enumerate(zip(block.children, ends, strict=False)):
            known = len(self.missed)
            inner = list(self._regions_inside(statement)) if statement.kind in _BLOCKS else []
            yield from inner
            try:
                if number not in near:
                    raise NotMovable("it is far from the communication", statement.line)
                if inner and statement.kind in LOOPS:
                    raise NotMovable("a loop with communication of its own", statement.line)
                self._check_directives_before(begins[number], statement, any_directive=bool(run))
                if run and statement.kind == Kind.DECL_STMT and self._can_be_hoisted(statement, block, run[0].lead):
                    declared.append((statement.offset, self.unit.statement_end(statement)))
                    continue
                since = run[0].start if run else statement.offset
                run.append(self._make_item(statement, following, expressions, posted, since))
                if not inner and statement.kind not in LOOPS:
                    del self.missed[known:]  # reasons inside a block that is moved as a whole do not matter
            except NotMovable as barrier:
                if not inner and len(self.missed) == known and self._has_message_call(statement):
                    self._record_refusal(
                        statement.line, self._reason_with_line(barrier, statement.line), barrier.assumption
                    )
                yield from self._make_regions(run, declared, expressions, posted, why, barrier)
                run, declared, posted, expressions, why = [], [], [], self._new_expression_reader(), barrier
        yield from self._make_regions(run, declared, expressions, posted, why, None)

    def _can_be_hoisted(self, statement: Node, block: Node, start: int) -> bool:
        """Returns whether a declaration statement can be hoisted to the offset `start`: the statements in between do
        not use the variables, and the initial values are invariant."""
        if self.unit.is_macro_use(statement.offset) or self.function.has_label(block):
            return False
        before = identifiers_in(self.unit.text[start : statement.offset])
        before |= {word for name in before & self.unit.macros.keys() for word in identifiers_in(self.unit.macros[name])}
        for one in statement.children:
            element = one.type
            while element.kind in ARRAYS:
                element = element.element_type.get_canonical()
            is_plain = element.kind in (*NUMBERS, TypeKind.POINTER) or element.spelling.startswith("MPI_")
            if one.kind != Kind.VAR_DECL or not is_plain or element.is_volatile_qualified() or one.name in before:
                return False
            if one.cursor.storage_class.name in ("STATIC", "EXTERN") or not all(map(self._is_invariant, one.children)):
                return False
        return True

    def _is_invariant(self, value: Node) -> bool:
        """Returns whether an expression has the same value everywhere in the function."""
        for node in value.walk():
            if node.kind == Kind.DECL_REF_EXPR:
                declared = node.declaration
                if declared is None or node.value is None and not self.function.is_never_changed(declared.key):
                    return False
            elif node.kind not in _INVARIANT and node.operator not in ("+", "-", "*", "/", "%"):
                return False
        return True

    def _has_message_call(self, statement: Node) -> bool:
        return any(
            statement.offset <= call.offset < statement.end and self.functions.communicates(call)
            for call in self.function.calls
        )

    @staticmethod
    def _reason_with_line(barrier: NotMovable, line: int) -> str:
        """Returns the reason why a statement cannot be moved, with the line number of the reason if it is not
        `line`."""
        return barrier.reason if barrier.line in (0, line) else f"{barrier.reason} (line {barrier.line})"

    def _statements_near_calls(self, block: Node) -> set[int]:
        """Returns the numbers of the statements of a block that are close enough to a call to be in a region with the
        call."""
        near: set[int] = set()
        for number, statement in enumerate(block.children):
            if any(statement.offset <= place < statement.end for place in self._communicating_call_offsets):
                near.update(range(number - MAX_ITEMS // 2, number + MAX_ITEMS // 2))
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

    def _regions_inside(self, statement: Node) -> Iterator[Region]:
        """Yields the regions of the blocks inside a statement, such as a loop body or the branches of an `if`."""
        if statement.kind == Kind.COMPOUND_STMT:
            yield from self._regions_of_block(statement)
        elif statement.kind == Kind.IF_STMT and not has_if_initialisation(statement):
            for branch, holds in zip(statement.children[1:], (True, False), strict=False):
                if not is_branch_never_taken(statement.children[0], holds, self.function):
                    yield from self._regions_inside(branch)
        elif statement.kind in _BLOCKS:
            for child in statement.children:
                yield from self._regions_inside(child)

    def _new_expression_reader(self) -> ExpressionReader:
        return ExpressionReader(self.function, by_value=self.by_value, definition=self.functions.definition_of)

    def _make_regions(
        self,
        run: list[Item],
        declared: list[tuple[int, int]],
        expressions: ExpressionReader,
        posted: list[PostedMessage],
        before: NotMovable | None,
        after: NotMovable | None,
    ) -> Iterator[Region]:
        """Yields a run of consecutive statements as a region if it has both communication and loop nests to move. A
        statement of the run that cannot be moved splits the run in two. `before` and `after` are the reasons why the
        run ends on either side."""
        calls = [item for item in run if isinstance(item, CommunicationStatement)]
        if not any(call.messages for call in calls):
            return
        if len(run) > MAX_ITEMS:
            numbers = [number for number, item in enumerate(run) if isinstance(item, CommunicationStatement)]
            run = run[max(0, numbers[0] - CONTEXT_ITEMS) : numbers[-1] + CONTEXT_ITEMS + 1]
        if len(run) > MAX_ITEMS:
            self._record_refusal(
                calls[0].line, f"{len(run)} statements follow one another, which are too many to decide in time"
            )
            return
        items = [replace(item, accesses=list(item.accesses)) for item in run]
        if len([call for call in calls for _ in call.blocking]) > 1 and has_wildcard_receives(self.functions):
            reason = "a rank that receives from any source could get a message that is begun with others too early"
            items = [
                replace(item, unsplit=item.unsplit or reason) if isinstance(item, CommunicationStatement) else item
                for item in items
            ]
        found = Region(self.function.name, items, expressions.symbols, calls[0].line, declared)
        found = found.subregion(items, found.line)
        try:
            replace_members_by_structures(found)
            written = [access for item in found.items for access in item.accesses if access.write]
            privatize_scalars(found, self.function)
            remove_modified_symbols(found, written)
            check_shadowed_names(found, self.function)
        except NotMovable as barrier:
            at = next((n for n, item in enumerate(run) if self._item_spans_line(item, barrier.line)), None)
            if at is None or isinstance(run[at], CommunicationStatement):
                self._record_refusal(barrier.line, barrier.reason, barrier.assumption)
                return
            yield from self._make_regions(run[:at], declared, expressions, posted, before, barrier)
            yield from self._make_regions(run[at + 1 :], declared, expressions, posted, barrier, after)
            return
        if not any(access.base.sizes for nest in found.nests for access in nest.accesses):
            stops = [(side, stop) for side, stop in (("before", before), ("after", after)) if stop is not None]
            said = "; ".join(f"{side} it, at line {stop.line}: {stop.reason}" for side, stop in stops)
            reason = f"what stands beside it may not be passed: {said}" if said else _ALONE
            self._record_refusal(
                calls[0].line, reason, next((stop.assumption for _, stop in stops if stop.assumption), "")
            )
            return
        yield found

    def _item_spans_line(self, item: Item, line: int) -> bool:
        return line_number_of(self.unit.text, item.start) <= line <= line_number_of(self.unit.text, item.end)

    def _record_refusal(self, line: int, reason: str, assumption: str = "") -> None:
        missed = MissedOptimization(line, reason, self.function.name, assumption)
        if missed not in self.missed:
            self.missed.append(missed)

    # ---- a statement as an item of a region

    def _make_item(
        self, statement: Node, following: int, expressions: ExpressionReader, posted: list[PostedMessage], since: int
    ) -> Item:
        """Returns a statement as a loop nest or, if it communicates, as a call. `following` is the source offset of the
        next statement, `since` that of the first statement of the region. Raises NotMovable if nothing can be moved
        across the statement."""
        if statement.kind == Kind.DECL_STMT:
            raise NotMovable("a variable is declared", statement.line)
        text = self.unit.text
        end = self._statement_end(statement, following)
        self._check_directives_inside(statement, end)
        trial = list(posted)
        lead, pragmas = self._pragmas_above(statement)
        whole = not all(map(may_split_loop, pragmas))
        loops, body = ([], statement) if whole else self._peel_loops(statement, expressions)
        outer = CommunicationCollector(expressions, self.functions, posted=trial, since=since, until=end)
        for loop, node in loops:
            outer.add_header_reads(node)
            outer.make_iterator_private(node, induction_variable_key(node), loop)
            expressions.bound[induction_variable_key(node)] = Poly.from_symbol(loop.iterator.key)
        try:
            outer.collect_accesses(body)
        finally:
            expressions.bound.clear()
        start = statement.offset
        accesses = outer.accesses
        if not outer.names:
            begin = skip_blank(text, body.offset)
            repeated = begin, statement_end(text, begin)
            made: Item = LoopNest([loop for loop, _ in loops], accesses, start, end, repeated, statement.line)
            if not loops and statement.kind not in (Kind.FOR_STMT, Kind.IF_STMT, Kind.COMPOUND_STMT):
                self._require_known_effects(accesses, statement)
        else:
            if loops:
                accesses = [replace(one, loops=(*(loop for loop, _ in loops), *one.loops)) for one in accesses]
            made = CommunicationStatement(
                start, end, statement.line, ", ".join(dict.fromkeys(outer.names)), accesses, outer.messages,
                outer.begins, outer.completes,
            )  # fmt: skip
            call = statement.bare
            if call.kind == Kind.CALL_EXPR and call.name == "MPI_Sendrecv":
                made.exchange = sendrecv_arguments(call)
            made.is_plain_wait = is_plain_wait(statement, self.function)
            self._record_blocking_calls(made, statement, outer)
            posted[:] = trial
            accesses.append(Access(OUTPUT, (), False, statement.line))
        made.counters = outer.counters
        made.lead = lead
        if isinstance(made, LoopNest) and made.loops:
            made.loops[0] = replace(made.loops[0], pragmas=pragmas)
            if _PRAGMA.search(text[made.start : made.body[0]]):
                raise NotMovable("a pragma stands between its loops", made.line)
        return made

    def _record_blocking_calls(
        self, made: CommunicationStatement, statement: Node, read: CommunicationCollector
    ) -> None:
        """Records in `made.blocking` the blocking MPI calls of a statement whose begin and completion can be separated,
        or in `made.unsplit` the reason why they cannot."""
        found = find_blocking_calls(statement, self.functions.communicates)
        if not found or any(part.offset not in read.sides or self.unit.is_macro_use(part.offset) for part, _ in found):
            return
        made.unsplit = next((why for part, _ in found if (why := unsplittable_reason(part.bare, self.function))), "")
        if any(len(read.sides[part.offset]) < len(NONBLOCKING[part.bare.name]) for part, _ in found):
            made.unsplit = "a message is of a variable that its block declares, and that ends with it"
        for part, listed in found:
            words = tuple(split_arguments(part.bare))
            end = self.unit.statement_end(part)
            made.blocking.append(BlockingCall(part.bare.name, words, part.offset, end, read.sides[part.offset], listed))

    def _statement_end(self, statement: Node, following: int) -> int:
        """Returns the source offset at which a statement ends. Raises NotMovable if a macro hides the end."""
        end = self.unit.statement_end(statement)
        if end > following or (self.unit.is_macro_use(statement.offset) and end < statement.end):
            raise NotMovable("a macro hides where it ends", statement.line)
        return end

    def _check_directives_before(self, start: int, statement: Node, *, any_directive: bool) -> None:
        """Raises NotMovable if a pragma stands between the offset `start` and a statement but not directly above the
        statement. If `any_directive` is set, any preprocessor directive raises."""
        text = self.unit.text[start : self._start_of_pragmas(statement.offset)]
        if _PRAGMA.search(text) or any_directive and _DIRECTIVE.search(text):
            raise NotMovable("a directive of the preprocessor stands in front of it", statement.line)

    def _check_directives_inside(self, statement: Node, end: int) -> None:
        """Raises NotMovable for preprocessor directives inside a statement, unless they are includes, complete
        conditionals that do not affect where the statement ends, or pragmas of loops that may move."""
        text = self.unit.text
        if pragma := refused_pragma_inside(text[statement.offset : end]):
            raise NotMovable(f"the pragma in it is not known to allow it: {pragma}", statement.line)
        found = [match[0].strip(" \t#") for match in _DIRECTIVE.finditer(text, statement.offset, end)]
        if not found:
            return
        whole = sum(one.startswith("if") for one in found) == found.count("endif")
        ends = end in (statement.end, statement.end + 1)
        if (
            not whole
            or not ends
            or not all(one in ("if", "ifdef", "ifndef", "else", "elif", "endif", "include") for one in found)
        ):
            line = line_number_of(text, _DIRECTIVE.search(text, statement.offset, end).start())  # type: ignore[union-attr]
            raise NotMovable("a directive of the preprocessor is in it", line)

    def _require_known_effects(self, accesses: Sequence[object], statement: Node) -> None:
        """Raises NotMovable for a statement without known memory accesses, since its effects are unknown."""
        if not accesses:
            raise NotMovable("its effects are not known", statement.line)

    def _peel_loops(self, node: Node, expressions: ExpressionReader) -> tuple[list[tuple[Loop, Node]], Node]:
        """Returns the canonical loops around the innermost part of a loop nest, at most `depth`, and the innermost
        part."""
        loops: list[tuple[Loop, Node]] = []
        bound = dict(expressions.bound)
        while len(loops) < self.depth and node.kind == Kind.FOR_STMT:
            loop = canonical_loop(node, expressions)
            if isinstance(loop, str) or secondary_induction_variables(node):
                break
            loops.append((loop, node))
            expressions.bound[induction_variable_key(node)] = Poly.from_symbol(loop.iterator.key)
            node = node.children[-1]
            if node.kind == Kind.COMPOUND_STMT and len(node.children) == 1 and len(loops) < self.depth:
                inner = node.children[0]
                counts = inner.kind == Kind.FOR_STMT and not isinstance(canonical_loop(inner, expressions), str)
                if counts and not secondary_induction_variables(inner):
                    node = inner
        expressions.bound = bound
        return loops, node

    def _start_of_pragmas(self, start: int) -> int:
        """Returns the source offset of the first of the pragmas directly above a statement, or of the statement
        itself."""
        text = self.unit.text
        place = text.rfind("\n", 0, start) + 1
        while place > 0:
            above = text.rfind("\n", 0, place - 1) + 1
            if not re.match(r"[ \t]*#[ \t]*pragma\b", text[above:place]):
                break
            place = above
        own = text[place:start]
        return start - len(own.lstrip(" \t")) if "#" in own else start

    def _pragmas_above(self, statement: Node) -> tuple[int, tuple[str, ...]]:
        """Returns the source offset of the pragmas directly above a statement, and their lines. Raises NotMovable if a
        pragma is not known to allow that the statement moves."""
        lead = self._start_of_pragmas(statement.offset)
        own = self.unit.text[lead : statement.offset]
        lines = tuple(" ".join(line.split()) for line in split_lines(own) if line.strip())
        for line in lines:
            if not may_move_loop(line):
                raise NotMovable(f"the pragma in front of it is not known to allow it: {line}", statement.line)
        return lead, lines


def split_exchanges(region: Region) -> Iterator[Region]:
    """Yields the region. If loops separate several exchanges in the region, also yields a region for each exchange with
    the loops before and after it."""
    yield region
    open_messages, group, made = 0, [], []
    for number, item in enumerate(region.items):
        if isinstance(item, CommunicationStatement):
            group.append(number)
            open_messages += item.post - item.wait
        elif group and open_messages <= 0:
            made.append(group)
            group = []
    made += [group] if group else []
    if len(made) < 2:
        return
    for place, numbers in enumerate(made):
        first = made[place - 1][-1] + 1 if place else 0
        last = made[place + 1][0] if place + 1 < len(made) else len(region.items)
        items = region.items[first:last]
        calls = [item for item in items if isinstance(item, CommunicationStatement)]
        if any(isinstance(item, LoopNest) and item.loops for item in items) and any(call.messages for call in calls):
            yield region.subregion(items, region.items[numbers[0]].line)
