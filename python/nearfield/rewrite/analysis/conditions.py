"""Reads the conditions under which the branches of an `if` are executed."""

from __future__ import annotations

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE
from nearfield.rewrite.analysis.program import Condition
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.conversions import UNSIGNED, converts_to_signed
from nearfield.rewrite.frontend.function import ASSIGNMENTS, INCREMENTS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import is_plain_mpi_call

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def _tests_return_code(test: Node, function: FunctionFacts) -> bool:
    """Returns whether a comparison with MPI_SUCCESS is of an MPI call, or of a local variable that only holds return
    codes of such calls."""
    others = [one.bare for one in test.children if source_text_of(one) != "MPI_SUCCESS"]
    if len(test.children) != 2 or len(others) != 1 or "MPI_SUCCESS" in test.unit.macros:
        return False
    if _is_return_code(others[0]):
        return True
    declared = others[0].declaration if others[0].kind == Kind.DECL_REF_EXPR else None
    if declared is None or declared.key not in function.declared or declared.key in function.address_taken:
        return False
    first = initial_value(declared)
    changes = function.changes.get(declared.key, [])
    values = [*([first] if first is not None else []), *(one.children[1] for one in changes if one.operator == "=")]
    plain = declared.kind == Kind.VAR_DECL and all(one.operator == "=" for one in changes)
    return bool(values) and plain and all(_is_return_code(one.bare) for one in values)


def _is_return_code(node: Node) -> bool:
    """Returns whether an expression has the value MPI_SUCCESS in a program without errors."""
    return node.kind == Kind.CALL_EXPR and is_plain_mpi_call(node.name) or node.value == 0


def is_branch_never_taken(test: Node, holds: bool, function: FunctionFacts) -> bool:
    """Returns whether an `if` test is known never to be true (`holds`) or never to be false (not `holds`): the test is
    constant, or checks the error code of an MPI call, which does not fail in correct programs."""
    test = test.bare
    if test.operator == ("!=" if holds else "==") and _tests_return_code(test, function):
        return True
    value = test.value
    quiet = not any(one.kind == Kind.CALL_EXPR or one.operator in (*ASSIGNMENTS, *INCREMENTS) for one in test.walk())
    return value is not None and bool(value) != holds and quiet


def branch_conditions(test: Node, reader: ExpressionReader, holds: bool) -> list[Condition]:
    """Returns the affine conditions that hold in the branch where an `if` test is true (`holds`) or false; none if the
    test is not affine."""
    test = test.bare
    if test.operator == ("&&" if holds else "||"):
        return [one for child in test.children for one in branch_conditions(child, reader, holds)]
    if test.operator not in _COMPARISONS:
        return []
    try:
        left, right = (reader.to_polynomial(child) for child in test.children)
    except NotAffine:
        return []
    if any(child.type.kind in UNSIGNED for child in test.children) and not all(
        map(reader.is_never_negative, test.children)
    ):
        return []  # if a number may be negative, the unsigned comparison is of wrapped values
    if any(map(converts_to_signed, test.children)):
        return []  # a large number without sign is negative in the comparison
    operator = test.operator
    if not holds:
        operator = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[operator]
    return {
        "<": [Condition(right - left - ONE)], "<=": [Condition(right - left)],
        ">": [Condition(left - right - ONE)], ">=": [Condition(left - right)],
        "==": [Condition(left - right, equal=True)], "!=": [],
    }[operator]  # fmt: skip
