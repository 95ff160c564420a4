"""Recognizes statements whose call can be inlined."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.rewrite.frontend.callee_lookup import ProgramFunctions
from nearfield.rewrite.frontend.clang import Kind, SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts


@dataclass(frozen=True)
class CallSite:
    """A call site that can be inlined: a statement `f(x);` or `y = f(x);` that calls a function of the file."""

    statement: SyntaxNode
    call: SyntaxNode
    callee: FunctionFacts
    result_variable: SyntaxNode | None = None  # the variable that the return value is assigned to

    @property
    def parameters(self) -> list[SyntaxNode]:
        """Returns the declarations of the callee's parameters."""
        return [child for child in self.callee.node.children if child.kind == Kind.PARM_DECL]

    @property
    def arguments(self) -> list[SyntaxNode]:
        """Returns the argument expressions of the call."""
        return self.call.arguments


def call_site_of(statement: SyntaxNode, functions: ProgramFunctions) -> CallSite | None:
    """Returns the call site if a statement is a call, or an assignment from a call, of a function whose definition is
    known; None otherwise."""
    node, result_variable = statement.without_casts, None
    if node.operator == "=" and node.kind == Kind.BINARY_OPERATOR and node.children[0].kind == Kind.DECL_REF_EXPR:
        result_variable, node = node.children[0], node.children[1].without_casts
    if node.kind != Kind.CALL_EXPR:
        return None
    callee = functions.definition_of(node)
    return (
        CallSite(statement, node, callee, result_variable) if callee is not None and callee.body is not None else None
    )
