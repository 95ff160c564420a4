"""Parses emitted code and proves it again, independently of the code that wrote it.

Each copy of a nest's body must be the original text token by token; the loops and conditions around the copies must
together execute each instance once; and the order must keep every dependence."""

from __future__ import annotations

import re
from dataclasses import replace

import islpy as isl

from nearfield.rewrite.analysis.expressions import Expressions
from nearfield.rewrite.analysis.loop_bounds import canonical_loop, iterator_key, secondary_induction_variables
from nearfield.rewrite.analysis.polynomials import Poly
from nearfield.rewrite.analysis.program import Call, Nest
from nearfield.rewrite.check.equivalence import EmittedPiece, EquivalenceProof, Invalid
from nearfield.rewrite.check.match_calls import EmittedCode, UnchunkedCalls
from nearfield.rewrite.check.match_chunked_calls import ChunkedCalls
from nearfield.rewrite.codegen.emit import Emitted
from nearfield.rewrite.frontend.clang import Kind, Node, Unit
from nearfield.rewrite.frontend.function import Function
from nearfield.rewrite.frontend.text import group_end, same_tokens
from nearfield.rewrite.model.polyhedral import Model
from nearfield.rewrite.model.schedule import CallStep


class Validator:
    """Validates the code that was emitted for one region of a function."""

    def __init__(self, model: Model, original: str, emitted: Emitted, guard: isl.Set, *, by_value: bool) -> None:
        self._model, self._original, self._guard, self._by_value = model, original, guard, by_value
        self._emitted = emitted

    def check(self, unit: Unit, function_name: str, start: int, end: int) -> None:
        """Raises Invalid unless the code between the offsets of the new text is equivalent to the region."""
        if problem := unit.problem:
            raise Invalid(f"the new code does not compile: {problem}")
        node = unit.function_at(function_name, start, end)
        if node is None:
            raise Invalid("the function is not found in the new code")
        block = _block(node, start, end)
        if block is None:
            raise Invalid("the block is not found in the new code")
        self._unit = unit
        statements = self._skip_declarations([one for one in block.children if start <= one.offset < end])
        original = statements[0].children[2:] if self._emitted.condition and statements else []
        reader = Expressions(Function(node, *original), by_value=self._by_value)
        self._read = EmittedCode(self._model, self._guard, self._original, unit, reader, list(self._emitted.pieces))
        self._calls, self._chunked = UnchunkedCalls(self._read), ChunkedCalls(self._read)
        for number, statement in enumerate(self._skip_guard(statements)):
            self._statement(statement, EmittedPiece((str(number),)))
        if self._read.expected:
            raise Invalid("a part of the region is missing in the new code")
        EquivalenceProof(self._model, self._guard, self._read.pieces, self._read.names).check()

    # ---- what stands around the new code

    def _skip_declarations(self, statements: list[Node]) -> list[Node]:
        """Returns the statements after the region's declarations, which must come first and be unchanged."""
        declared = [self._original[start:end] for start, end in self._model.region.declared]
        found = [self._unit.text[one.offset : self._unit.statement_end(one)] for one in statements[: len(declared)]]
        if len(found) != len(declared) or not all(map(same_tokens, found, declared)):
            raise Invalid("a declaration is not found in the new code")
        return statements[len(declared) :]

    def _skip_guard(self, statements: list[Node]) -> list[Node]:
        """Returns the statements under the guard, after the static assertion."""
        if self._emitted.condition:
            statements = self._check_guard(statements)
        if not self._emitted.asserted:
            return statements
        if not re.match(r"(_S|s)tatic_assert\b", self._unit.text[statements[0].offset :]):
            raise Invalid("the assertion is not found in the new code")
        return statements[1:]

    def _check_guard(self, statements: list[Node]) -> list[Node]:
        """Returns the statements under the guard; the else branch must be the original code."""
        if len(statements) != 1 or statements[0].kind != Kind.IF_STMT or len(statements[0].children) != 3:
            raise Invalid("the guard is not found in the new code")
        test, new, old = statements[0].children
        text = self._read.text(old).strip()
        if not same_tokens(text[1:-1], self._model.region.text(self._original)):
            raise Invalid("the code under 'else' is not the original one")
        known = self._model.context
        said = isl.Set(f"{self._read.names.head()}{{ : {self._without_check(test, statements[0].offset)} }}")
        if not said.intersect(known).is_subset(self._guard.union(known.complement())):
            raise Invalid(f"the guard in the new code allows more than {self._guard.gist(known)}")
        return new.children

    def _without_check(self, test: Node, offset: int) -> str:
        """Returns the guard as a constraint, without the alias check that precedes it. The whole condition must be as
        written; the static assertion need not be in it."""
        text, names, nowhere = self._unit.text, self._read.names, EmittedPiece(())
        start = text.index("(", offset)
        if not same_tokens(text[start + 1 : group_end(text, start) - 1], self._emitted.condition):
            raise Invalid("the guard in the new code is not the one that was written")
        if self._emitted.check:  # it affects nothing where the guard does not hold
            names.no_number_wraps(test, nowhere, self._guard)
        if self._emitted.asserted:
            return self._values()
        if self._emitted.check and not self._emitted.guard:
            return "1 = 1"
        guard = test.bare.children[1] if self._emitted.check else test
        names.no_number_wraps(guard, nowhere, self._model.context)
        return names.test(guard)

    def _values(self) -> str:
        """Returns the statically asserted guard as a constraint."""
        parameters = self._guard.gist(self._model.context)
        return str(parameters).split(":", 1)[1].rsplit("}", 1)[0].strip() or "1 = 1"

    # ---- the new code

    def _statement(self, node: Node, piece: EmittedPiece) -> None:
        if self._is_expected(node, piece):
            return
        if node.kind == Kind.FOR_STMT and (counted := self._chunked.chunked_call(node)):
            with self._chunked.loop(node, *counted, piece) as inside:
                self._several(node.children[-1], inside)
        elif node.kind == Kind.FOR_STMT:
            self._loop(node, piece)
        elif node.kind == Kind.IF_STMT:
            self._branches(node, piece)
        elif node.kind == Kind.COMPOUND_STMT:
            self._several(node, piece)
        elif node.kind != Kind.DECL_STMT or not self._is_declared(node, piece):
            raise Invalid(f"a statement is not expected in the new code: {self._read.text(node)[:60]}")

    def _several(self, block: Node, piece: EmittedPiece) -> None:
        for number, child in enumerate(block.children):
            self._statement(child, replace(piece, time=(*piece.time, str(number))))

    def _branches(self, node: Node, piece: EmittedPiece) -> None:
        test, *branches = node.children
        self._read.names.no_number_wraps(test, piece, self._guard)
        for number, branch in enumerate(branches):
            words = self._read.names.test(test)
            words = words if number == 0 else f"not ({words})"
            self._statement(branch, replace(piece, tests=[*piece.tests, words], time=(*piece.time, str(number))))

    def _loop(self, node: Node, piece: EmittedPiece) -> None:
        reader = self._read.reader
        loop = canonical_loop(node, reader)
        if isinstance(loop, str) or secondary_induction_variables(node):
            raise Invalid(f"a loop of the new code is not understood: {loop}")
        for part in node.children[:-1]:
            self._read.names.no_number_wraps(part, piece, self._guard)
        key = iterator_key(node)
        reader.bound[key] = Poly.of(loop.iterator.key)
        time = (*piece.time, f"{'-' if loop.down else ''}c_{loop.iterator.text}")
        self._statement(node.children[-1], replace(piece, loops=[*piece.loops, loop], time=time))
        del reader.bound[key]

    def _is_declared(self, node: Node, piece: EmittedPiece) -> bool:
        """Returns whether a declaration is one that the emitted code needs: of requests, or of a chunk's length."""
        if not piece.is_alone:
            return False
        return self._chunked.declares(node, piece) if piece.chunk_loop else self._calls.declares(node)

    def _is_expected(self, node: Node, piece: EmittedPiece) -> bool:
        """Returns whether a statement is the next expected step, and consumes it if so."""
        if not self._read.expected:
            return False
        step = self._read.expected[0]
        item = self._model.region.items[step.call if isinstance(step, CallStep) else step]
        if not isinstance(step, CallStep):
            assert isinstance(item, Nest)
            return self._is_nest_copy(node, step, item, piece)
        assert isinstance(item, Call)
        if not piece.is_alone:
            return False
        if item.chunking or piece.chunk_loop:
            return self._chunked.is_chunk(node, step, item, piece)
        return self._calls.is_event(node, step, item, piece)

    def _is_nest_copy(self, node: Node, number: int, nest: Nest, piece: EmittedPiece) -> bool:
        text = self._read.text(node)
        if piece.is_alone and not piece.chunk_loop and same_tokens(text, self._original[nest.start : nest.end]):
            times = (*piece.time, *(f"{'-' if loop.down else ''}c_{loop.iterator.text}" for loop in nest.loops))
            return self._read.take(replace(piece, step=number, loops=nest.loops, time=times))
        if len(piece.loops) == len(nest.loops) and same_tokens(text, self._original[nest.body[0] : nest.body[1]]):
            names = [loop.iterator.text for loop in piece.loops]
            return names == [loop.iterator.text for loop in nest.loops] and self._read.take(replace(piece, step=number))
        return False


def _holds(node: Node, start: int, end: int) -> bool:
    return node.offset <= start and end <= node.end


def _block(node: Node, start: int, end: int) -> Node | None:
    """Returns the innermost block that contains the text between two offsets. Ends of nodes are not reliable, their
    starts are: only the last children that begin before the text can contain it."""
    begun = max((child.offset for child in node.children if child.offset <= start), default=-1)
    for child in reversed(node.children):
        if child.offset == begun and (found := _block(child, start, end)):
            return found
    return node if node.kind == Kind.COMPOUND_STMT and _holds(node, start, end) else None


__all__ = ["Invalid", "Validator"]
