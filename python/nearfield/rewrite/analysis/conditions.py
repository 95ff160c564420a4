"""Reads the conditions under which the branches of an `if` are executed."""

from __future__ import annotations

from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, source_text_of
from nearfield.rewrite.analysis.polynomials import ONE
from nearfield.rewrite.analysis.program import Condition
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode
from nearfield.rewrite.frontend.conversions import UNSIGNED_TYPES, converts_to_signed
from nearfield.rewrite.frontend.function import ASSIGNMENT_OPERATORS, INCREMENT_OPERATORS, FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import is_plain_mpi_call

_COMPARISON_OPERATORS = ("<", "<=", ">", ">=", "==", "!=")


def _tests_return_code(test: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a comparison with MPI_SUCCESS is of an MPI call, or of a local variable that only holds return
    codes of such calls."""
    compared_operands = [one.without_casts for one in test.children if source_text_of(one) != "MPI_SUCCESS"]
    if len(test.children) != 2 or len(compared_operands) != 1 or "MPI_SUCCESS" in test.unit.macros:
        return False
    if _is_return_code(compared_operands[0]):
        return True
    declaration = compared_operands[0].declaration if compared_operands[0].kind == Kind.DECL_REF_EXPR else None
    if declaration is None or declaration.key not in function.declarations or declaration.key in function.address_taken:
        return False
    first = initial_value(declaration)
    changes = function.changes.get(declaration.key, [])
    values = [*([first] if first is not None else []), *(one.children[1] for one in changes if one.operator == "=")]
    plain = declaration.kind == Kind.VAR_DECL and all(one.operator == "=" for one in changes)
    return bool(values) and plain and all(_is_return_code(one.without_casts) for one in values)


def _is_return_code(node: SyntaxNode) -> bool:
    """Returns whether an expression has the value MPI_SUCCESS in a program without errors."""
    return node.kind == Kind.CALL_EXPR and is_plain_mpi_call(node.name) or node.constant_value == 0


def is_branch_never_taken(test: SyntaxNode, is_true: bool, function: FunctionFacts) -> bool:
    """Returns whether an `if` test is known never to be true (`is_true`) or never to be false (not `is_true`): the test
    is constant, or checks the error code of an MPI call, which does not fail in correct programs."""
    test = test.without_casts
    if test.operator == ("!=" if is_true else "==") and _tests_return_code(test, function):
        return True
    value = test.constant_value
    quiet = not any(
        one.kind == Kind.CALL_EXPR or one.operator in (*ASSIGNMENT_OPERATORS, *INCREMENT_OPERATORS)
        for one in test.walk()
    )
    return value is not None and bool(value) != is_true and quiet


def branch_conditions(test: SyntaxNode, reader: ExpressionReader, is_true: bool) -> list[Condition]:
    """Returns the affine conditions that hold in the branch where an `if` test is true (`is_true`) or false; none if
    the test is not affine."""
    test = test.without_casts
    if test.operator == ("&&" if is_true else "||"):
        return [one for child in test.children for one in branch_conditions(child, reader, is_true)]
    if test.operator not in _COMPARISON_OPERATORS:
        return []
    try:
        left, right = (reader.to_polynomial(child) for child in test.children)
    except NotAffine:
        return []
    if any(child.type.kind in UNSIGNED_TYPES for child in test.children) and not all(
        map(reader.is_never_negative, test.children)
    ):
        return []  # if a number may be negative, the unsigned comparison is of wrapped values
    if any(map(converts_to_signed, test.children)):
        return []  # a large number without sign is negative in the comparison
    operator = test.operator
    if not is_true:
        operator = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[operator]
    return {
        "<": [Condition(right - left - ONE)], "<=": [Condition(right - left)],
        ">": [Condition(left - right - ONE)], ">=": [Condition(left - right)],
        "==": [Condition(left - right, is_equality=True)], "!=": [],
    }[operator]  # fmt: skip
