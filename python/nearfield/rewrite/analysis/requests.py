"""Decides whether MPI requests may belong to messages that were begun outside of a region."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.program import BaseObject, NotMovable
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode
from nearfield.rewrite.frontend.conversions import is_mpi_handle_variable
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import attributes_refusal_reason

# MPI calls that do not activate the request passed to them.
_NON_ACTIVATING_CALL = re.compile(
    r"P?MPI_(?:Wait|Waitall|Test|Testall|Waitany|Waitsome|Testany|Testsome|Request_free|(?:[bsr]?send|recv)_init)", re.I
)
_ALLOCATION_FUNCTIONS = ("malloc", "calloc")
_NONBLOCKING_CALL = re.compile(r"MPI_I(?:s?send|recv)")
_REQUEST_TYPE = re.compile(r"MPI_Request(?: ?\[\d+\])?")


def active_request_reason(use: SyntaxNode, function: FunctionFacts) -> str:
    """Returns how a use of a request variable may leave an active request in it. Returns '' if the use completes
    requests, sets them to MPI_REQUEST_NULL or compares them, or begins a message that the next statements complete."""
    below = use
    for above in function.ancestors_of(use):
        if above.kind == Kind.CALL_EXPR:
            if _NON_ACTIVATING_CALL.fullmatch(above.name) or _is_request_completed_next(above, use, function):
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


def unknown_requests_reason(base: BaseObject, function: FunctionFacts) -> str:
    """Returns why the requests `base` may be changed by other code than the function's uses of this name; '' if they
    cannot, because they are a local variable or in memory that the function allocates for them."""
    declaration = function.declarations.get(base.declaration_key)
    if declaration is None or declaration.kind != Kind.VAR_DECL or declaration.cursor.storage_class.name == "STATIC":
        return f"{base.text} is no variable of this function"
    is_pointer = base.object_kind == "pointer" and not is_mpi_handle_variable(declaration)
    if is_pointer and not is_pointer_to_own_allocation(declaration, function):
        return f"what else {base.text} stands for is not known"
    return ""


def other_request_reason(base: BaseObject, function: FunctionFacts) -> str:
    """Returns the reason why a persistent request may not be the one that the calls of a function create; '' if it must
    be."""
    uses = function.uses.get(base.declaration_key, [])
    return unknown_requests_reason(base, function) or next(
        filter(None, (_changed_request_reason(use, function) for use in uses)), ""
    )


def _changed_request_reason(use: SyntaxNode, function: FunctionFacts) -> str:
    """Returns how a use of a variable with a persistent request may put another request into it; '' if it does not: the
    request is made, started, completed, freed, compared or set to MPI_REQUEST_NULL."""
    call = next((above for above in function.ancestors_of(use) if above.kind == Kind.CALL_EXPR), None)
    if call is not None and re.fullmatch(r"P?MPI_Start(?:all)?|free", call.name):
        return ""
    return active_request_reason(use, function)


def find_free_of_active_request(functions: Iterable[FunctionFacts]) -> SyntaxNode | None:
    """Returns a call of MPI_Request_free that may free the request of a message in flight, so that no call completes
    the message: the request is no variable, or a nonblocking call of the file sets it. Returns None if there is no such
    call."""
    calls = [call for function in functions for call in function.calls]
    nonblocking_calls = [call for call in calls if re.fullmatch(r"P?MPI_I\w+", call.name)]
    for call in calls:
        if call.name.removeprefix("P") != "MPI_Request_free":
            continue
        variables = [one.declaration for one in call.arguments[0].walk() if one.kind == Kind.DECL_REF_EXPR]
        known_variables = [one for one in variables if one is not None and one.kind == Kind.VAR_DECL]
        if not known_variables or any(
            begin.mentions_variable(one.key) for begin in nonblocking_calls for one in known_variables
        ):
            return call
    return None


def _is_request_completed_next(call: SyntaxNode, use: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a call begins a message whose request the next statements of the same block complete, with only
    other nonblocking sends and receives in between."""
    if not re.fullmatch(r"MPI_I(?:[bsr]?send|recv)", call.name, re.I):
        return False
    block = function.parent_of(call)
    if block is None or block.kind != Kind.COMPOUND_STMT:
        return False
    request_index = _request_index(call.arguments[-1])
    following_statements = [one for one in block.children if one.offset > call.offset]
    for statement in following_statements:
        name = statement.name if statement.kind == Kind.CALL_EXPR else ""
        if name in ("MPI_Wait", "MPI_Waitall") and any(one.is_variable(_variable_key(use)) for one in statement.walk()):
            arguments = statement.arguments
            if name == "MPI_Wait":
                return _request_index(arguments[0]) == request_index != -1
            count = arguments[0].constant_value
            return count is not None and 0 <= request_index < count and _request_index(arguments[1]) == 0
        if not re.fullmatch(r"MPI_I(?:[bsr]?send|recv)", name, re.I):
            return False
    return False


def _variable_key(use: SyntaxNode) -> int:
    return use.declaration.key if use.declaration is not None else 0


