"""Translates polynomials, conditions and loops of emitted code into the isl names of the region's model."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine
from nearfield.rewrite.analysis.polynomials import Polynomial
from nearfield.rewrite.analysis.program import Loop
from nearfield.rewrite.frontend.clang import SyntaxNode
from nearfield.rewrite.frontend.conversions import UNSIGNED_TYPES
from nearfield.rewrite.model.polyhedral import PolyhedralModel

_COMPARISON_OPERATORS = ("<", "<=", ">", ">=", "==")


class NotEquivalent(Exception):
    """Raised if emitted code cannot be proved equivalent to the region."""


@dataclass(frozen=True)
class CodePosition:
    """A position in the emitted code: statement numbers and loop iterators, which form its execution time, and the
    loops and conditions around it, from the outermost to the innermost."""

    time_components: tuple[str, ...] = ()
    loops: tuple[Loop, ...] = ()
    conditions: tuple[str, ...] = ()  # isl constraints


def iterator_variable(loop: Loop) -> str:
    """Returns the isl name for the iterator of a loop in emitted code."""
    return f"c_{loop.iterator.text}"


def time_component(loop: Loop) -> str:
    """Returns a component of the execution time inside a loop, which ascends in the order of execution: the iterator,
    negated for a descending loop."""
    return f"{'-' if loop.is_descending else ''}{iterator_variable(loop)}"


class IslTranslation:
    """Translates what `reader` reads in the emitted code into isl's syntax."""

    def __init__(self, model: PolyhedralModel, reader: ExpressionReader) -> None:
        self._model, self._reader = model, reader

    def parameter_prefix(self) -> str:
        """Returns the beginning of an isl expression, which declares all parameters of the model."""
        return self._model.names.parameter_prefix()

    def affine_text(self, polynomial: Polynomial) -> str:
        """Returns a polynomial in the isl names of the model. Symbols of the emitted code are looked up by their source
        text. Raises NotEquivalent if one is unknown in the region."""
        terms = [str(polynomial.terms.get((), 0))]
        key_by_text = self._symbol_keys_by_text()
        for monomial, factor in polynomial.terms.items():
            if not monomial:
                continue
            symbols = [self._reader.symbols[key] for key in monomial]
            if any(symbol.is_iterator for symbol in symbols):
                if len(symbols) > 1:
                    raise NotEquivalent("a bound of the new code is not affine")
                terms.append(f"{factor}*c_{symbols[0].text}")
                continue
            if (
                len(symbols) == 1
                and symbols[0].equivalent_polynomial is not None
                and symbols[0].text not in key_by_text
            ):
                terms.append(f"{factor}*({self.affine_text(symbols[0].equivalent_polynomial)})")
                continue
            texts = tuple(sorted(symbol.text for symbol in symbols))
            keys = [key_by_text.get(text) for text in texts]
            if any(key is None for key in keys):
                raise NotEquivalent(f"{' '.join(texts)} is not known in the region")
            ordered = tuple(sorted(str(key) for key in keys))
            terms.append(f"{factor}*{self._model.names.parameter_name(ordered)}")
        return " + ".join(terms)

    def _symbol_keys_by_text(self) -> dict[str, str]:
        """Returns the keys of the region's symbols by their source text. Raises NotEquivalent if two symbols have the
        same text."""
        key_by_text: dict[str, str] = {}
        for symbol in self._model.region.symbols.values():
            if (
                not symbol.is_iterator
                and not symbol.has_callee_names
                and key_by_text.setdefault(symbol.text, symbol.key) != symbol.key
            ):
                raise NotEquivalent(f"{symbol.text} names two variables")
        return key_by_text

    def condition_constraint(self, node: SyntaxNode) -> str:
        """Returns a C condition in the emitted code as an isl constraint. Raises NotEquivalent if it is not affine."""
        node = node.without_casts
        if node.operator in ("&&", "||"):
            left, right = (self.condition_constraint(child) for child in node.children)
            return f"({left} {'and' if node.operator == '&&' else 'or'} {right})"
        if node.operator in _COMPARISON_OPERATORS:
            try:
                left, right = (self.affine_text(self._reader.to_polynomial(child)) for child in node.children)
            except NotAffine as why:
                raise NotEquivalent(f"a condition of the new code is not affine: {why.reason}") from why
            return f"({left} {'=' if node.operator == '==' else node.operator} {right})"
        raise NotEquivalent("a condition of the new code is not understood")

    def loop_constraint(self, loop: Loop) -> str:
        """Returns the isl constraint on the iterator of a loop."""
        name = iterator_variable(loop)
        constraints = [f"{name} >= {self.affine_text(one)}" for one in loop.lower_bounds]
        constraints += [f"{name} < {self.affine_text(one)}" for one in loop.upper_bounds]
        if loop.step > 1:
            constraints.append(
                f"exists s_{name}: {name} = {self.affine_text(loop.lower_bounds[0])} + {loop.step}*s_{name}"
            )
        return " and ".join(f"({one})" for one in constraints)

    # ---- unsigned numbers that may wrap around

    def check_no_wraparound(self, node: SyntaxNode, position: CodePosition, parameter_facts: isl.Set) -> None:
        """Raises NotEquivalent if an unsigned expression of the emitted code may wrap below zero, given the known facts
        on parameters and the loops and conditions around the expression."""
        parameter_facts = parameter_facts.intersect(self._known_parameter_facts())
        for inner in node.walk():
            if inner.type.kind not in UNSIGNED_TYPES or not self._may_be_negative(inner):
                continue
            try:
                poly = self._reader.to_polynomial(inner)
            except NotAffine:
                continue
            if (
                poly.constant is None
                and not self._negative_iterations(poly, position).intersect_params(parameter_facts).is_empty()
            ):
                raise NotEquivalent("a number without sign would be negative in the new code")

    @staticmethod
    def _may_be_negative(node: SyntaxNode) -> bool:
        """Returns whether an unsigned expression may have a negative mathematical value: it is a difference, or a
        converted signed number."""
        return (
            node.operator == "-"
            or node.without_casts is not node
            and node.without_casts.type.kind not in UNSIGNED_TYPES
        )

    def _negative_iterations(self, polynomial: Polynomial, position: CodePosition) -> isl.Set:
        """Returns the loop iterations for which a polynomial is negative, as an isl set."""
        constraints = [
            *map(self.loop_constraint, position.loops),
            *(f"({test})" for test in position.conditions),
            f"({self.affine_text(polynomial)} < 0)",
        ]
        dims = ", ".join(map(iterator_variable, position.loops))
        return isl.Set(f"{self.parameter_prefix()}{{ [{dims}] : {' and '.join(constraints)} }}")

    def _known_parameter_facts(self) -> isl.Set:
        """Returns the known facts on parameters: the values of constants, and that unsigned values and the bounds of
        unsigned loops are not negative."""
        constraints = []
        for symbol in self._model.region.symbols.values():
            name = self._model.names.parameters.get((symbol.key,))
            if name is not None and symbol.constant_value is not None:
                constraints.append(f"{name} = {symbol.constant_value}")
            elif name is not None and symbol.is_nonnegative:
                constraints.append(f"{name} >= 0")
        for loop in [loop for nest in self._model.region.nests for loop in nest.loops if loop.is_unsigned]:
            for upper in loop.upper_bounds:
                if not any(self._model.region.symbols[key].is_iterator for key in upper.keys):
                    constraints.append(f"{self._model.names.affine_text(upper)} >= 0")
        return self._model.names.parameter_set(constraints)
