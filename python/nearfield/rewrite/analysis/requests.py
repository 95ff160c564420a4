"""Decides whether MPI requests may belong to messages that were begun outside of a region."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node
from nearfield.rewrite.frontend.function import FunctionFacts, initial_value
from nearfield.rewrite.frontend.language import attributes_refusal_reason

# MPI calls that do not activate the request passed to them.
_BEGIN_NOTHING = re.compile(
    r"P?MPI_(?:Wait|Waitall|Test|Testall|Waitany|Waitsome|Testany|Testsome|Request_free|(?:[bsr]?send|recv)_init)", re.I
)
_MAKE_MEMORY = ("malloc", "calloc")
_BEGINS = re.compile(r"MPI_I(?:s?send|recv)")
_REQUESTS = re.compile(r"MPI_Request(?: ?\[\d+\])?")


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


# ---- requests that a function uses only to begin and to complete messages


@dataclass(frozen=True)
class RequestPlace:
    """The request variable or array that an argument names, and the range of its elements that a call uses."""

    use: Node
    elements: range

    @property
    def declaration(self) -> Node:
        """Returns the declaration of the variable."""
        assert self.use.declaration is not None
        return self.use.declaration

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns each request as C text."""
        is_array = self.declaration.type.kind in ARRAYS
        return tuple(f"{self.use.name}[{one}]" if is_array else self.use.name for one in self.elements)


def request_place(argument: Node, count: int = 1) -> RequestPlace:
    """Returns the requests that an argument of a call names: `count` of them from the first one. Raises NotMovable
    unless they are a variable, or elements of an array at a constant index."""
    node, index = argument.bare, 0
    if node.kind == Kind.UNARY_OPERATOR and node.operator == "&":
        node = node.children[0].bare
        if node.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            at = node.children[1].value
            node, index = node.children[0].bare, -1 if at is None else at
            if node.type.kind not in ARRAYS:
                index = -1
        elif node.type.kind in ARRAYS:
            index = -1
    elif node.kind == Kind.BINARY_OPERATOR and node.operator == "+" and node.children[0].bare.type.kind in ARRAYS:
        at = node.children[1].value
        node, index = node.children[0].bare, -1 if at is None else at
    elif node.type.kind not in ARRAYS:
        index = -1
    if node.kind != Kind.DECL_REF_EXPR or node.declaration is None or index < 0:
        raise NotMovable(f"which request {source_text_of(argument)} is, is known only when it runs", argument.line)
    return RequestPlace(node, range(index, index + count))


def is_requests(declared: Node) -> bool:
    """Returns whether a variable is a request, or an array of a constant number of requests."""
    return bool(_REQUESTS.fullmatch(declared.cursor.type.spelling))


def is_own_requests(place: RequestPlace, function: FunctionFacts) -> bool:
    """Returns whether requests are a variable that exists once for each call of a function."""
    declared = place.declaration
    is_automatic = declared.cursor.storage_class.name in ("NONE", "AUTO") and declared.cursor.tls_kind.name == "NONE"
    is_local = declared.kind == Kind.VAR_DECL and declared.key in function.declared
    return is_local and is_automatic and is_requests(declared) and not attributes_refusal_reason(declared)


def requests_of_call(call: Node) -> RequestPlace | None:
    """Returns the requests of a nonblocking send or receive, or of a call that waits; None for other calls. Raises
    NotMovable if it is known only when it runs which requests these are."""
    if call.name == "MPI_Wait":
        return request_place(call.arguments[0])
    if call.name == "MPI_Waitall":
        return request_place(call.arguments[1], call.arguments[0].value or 0)
    return request_place(call.arguments[-1]) if _BEGINS.fullmatch(call.name) else None


def is_plain_wait(statement: Node, function: FunctionFacts) -> bool:
    """Returns whether a statement is an MPI_Wait or MPI_Waitall of which it is known which messages it completes: its
    requests are a variable of the function that only begins and waits, its status is not read, and other waits for the
    variable are statements of the same block, or stand outside of this block."""
    block = function.parent(statement)
    if statement.kind != Kind.CALL_EXPR or statement.name not in ("MPI_Wait", "MPI_Waitall") or block is None:
        return False
    try:
        place = requests_of_call(statement)
        if place is None or not place.elements or not is_own_requests(place, function):
            return False
        for use in function.uses.get(place.declaration.key, []):
            call = next((one for one in function.ancestors(use) if one.kind == Kind.CALL_EXPR), None)
            used = requests_of_call(call) if call is not None else None
            if call is None or used is None or used.use.offset != use.offset:
                return False
            around = list(function.ancestors(call))
            if call.name in ("MPI_Wait", "MPI_Waitall") and block in around and around[0] is not block:
                return False
    except NotMovable:
        return False
    return is_status_unread(statement.arguments[-1], function)
