"""Writes polynomials, iteration domains and accesses in isl's syntax, with short names in place of the program's
names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import islpy as isl

from nearfield.rewrite.analysis.expressions import NotAffine
from nearfield.rewrite.analysis.polynomials import Polynomial, Symbol
from nearfield.rewrite.analysis.program import Condition, Loop
from nearfield.rewrite.model.isl_sets import tuple_text


class IslNames:
    """The isl names of a region's symbols: parameters are p0, p1, ...; loop iterators are i0, i1, ...; arrays are A0,
    A1, ... A product of parameters is a parameter of its own."""

    def __init__(self, symbols: dict[str, Symbol]) -> None:
        self.symbols = symbols
        self.parameters: dict[tuple[str, ...], str] = {}
        self._iterators: dict[str, str] = {}
        self._arrays: dict[str, str] = {}

    def array_name(self, key: str) -> str:
        """Returns the isl name of an array or variable."""
        return self._arrays.setdefault(key, f"A{len(self._arrays)}")

    def iterator_name(self, key: str) -> str:
        """Returns the isl name of a loop iterator."""
        return self._iterators.setdefault(key, f"i{len(self._iterators)}")

    def parameter_name(self, keys: tuple[str, ...]) -> str:
        """Returns the isl name of a parameter, which may be a product of symbols."""
        return self.parameters.setdefault(keys, f"p{len(self.parameters)}")

    def affine_text(self, polynomial: Polynomial) -> str:
        """Returns an affine polynomial in isl's syntax. Raises NotAffine for any other polynomial."""
        terms_text = [str(polynomial.terms.get((), 0))]
        for monomial, factor in polynomial.terms.items():
            if not monomial:
                continue
            iterators = [key for key in monomial if key in self._iterators or self._is_iterator(key)]
            if iterators and len(monomial) > 1:
                raise NotAffine("a loop's variable is multiplied by a variable", 0)
            name = self.iterator_name(monomial[0]) if iterators else self.parameter_name(monomial)
            terms_text.append(f"{factor}*{name}")
        return " + ".join(terms_text)

    def _is_iterator(self, key: str) -> bool:
        """Returns whether a key is that of a loop iterator."""
        symbol = self.symbols.get(key)
        return symbol is not None and symbol.is_iterator

    def loop_constraints(self, loops: Iterable[Loop]) -> list[str]:
        """Returns the isl constraints on the iterators of loops."""
        constraints = []
        for number, loop in enumerate(loops):
            name = self.iterator_name(loop.iterator.key)
            constraints += [f"{name} >= {self.affine_text(one)}" for one in loop.lower_bounds]
            constraints += [f"{name} < {self.affine_text(one)}" for one in loop.upper_bounds]
            if loop.step > 1:
                constraints.append(
                    f"exists s{number}: {name} = {self.affine_text(loop.lower_bounds[0])} + {loop.step}*s{number}"
                )
        return [f"({one})" for one in constraints]

    def condition_constraints(self, conditions: Iterable[Condition]) -> list[str]:
        """Returns conditions as isl constraints; conditions that are not affine are omitted."""
        constraints = []
        for one in conditions:
            try:
                constraints.append(f"({self.affine_text(one.polynomial)} {'=' if one.is_equality else '>='} 0)")
            except NotAffine:
                continue
        return constraints

    def parameter_prefix(self) -> str:
        """Returns the beginning of an isl expression, which declares all parameters."""
        return f"[{', '.join(self.parameters.values())}] -> "

    def make_set(self, tuple_name: str, dims: Sequence[str], constraints: Sequence[str]) -> isl.Set:
        """Returns the isl set of tuples with this name and these dimensions that satisfy the constraints."""
        where = f" : {' and '.join(constraints)}" if constraints else ""
        return isl.Set(f"{self.parameter_prefix()}{{ {tuple_text(tuple_name, dims)}{where} }}")

    def make_map(
        self, source: str, target: str, constraints: Sequence[str] = (), exists: Sequence[str] = ()
    ) -> isl.Map:
        """Returns the isl map between two tuples for which the constraints hold, for some values of the variables in
        `exists`."""
        some = f"exists {', '.join(exists)}: " if exists else ""
        where = f" : {some}{' and '.join(constraints)}" if constraints else ""
        return isl.Map(f"{self.parameter_prefix()}{{ {source} -> {target}{where} }}")

    def parameter_set(self, constraints: Sequence[str]) -> isl.Set:
        """Returns the isl set of parameter values that satisfy the constraints."""
        return isl.Set(f"{self.parameter_prefix()}{{ : {' and '.join(constraints)} }}")
