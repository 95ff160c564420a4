"""Integer polynomials over a program's variables, the form into which array indices and loop bounds are converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Symbol:
    """A variable, a named constant, or an expression that is invariant in the region. `value` is the value of a
    constant, `variables` are the declarations that the expression reads, `meaning` is the polynomial that the symbol
    stands for."""

    key: str
    text: str
    value: int | None = None
    iterator: bool = False
    variables: frozenset[int] = frozenset()
    meaning: Poly | None = None
    stable: bool = True  # the value never changes in the function
    foreign: bool = False  # `text` has names of a callee, which mean nothing in the function of the region
    natural: bool = False  # never negative, since the type is unsigned
    may_fail: bool = False  # may trap, for example by a division, if evaluated where the original program does not


class Poly:
    """A polynomial with integer coefficients. Its variables are keys of symbols; `terms` maps each product of keys to
    its coefficient."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int] | None = None) -> None:
        self.terms = {monomial: factor for monomial, factor in (terms or {}).items() if factor}

    @staticmethod
    def from_constant(value: int) -> Poly:
        return Poly({(): value})

    @staticmethod
    def from_symbol(key: str) -> Poly:
        return Poly({(key,): 1})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Poly(terms)

    def __neg__(self) -> Poly:
        return Poly({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        made = Poly()
        for one, factor in self.terms.items():
            made += Poly({tuple(sorted(one + two)): factor * other_factor for two, other_factor in other.terms.items()})
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return " + ".join("*".join((str(factor), *monomial)) for monomial, factor in self.terms.items()) or "0"

    @property
    def constant(self) -> int | None:
        """Returns the value of a constant polynomial; None if the polynomial has variables."""
        return self.terms.get((), 0) if not set(self.terms) - {()} else None

    @property
    def keys(self) -> set[str]:
        """Returns the keys of all symbols in the polynomial."""
        return {key for monomial in self.terms for key in monomial}

    def divide_by_product(self, stride: Monomial) -> tuple[Poly, Poly]:
        """Returns quotient and remainder of the division by a product of variables."""
        quotient: dict[Monomial, int] = {}
        remainder: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            rest = list(monomial)
            try:
                for key in stride:
                    rest.remove(key)
                quotient[tuple(rest)] = factor
            except ValueError:
                remainder[monomial] = factor
        return Poly(quotient), Poly(remainder)


ZERO = Poly()
ONE = Poly.from_constant(1)
