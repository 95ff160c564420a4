"""Reads the conditions under which the branches of a test are executed."""

from __future__ import annotations

from nearfield.rewrite.analysis.expressions import Expressions, NotAffine, words_of
from nearfield.rewrite.analysis.polynomials import ONE
from nearfield.rewrite.analysis.program import Condition
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.conversions import UNSIGNED
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def never(test: Node, holds: bool) -> bool:
    """Returns whether a test is known to fail: it is constant, or it checks the error code of an MPI call, which does
    not fail in correct programs."""
    test = test.bare
    if test.operator == ("!=" if holds else "==") and any(words_of(one) == "MPI_SUCCESS" for one in test.children):
        return True
    value = test.value
    quiet = not any(one.kind == Kind.CALL_EXPR or one.operator in (*ASSIGNMENTS, *INCREMENTS) for one in test.walk())
    return value is not None and bool(value) != holds and quiet


def conditions(test: Node, reader: Expressions, holds: bool) -> list[Condition]:
    """Returns the affine conditions that hold where a test succeeds, or where it fails; none if the test is not
    affine."""
    test = test.bare
    if test.operator == ("&&" if holds else "||"):
        return [one for child in test.children for one in conditions(child, reader, holds)]
    if test.operator not in _COMPARISONS:
        return []
    try:
        left, right = (reader.integer(child) for child in test.children)
    except NotAffine:
        return []
    if any(child.type.kind in UNSIGNED for child in test.children) and not all(map(reader.natural, test.children)):
        return []  # if a number may be negative, the comparison is one of wrapped values
    operator = test.operator
    if not holds:
        operator = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[operator]
    return {
        "<": [Condition(right - left - ONE)], "<=": [Condition(right - left)],
        ">": [Condition(left - right - ONE)], ">=": [Condition(left - right)],
        "==": [Condition(left - right, equal=True)], "!=": [],
    }[operator]  # fmt: skip
