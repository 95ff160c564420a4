"""Decides whether each message that begins in a loop completes in the same iteration, so that its request is inactive
whenever the message begins again, and when the loop ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.analysis.requests import RequestPlace, is_own_requests, request_place, requests_of_call
from nearfield.rewrite.frontend.clang import ARRAYS, Kind, Node
from nearfield.rewrite.frontend.function import LOOPS, FunctionFacts

_AROUND = (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOPS)
_LEAVES = (Kind.RETURN_STMT, Kind.GOTO_STMT, Kind.INDIRECT_GOTO_STMT, Kind.CXX_THROW_EXPR)


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
        if not is_own_requests(place, function):
            raise NotMovable(f"{declared.name} is no variable of this function, or no request", call.line)
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
        used = requests_of_call(above) if above is not None else None
        if above is None or used is None or used.use.offset != use.offset:
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
