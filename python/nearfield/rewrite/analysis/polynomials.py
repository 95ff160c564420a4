"""Integer polynomials over a program's variables, the form into which array indices and loop bounds are converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Symbol:
    """A variable, a named constant, or an expression that is invariant in the region. `constant_value` is the value of
    a constant, `variable_keys` are the declarations that the expression reads, `equivalent_polynomial` is the
    polynomial that the symbol stands for."""

    key: str
    text: str
    constant_value: int | None = None
    is_iterator: bool = False
    variable_keys: frozenset[int] = frozenset()
    equivalent_polynomial: Polynomial | None = None
    is_function_invariant: bool = True  # the value never changes in the function
    has_callee_names: bool = False  # `text` has names of a callee, which mean nothing in the function of the region
    is_nonnegative: bool = False  # never negative, since the type is unsigned
    may_trap: bool = False  # may trap, for example by a division, if evaluated where the original program does not


class Polynomial:
    """A polynomial with integer coefficients. Its variables are keys of symbols; `terms` maps each product of keys to
    its coefficient."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int] | None = None) -> None:
        self.terms = {monomial: factor for monomial, factor in (terms or {}).items() if factor}

    @staticmethod
    def from_constant(value: int) -> Polynomial:
        return Polynomial({(): value})

    @staticmethod
    def from_symbol(key: str) -> Polynomial:
        return Polynomial({(key,): 1})

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        product = Polynomial()
        for one, factor in self.terms.items():
            product += Polynomial(
                {tuple(sorted(one + two)): factor * other_factor for two, other_factor in other.terms.items()}
            )
        return product

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

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

    def divide_by_product(self, divisor: Monomial) -> tuple[Polynomial, Polynomial]:
        """Returns quotient and remainder of the division by a product of variables."""
        quotient: dict[Monomial, int] = {}
        remainder: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            remaining_keys = list(monomial)
            try:
                for key in divisor:
                    remaining_keys.remove(key)
                quotient[tuple(remaining_keys)] = factor
            except ValueError:
                remainder[monomial] = factor
        return Polynomial(quotient), Polynomial(remainder)


ZERO = Polynomial()
ONE = Polynomial.from_constant(1)