def _request_index(request: SyntaxNode) -> int:
    """Returns the index in a request array of a call's request argument, 0 for a single request; -1 if it is
    unknown."""
    node = request.without_casts
    if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
        node = node.children[0].without_casts
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            value = node.children[1].constant_value
            return value if value is not None else -1
    return 0 if node.kind == Kind.DECL_REF_EXPR else -1


def is_pointer_to_own_allocation(declaration: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a pointer variable is initialised by malloc or calloc and never changes, so that it points to
    memory of its own."""
    value = initial_value(declaration)
    if value is None or not function.is_never_changed(declaration.key):
        return False
    return value.without_casts.kind == Kind.CALL_EXPR and value.without_casts.name in _ALLOCATION_FUNCTIONS


# ---- requests that a function uses only to begin and to complete messages


@dataclass(frozen=True)
class RequestPlace:
    """The request variable or array that an argument names, and the range of its elements that a call uses."""

    variable_use: SyntaxNode
    element_range: range

    @property
    def declaration(self) -> SyntaxNode:
        """Returns the declaration of the variable."""
        assert self.variable_use.declaration is not None
        return self.variable_use.declaration

    @property
    def request_texts(self) -> tuple[str, ...]:
        """Returns each request as C text."""
        is_array = self.declaration.type.kind in ARRAY_TYPES
        return tuple(
            f"{self.variable_use.name}[{one}]" if is_array else self.variable_use.name for one in self.element_range
        )


def request_place_of_argument(argument: SyntaxNode, count: int = 1) -> RequestPlace:
    """Returns the requests that an argument of a call names: `count` of them from the first one. Raises NotMovable
    unless they are a variable, or elements of an array at a constant index."""
    node, index = argument.without_casts, 0
    if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
        node = node.children[0].without_casts
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            at = node.children[1].constant_value
            node, index = node.children[0].without_casts, -1 if at is None else at
            if node.type.kind not in ARRAY_TYPES:
                index = -1
        elif node.type.kind in ARRAY_TYPES:
            index = -1
    elif (
        node.kind == Kind.BINARY_OPERATOR
        and node.operator == "+"
        and node.children[0].without_casts.type.kind in ARRAY_TYPES
    ):
        at = node.children[1].constant_value
        node, index = node.children[0].without_casts, -1 if at is None else at
    elif node.type.kind not in ARRAY_TYPES:
        index = -1
    if node.kind != Kind.DECL_REF_EXPR or node.declaration is None or index < 0:
        raise NotMovable(f"which request {source_text_of(argument)} is, is known only when it runs", argument.line)
    return RequestPlace(node, range(index, index + count))


def is_request_variable(declaration: SyntaxNode) -> bool:
    """Returns whether a variable is a request, or an array of a constant number of requests."""
    return bool(_REQUEST_TYPE.fullmatch(declaration.cursor.type.spelling))


def is_local_request_variable(request_place: RequestPlace, function: FunctionFacts) -> bool:
    """Returns whether requests are a variable that exists once for each call of a function."""
    declaration = request_place.declaration
    is_automatic = (
        declaration.cursor.storage_class.name in ("NONE", "AUTO") and declaration.cursor.tls_kind.name == "NONE"
    )
    is_local = declaration.kind == Kind.VAR_DECL and declaration.key in function.declarations
    return is_local and is_automatic and is_request_variable(declaration) and not attributes_refusal_reason(declaration)


def requests_of_call(call: SyntaxNode) -> RequestPlace | None:
    """Returns the requests of a nonblocking send or receive, or of a call that waits; None for other calls. Raises
    NotMovable if the requests are known only at run time."""
    if call.name == "MPI_Wait":
        return request_place_of_argument(call.arguments[0])
    if call.name == "MPI_Waitall":
        return request_place_of_argument(call.arguments[1], call.arguments[0].constant_value or 0)
    return request_place_of_argument(call.arguments[-1]) if _NONBLOCKING_CALL.fullmatch(call.name) else None


def is_plain_wait(statement: SyntaxNode, function: FunctionFacts) -> bool:
    """Returns whether a statement is an MPI_Wait or MPI_Waitall whose messages are known: its requests are a local
    variable that is only used to begin messages and to wait for them, its status is not read, and other waits for the
    variable are statements of the same block, or stand outside of this block."""
    block = function.parent_of(statement)
    if statement.kind != Kind.CALL_EXPR or statement.name not in ("MPI_Wait", "MPI_Waitall") or block is None:
        return False
    try:
        place = requests_of_call(statement)
        if place is None or not place.element_range or not is_local_request_variable(place, function):
            return False
        for use in function.uses.get(place.declaration.key, []):
            call = next((one for one in function.ancestors_of(use) if one.kind == Kind.CALL_EXPR), None)
            used_place = requests_of_call(call) if call is not None else None
            if call is None or used_place is None or used_place.variable_use.offset != use.offset:
                return False
            enclosing = list(function.ancestors_of(call))
            if call.name in ("MPI_Wait", "MPI_Waitall") and block in enclosing and enclosing[0] is not block:
                return False
    except NotMovable:
        return False
    return is_status_unread(statement.arguments[-1], function)
