"""Decides whether each message that begins in a loop completes in the same iteration, so that its request is inactive
whenever the message begins again, and when the loop ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.expressions import source_text_of
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.frontend.clang import Kind, Node
from nearfield.rewrite.frontend.conversions import ARRAYS
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts

_BEGINS = re.compile(r"MPI_I(?:s?send|recv)")
_REQUESTS = re.compile(r"MPI_Request(?: ?\[\d+\])?")
_AROUND = (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOPS)
_LEAVES = (Kind.RETURN_STMT, Kind.GOTO_STMT, Kind.INDIRECT_GOTO_STMT, Kind.CXX_THROW_EXPR)


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


def is_requests(declared: Node) -> bool:
    """Returns whether a variable is a request, or an array of a constant number of requests."""
    return bool(_REQUESTS.fullmatch(declared.cursor.type.spelling))


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


class RequestPairs:
    """Finds the waits for the messages that begin in one loop, and checks all other uses of their requests. `own` are
    the source offsets between which a patch creates, starts and frees requests."""

    def __init__(self, function: FunctionFacts, loop: Node, own: Sequence[tuple[int, int]] = ()) -> None:
        self._function, self._loop, self._own = function, loop, own

    def check_request(self, call: Node, count: int = 1) -> RequestPlace:
        """Returns the requests of a call that begins `count` messages, its last argument. Raises NotMovable unless the
        requests are inactive whenever the call is executed and when the loop ends, and no other message has them."""
        place = request_place(call.arguments[-1], count)
        declared, function = place.declaration, self._function
        if declared.kind != Kind.VAR_DECL or declared.key not in function.declared:
            raise NotMovable(f"{declared.name} is no variable of this function", call.line)
        if declared.cursor.storage_class.name not in ("NONE", "AUTO") or declared.cursor.tls_kind.name != "NONE":
            raise NotMovable(f"{declared.name} is static", call.line)
        if not is_requests(declared):
            raise NotMovable(f"{declared.name} is no request or array of requests", call.line)
        if place.elements.stop > (declared.type.element_count if declared.type.kind in ARRAYS else 1):
            raise NotMovable(f"{declared.name} has fewer requests", call.line)
        waits = [wait for use in function.uses.get(declared.key, []) for wait in self._waits_at(use, call, place)]
        if not any(self._always_follows(wait, call) for wait in waits):
            raise NotMovable("no MPI_Wait or MPI_Waitall surely completes it in the same iteration", call.line)
        return place

    def _waits_at(self, use: Node, call: Node, place: RequestPlace) -> Iterator[Node]:
        """Yields the wait in the loop that a use of the request variable belongs to, if it completes the request.
        Raises NotMovable if the use may give the request another value, or may begin another message with it."""
        above = next((one for one in self._function.ancestors(use) if one.kind == Kind.CALL_EXPR), None)
        if above is call:
            return
        name, arguments = ("", []) if above is None else (above.name, above.arguments)
        if not name.startswith("MPI_Wait") and any(first <= use.offset < last for first, last in self._own):
            return
        if above is None:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        if name == "MPI_Wait":
            used = request_place(arguments[0])
        elif name == "MPI_Waitall":
            used = request_place(arguments[1], arguments[0].value or 0)
        elif _BEGINS.fullmatch(name):
            used = request_place(arguments[-1])
        else:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        if used.use.offset != use.offset:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        if name.startswith("MPI_I"):
            if set(used.elements) & set(place.elements):
                raise NotMovable(f"the request is also used at line {above.line}", call.line)
        elif is_within(above, self._loop) and set(place.elements) <= set(used.elements):
            if not is_status_unread(arguments[-1], self._function):
                raise NotMovable(f"the status is read that line {above.line} sets", call.line)
            yield above

    def _always_follows(self, wait: Node, call: Node) -> bool:
        """Returns whether a wait is executed after each execution of a call, in the same iteration of all loops: it is
        a statement of a block around the call, and nothing in between leaves the block."""
        function, block = self._function, self._function.parent(wait)
        around = list(function.ancestors(call))
        if block is None or block.kind != Kind.COMPOUND_STMT or block not in around or wait.offset < call.offset:
            return False
        inner = around[: around.index(block)]
        if any(one.kind not in _AROUND or one.kind in LOOPS for one in inner):
            return False
        loop = next(one for one in around if one.kind in LOOPS)
        return not any(self._may_leave(node, call, wait) for node in loop.walk())

    def _may_leave(self, node: Node, call: Node, wait: Node) -> bool:
        """Returns whether a statement between a call and its wait may jump over the wait."""
        if not call.offset < node.offset < wait.offset:
            return False
        captures = {Kind.BREAK_STMT: (*LOOPS, Kind.SWITCH_STMT), Kind.CONTINUE_STMT: LOOPS}.get(node.kind)
        if captures is not None:
            left = next((one for one in self._function.ancestors(node) if one.kind in captures), None)
            return left is None or left.offset < call.offset
        return node.kind in _LEAVES
