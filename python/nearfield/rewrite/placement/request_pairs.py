"""Decides whether each message that begins in a loop completes in the same iteration, so that its request is inactive
whenever the message begins again, and when the loop ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.conversions import ARRAYS
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts
from nearfield.rewrite.frontend.text import end_of_brackets
from nearfield.rewrite.placement.fixed_values import FixedValues

_BEGINS = re.compile(r"MPI_I(?:s?send|recv)")
_STARTS = ("MPI_Start", "MPI_Startall")
_PERSISTENT_ONLY = (*_STARTS, "MPI_Request_free", "MPI_Send_init", "MPI_Ssend_init", "MPI_Recv_init")
_LEAVES_INNER_LOOP = (Kind.BREAK_STMT, Kind.CONTINUE_STMT)
_LEAVES = (Kind.RETURN_STMT, Kind.GOTO_STMT, Kind.INDIRECT_GOTO_STMT, Kind.CXX_THROW_EXPR)


@dataclass(frozen=True)
class Guard:
    """A condition around a statement: its text, whether it holds there, and its syntax node."""

    text: str
    holds: bool
    test: Node

    @property
    def same_as(self) -> tuple[str, bool]:
        """Returns what two guards with the same meaning have in common: their text without blanks, and whether they
        hold."""
        return re.sub(r"\s+", "", self.text), self.holds


@dataclass(frozen=True)
class RequestPlace:
    """The request variable or array that an argument names, and the range of its elements that a call uses."""

    declaration: Node
    elements: range


def guards_between(node: Node, outer: Node, function: FunctionFacts) -> list[Guard]:
    """Returns the conditions of the `if` statements around a node inside `outer`, the outermost first. Raises
    NotMovable for other statements that may skip the node, unless they are blocks or loops."""
    found: list[Guard] = []
    below = node
    for above in function.ancestors(node):
        if above is outer:
            return found[::-1]
        if above.kind == Kind.IF_STMT:
            test, *branches = above.children
            if below is test:
                raise NotMovable("it stands in a condition", node.line)
            text = above.unit.text
            start = text.index("(", above.offset)
            found.append(Guard(text[start + 1 : end_of_brackets(text, start) - 1], below is branches[0], test))
        elif above.kind != Kind.COMPOUND_STMT and above.kind not in LOOPS:
            raise NotMovable("it stands in a statement that is not understood", node.line)
        below = above
    raise NotMovable("it does not stand in the loop", node.line)


def innermost_loop(node: Node, function: FunctionFacts) -> Node | None:
    """Returns the innermost loop around a node; None if there is none."""
    return next((above for above in function.ancestors(node) if above.kind in LOOPS), None)


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
    return RequestPlace(node.declaration, range(index, index + count))


class RequestPairs:
    """Finds the waits for the messages that begin in one loop, and checks all other uses of their requests."""

    def __init__(
        self, function: FunctionFacts, loop: Node, fixed: FixedValues, own: frozenset[int] = frozenset()
    ) -> None:
        self._function, self._loop, self._fixed = function, loop, fixed
        self._own = own  # offsets of the calls that create and free the persistent requests

    def check_request(self, call: Node, request: Node, count: int = 1) -> RequestPlace:
        """Returns the requests of a call that begins `count` messages. Raises NotMovable unless the requests are
        inactive whenever the call is executed and when the loop ends, and no other message has them."""
        place = request_place(request, count)
        declared, function = place.declaration, self._function
        if declared.kind != Kind.VAR_DECL or declared.key not in function.declared:
            raise NotMovable(f"{declared.name} is no variable of this function", call.line)
        if declared.cursor.storage_class.name == "STATIC":
            raise NotMovable(f"{declared.name} is static", call.line)
        element = declared.type.element_type if declared.type.kind in ARRAYS else declared.type
        if not re.match(r"MPI_Request\b", declared.cursor.type.spelling) or element.kind in ARRAYS:
            raise NotMovable(f"{declared.name} is no request or array of requests", call.line)
        waits = [wait for use in function.uses.get(declared.key, []) for wait in self._waits_at(use, call, place)]
        if not any(self._always_follows(wait, call) for wait in waits):
            raise NotMovable("no MPI_Wait or MPI_Waitall surely completes it in the same iteration", call.line)
        return place

    def _waits_at(self, use: Node, call: Node, place: RequestPlace) -> Iterator[Node]:
        """Yields the wait in the loop that a use of the request variable belongs to, if it completes the request.
        Raises NotMovable if the use may give the request another value, or may begin another message with it."""
        above = next((one for one in self._function.ancestors(use) if one.kind == Kind.CALL_EXPR), None)
        if above is None:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        name, arguments = above.name, above.arguments
        inside = is_within(above, self._loop)
        if name == "MPI_Wait":
            waited = request_place(arguments[0])
        elif name == "MPI_Waitall":
            waited = request_place(arguments[1], arguments[0].value or 0)
        elif above.offset == call.offset or above.offset in self._own:
            return
        elif _BEGINS.fullmatch(name) or name in _PERSISTENT_ONLY:
            self._check_other_begin(above, call, place)
            return
        else:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        if inside and set(place.elements) <= set(waited.elements):
            yield above

    def _check_other_begin(self, other: Node, call: Node, place: RequestPlace) -> None:
        """Raises NotMovable if another call gives a request to the same variable that may be that of `call`, or that is
        active when the loop begins."""
        name, arguments = other.name, other.arguments
        if name in _STARTS:
            many = name == "MPI_Startall"
            used = request_place(arguments[-1], arguments[0].value or 1 << 30 if many else 1)
        else:
            used = request_place(arguments[-1])
        if not set(used.elements) & set(place.elements):
            return
        raise NotMovable(f"the request is also used at line {other.line}", call.line)

    def _always_follows(self, wait: Node, call: Node) -> bool:
        """Returns whether a wait is executed after each execution of a call, in the same iteration of all loops."""
        loop = innermost_loop(call, self._function)
        if loop is None or innermost_loop(wait, self._function) is not loop or wait.offset < call.offset:
            return False
        mine = {guard.same_as for guard in guards_between(call, loop, self._function)}
        theirs = guards_between(wait, loop, self._function)
        for guard in theirs:
            if guard.same_as not in mine:
                return False
            self._fixed.require_fixed(guard.test)
        return not any(self._may_leave(node, call, wait) for node in loop.walk())

    def _may_leave(self, node: Node, call: Node, wait: Node) -> bool:
        """Returns whether a statement between a call and its wait may jump over the wait."""
        if not call.offset < node.offset < wait.offset:
            return False
        if node.kind in _LEAVES_INNER_LOOP:
            inner = (one for one in self._function.ancestors(node) if one.kind in (*LOOPS, Kind.SWITCH_STMT))
            left = next(inner, None)
            return left is None or left.offset < call.offset
        return node.kind in _LEAVES
