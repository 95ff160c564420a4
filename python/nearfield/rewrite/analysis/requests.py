"""Decides whether MPI requests may belong to messages that were begun outside of a region."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value

# MPI calls that do not activate the request passed to them.
_BEGIN_NOTHING = re.compile(
    r"P?MPI_(?:Wait|Waitall|Test|Testall|Waitany|Waitsome|Testany|Testsome|Request_free|(?:[bsr]?send|recv)_init)", re.I
)
_MAKE_MEMORY = ("malloc", "calloc")


def active_request_reason(use: Node, function: FunctionFacts) -> str:
    """Returns how a use of a request variable may leave an active request in it. Returns '' if the use completes
    requests, sets them to MPI_REQUEST_NULL or compares them, or begins a message that the next statements complete."""
    below = use
    for above in function.ancestors(use):
        if above.kind == Kind.CALL_EXPR:
            if _BEGIN_NOTHING.fullmatch(above.name) or _is_request_completed_next(above, use, function):
                return ""
            return f"{above.name or 'a call'} at line {above.line} may begin one"
        if above.operator == "=":
            is_null = below is above.children[0] and source_text_of(above.children[1]) == "MPI_REQUEST_NULL"
            return "" if is_null else f"one is copied at line {above.line}"
        if above.operator in ("==", "!="):
            return ""
        if above.kind.is_statement() or above.kind == Kind.VAR_DECL:
            return "" if above.kind.is_statement() else f"it is copied at line {above.line}"
        below = above
    return f"it is used at line {use.line}"


def changed_request_reason(use: Node, function: FunctionFacts) -> str:
    """Returns how a use of a variable with a persistent request may put another request into it; '' if it does not: the
    request is made, started, completed, freed, compared or set to MPI_REQUEST_NULL."""
    call = next((above for above in function.ancestors(use) if above.kind == Kind.CALL_EXPR), None)
    if call is not None and re.fullmatch(r"P?MPI_Start(?:all)?|free", call.name):
        return ""
    return active_request_reason(use, function)


def find_free_of_active_request(functions: Iterable[FunctionFacts]) -> Node | None:
    """Returns a call of MPI_Request_free whose request may belong to a message under way, which nothing completes: it
    is no variable, or a nonblocking call of the file gets it. Returns None if there is no such call."""
    calls = [call for function in functions for call in function.calls]
    begins = [call for call in calls if re.fullmatch(r"P?MPI_I\w+", call.name)]
    for call in calls:
        if call.name.removeprefix("P") != "MPI_Request_free":
            continue
        variables = [one.declaration for one in call.arguments[0].walk() if one.kind == Kind.DECL_REF_EXPR]
        known = [one for one in variables if one is not None and one.kind == Kind.VAR_DECL]
        if not known or any(begin.mentions(one.key) for begin in begins for one in known):
            return call
    return None


def _is_request_completed_next(call: Node, use: Node, function: FunctionFacts) -> bool:
    """Returns whether a call begins a message whose request the next statements of the same block complete, with only
    other nonblocking sends and receives in between."""
    if not re.fullmatch(r"MPI_I(?:[bsr]?send|recv)", call.name, re.I):
        return False
    block = function.parent(call)
    if block is None or block.kind != Kind.COMPOUND_STMT:
        return False
    place = _request_index(call.arguments[-1])
    following = [one for one in block.children if one.offset > call.offset]
    for statement in following:
        name = statement.name if statement.kind == Kind.CALL_EXPR else ""
        if name in ("MPI_Wait", "MPI_Waitall") and any(one.is_variable(_variable_key(use)) for one in statement.walk()):
            arguments = statement.arguments
            if name == "MPI_Wait":
                return _request_index(arguments[0]) == place != -1
            count = arguments[0].value
            return count is not None and 0 <= place < count and _request_index(arguments[1]) == 0
        if not re.fullmatch(r"MPI_I(?:[bsr]?send|recv)", name, re.I):
            return False
    return False


def _variable_key(use: Node) -> int:
    return use.declaration.key if use.declaration is not None else 0


def _request_index(request: Node) -> int:
    """Returns the index in a request array of a call's request argument, 0 for a single request; -1 if it is
    unknown."""
    node = request.bare
    if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
        node = node.children[0].bare
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            value = node.children[1].value
            return value if value is not None else -1
    return 0 if node.kind == Kind.DECL_REF_EXPR else -1


def is_pointer_to_own_allocation(declared: Node, function: FunctionFacts) -> bool:
    """Returns whether a pointer variable is initialised by malloc or calloc and never changes, so that it points to
    memory of its own."""
    value = initial_value(declared)
    if value is None or not function.is_never_changed(declared.key):
        return False
    return value.bare.kind == Kind.CALL_EXPR and value.bare.name in _MAKE_MEMORY
