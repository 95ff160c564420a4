"""Parses emitted code and proves its equivalence to the region again, independently of the code generator.

Each statement must be a copy of a loop nest, of the body of a nest or of a call, token by token. Under the loops and
conditions around them, the statements must execute each iteration once, in an order that keeps every dependence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import islpy as isl

from nearfield.rewrite.analysis.expressions import ExpressionReader
from nearfield.rewrite.analysis.loop_bounds import canonical_loop, induction_variable_key, secondary_induction_variables
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import Loop, LoopNest
from nearfield.rewrite.check.equivalence import EmittedStatement, prove_equivalence
from nearfield.rewrite.check.match_calls import CallMatcher, EmittedCode
from nearfield.rewrite.check.translation import (
    CodePosition,
    IslTranslation,
    NotEquivalent,
    iterator_variable,
    time_component,
)
from nearfield.rewrite.codegen.emit import EmittedRegion
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode, TranslationUnit
from nearfield.rewrite.frontend.function import FunctionFacts
from nearfield.rewrite.frontend.text import end_of_bracketed_text, has_same_tokens
from nearfield.rewrite.model.polyhedral import PolyhedralModel
from nearfield.rewrite.model.schedule import CallStep


class Validator:
    """Validates the code that was emitted for one region of a function."""

    def __init__(
        self, model: PolyhedralModel, original: str, emitted: EmittedRegion, guard: isl.Set, *, replaces_constants: bool
    ) -> None:
        self._model, self._original, self._guard, self._replaces_constants = model, original, guard, replaces_constants
        self._emitted = emitted

    def check_equivalence(self, unit: TranslationUnit, function_name: str, start: int, end: int) -> None:
        """Raises NotEquivalent unless the code between two offsets of the rewritten file is equivalent to the
        region."""
        if problem := unit.first_error:
            raise NotEquivalent(f"the new code does not compile: {problem}")
        node = unit.function_at(function_name, start, end)
        if node is None:
            raise NotEquivalent("the function is not found in the new code")
        block = _innermost_block(node, start, end)
        if block is None:
            raise NotEquivalent("the block is not found in the new code")
        self._unit = unit
        statements = self._skip_declarations([one for one in block.children if start <= one.offset < end])
        original = statements[0].children[2:3] if self._emitted.condition and statements else []
        reader = ExpressionReader(
            FunctionFacts(node, next(iter(original), None)), replaces_constants=self._replaces_constants
        )
        self._code = EmittedCode(self._model, self._original, unit, reader)
        self._translation = IslTranslation(self._model, reader)
        self._call_matcher = CallMatcher(self._code)
        self._expected_pieces = [
            one for one in self._emitted.pieces if not isinstance(one, CallStep) or one.begins_call
        ]
        self._occurrences: list[EmittedStatement] = []
        for number, statement in enumerate(self._skip_guard(statements)):
            self._match_statement(statement, CodePosition((str(number),)))
        prove_equivalence(self._model, self._guard, self._occurrences, self._translation)

    # ---- declarations and guard around the emitted code

    def _skip_declarations(self, statements: list[SyntaxNode]) -> list[SyntaxNode]:
        """Returns the statements after the region's declarations. Raises NotEquivalent unless the declarations come
        first and are unchanged."""
        original_texts = [self._original[start:end] for start, end in self._model.region.hoisted_declaration_spans]
        new_texts = [
            self._unit.text[one.offset : self._unit.statement_end(one)] for one in statements[: len(original_texts)]
        ]
        if len(new_texts) != len(original_texts) or not all(map(has_same_tokens, new_texts, original_texts)):
            raise NotEquivalent("a declaration is not found in the new code")
        return statements[len(original_texts) :]

    def _skip_guard(self, statements: list[SyntaxNode]) -> list[SyntaxNode]:
        """Returns the statements under the guard and after the static assertion. Raises NotEquivalent if either is
        missing."""
        if self._emitted.condition:
            statements = self._check_guard(statements)
        if not self._emitted.is_guard_asserted:
            return statements
        if not re.match(r"(_S|s)tatic_assert\b", self._unit.text[statements[0].offset :]):
            raise NotEquivalent("the assertion is not found in the new code")
        return statements[1:]

    def _check_guard(self, statements: list[SyntaxNode]) -> list[SyntaxNode]:
        """Returns the statements under the guard. Raises NotEquivalent unless the else branch is the original code and
        the condition implies the guard."""
        if len(statements) != 1 or statements[0].kind != Kind.IF_STMT or len(statements[0].children) != 3:
            raise NotEquivalent("the guard is not found in the new code")
        test, new, old = statements[0].children
        text = self._code.statement_text(old).strip()
        if not has_same_tokens(text[1:-1], self._model.region.source_text(self._original)):
            raise NotEquivalent("the code under 'else' is not the original one")
        known_parameters = self._model.parameter_context
        condition = self._guard_without_alias_check(test, statements[0].offset)
        asserted_parameters = isl.Set(f"{self._translation.parameter_prefix()}{{ : {condition} }}")
        if not asserted_parameters.intersect(known_parameters).is_subset(
            self._guard.union(known_parameters.complement())
        ):
            raise NotEquivalent(f"the guard in the new code allows more than {self._guard.gist(known_parameters)}")
        return new.children

    def _guard_without_alias_check(self, test: SyntaxNode, offset: int) -> str:
        """Returns the guard's condition as an isl constraint, without the run-time alias check. Raises NotEquivalent
        unless the whole condition is the one that was emitted. The part that is asserted statically need not be in the
        condition."""
        text, names, nowhere = self._unit.text, self._translation, CodePosition()
        start = text.index("(", offset)
        if not has_same_tokens(text[start + 1 : end_of_bracketed_text(text, start) - 1], self._emitted.condition):
            raise NotEquivalent("the guard in the new code is not the one that was written")
        if self._emitted.alias_check:  # the alias check only matters where the guard holds
            names.check_no_wraparound(test, nowhere, self._guard)
        if self._emitted.is_guard_asserted:
            return self._asserted_guard()
        if self._emitted.alias_check and not self._emitted.guard:
            return "1 = 1"
        guard = test.without_casts.children[1] if self._emitted.alias_check else test
        names.check_no_wraparound(guard, nowhere, self._model.parameter_context)
        return names.condition_constraint(guard)

    def _asserted_guard(self) -> str:
        """Returns the statically asserted guard as an isl constraint."""
        parameters = self._guard.gist(self._model.parameter_context)
        return str(parameters).split(":", 1)[1].rsplit("}", 1)[0].strip() or "1 = 1"

    # ---- matching the statements of the emitted code

    def _match_statement(self, node: SyntaxNode, position: CodePosition) -> None:
        """Records the iterations and MPI calls that a statement of the emitted code executes. Raises NotEquivalent for
        a statement that is not expected."""
        if self._matches_next_piece(node, position):
            return
        if node.kind == Kind.FOR_STMT:
            self._match_loop(node, position)
        elif node.kind == Kind.IF_STMT:
            self._match_branches(node, position)
        elif node.kind == Kind.COMPOUND_STMT:
            for number, child in enumerate(node.children):
                self._match_statement(
                    child, replace(position, time_components=(*position.time_components, str(number)))
                )
        elif node.kind != Kind.DECL_STMT or not self._call_matcher.is_expected_declaration(node, position):
            raise NotEquivalent(f"a statement is not expected in the new code: {self._code.statement_text(node)[:60]}")

    def _match_branches(self, node: SyntaxNode, position: CodePosition) -> None:
        """Records what the branches of an `if` in the emitted code execute."""
        test, *branches = node.children
        self._translation.check_no_wraparound(test, position, self._guard)
        test_constraint = self._translation.condition_constraint(test)
        for number, (branch, branch_condition) in enumerate(
            zip(branches, (test_constraint, f"not ({test_constraint})"), strict=False)
        ):
            self._match_statement(
                branch,
                replace(
                    position,
                    conditions=(*position.conditions, branch_condition),
                    time_components=(*position.time_components, str(number)),
                ),
            )

    def _match_loop(self, node: SyntaxNode, position: CodePosition) -> None:
        """Records what a loop of the emitted code executes. Raises NotEquivalent if the loop is not canonical."""
        reader = self._code.reader
        loop = canonical_loop(node, reader)
        if isinstance(loop, str) or secondary_induction_variables(node):
            raise NotEquivalent(f"a loop of the new code is not understood: {loop}")
        if any(iterator_variable(one) == iterator_variable(loop) for one in position.loops):
            raise NotEquivalent("two loops of the new code have the same variable")
        for part in node.children[:-1]:
            self._translation.check_no_wraparound(part, position, self._guard)
        key = induction_variable_key(node)
        reader.value_by_declaration[key] = Polynomial.from_symbol(loop.iterator.key)
        self._match_statement(
            node.children[-1],
            replace(
                position,
                loops=(*position.loops, loop),
                time_components=(*position.time_components, time_component(loop)),
            ),
        )
        del reader.value_by_declaration[key]

    def _matches_next_piece(self, node: SyntaxNode, position: CodePosition) -> bool:
        """Returns whether a statement completes MPI calls, or is the next piece that the emitter reported. Records the
        iterations and calls that it executes."""
        executed = self._call_matcher.match_completion(node, position)
        if executed is None and self._expected_pieces:
            piece = self._expected_pieces[0]
            executed = (
                self._call_matcher.match_begin(node, piece, position)
                if isinstance(piece, CallStep)
                else self._match_copy(node, piece, position)
            )
            self._expected_pieces = self._expected_pieces[1:] if executed else self._expected_pieces
        self._occurrences += executed or []
        return executed is not None

    def _match_copy(self, node: SyntaxNode, nest_number: int, position: CodePosition) -> list[EmittedStatement] | None:
        """Returns the executed iterations if a statement is a copy of a loop nest, or of the body of a nest inside
        loops with the same iterators; None otherwise."""
        nest, text, name = (
            self._model.region.items[nest_number],
            self._code.statement_text(node),
            self._model.tuple_name(nest_number),
        )
        assert isinstance(nest, LoopNest)
        if not position.loops and has_same_tokens(text, self._original[nest.start : nest.end]):
            position = replace(position, time_components=(*position.time_components, *map(time_component, nest.loops)))
            return [EmittedStatement(name, tuple(nest.loops), position, self._model.nest_domain(nest_number))]
        num_outer_loops = max(len(position.loops) - len(nest.loops), 0)
        outer, loops = position.loops[:num_outer_loops], position.loops[num_outer_loops:]
        is_same_text = has_same_tokens(text, self._original[nest.body_span[0] : nest.body_span[1]])
        has_only_new_iterators = all(self._code.is_new_name(loop.iterator.text) for loop in outer)
        return (
            [EmittedStatement(name, loops, position)]
            if is_same_text and has_only_new_iterators and _iterator_names(loops) == _iterator_names(nest.loops)
            else None
        )


def _iterator_names(loops: Iterable[Loop]) -> list[str]:
    """Returns the names of the loops' iterators."""
    return [loop.iterator.text for loop in loops]


def _contains_text(node: SyntaxNode, start: int, end: int) -> bool:
    """Returns whether a syntax node contains the text between two source offsets."""
    return node.offset <= start and end <= node.end


def _innermost_block(node: SyntaxNode, start: int, end: int) -> SyntaxNode | None:
    """Returns the innermost block that contains the text between two source offsets; None if there is none. Only the
    starts of nodes are reliable, not their ends, so only the last children that begin before the text are searched."""
    begun = max((child.offset for child in node.children if child.offset <= start), default=-1)
    for child in reversed(node.children):
        if child.offset == begun and (found := _innermost_block(child, start, end)):
            return found
    return node if node.kind == Kind.COMPOUND_STMT and _contains_text(node, start, end) else None


__all__ = ["NotEquivalent", "Validator"]
