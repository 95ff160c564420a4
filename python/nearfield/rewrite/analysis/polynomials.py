"""Integer polynomials over a program's variables, the form in which indices and bounds are read from source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Symbol:
    """A variable, a named constant, or an expression that is invariant in the region. `value` is that of a constant,
    `variables` are the declarations that it reads, `meaning` is the polynomial that it stands for."""

    key: str
    text: str
    value: int | None = None
    iterator: bool = False
    variables: frozenset[int] = frozenset()
    meaning: Poly | None = None
    stable: bool = True  # it never changes in its function
    foreign: bool = False  # its text means nothing in the region's function
    natural: bool = False  # never negative, since its type is unsigned
    may_fail: bool = False  # evaluating it where the original does not may end the program


class Poly:
    """A polynomial with integer coefficients; its variables are keys of symbols."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int] | None = None) -> None:
        self.terms = {monomial: factor for monomial, factor in (terms or {}).items() if factor}

    @staticmethod
    def number(value: int) -> Poly:
        return Poly({(): value})

    @staticmethod
    def of(key: str) -> Poly:
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
        """Returns the constant value; None if the polynomial has variables."""
        return self.terms.get((), 0) if not set(self.terms) - {()} else None

    @property
    def keys(self) -> set[str]:
        return {key for monomial in self.terms for key in monomial}

    def divided(self, stride: Monomial) -> tuple[Poly, Poly]:
        """Returns quotient and remainder by a product of variables."""
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
ONE = Poly.number(1)
