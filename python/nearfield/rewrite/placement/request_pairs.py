"""Decides whether each message that begins in a loop completes in the same iteration, so that its request is inactive
whenever the message begins again, and when the loop ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearfield.rewrite.analysis.blocking import is_status_unread
from nearfield.rewrite.analysis.loop_bounds import is_within
from nearfield.rewrite.analysis.program import NotMovable
from nearfield.rewrite.analysis.requests import (
    RequestPlace,
    is_local_request_variable,
    request_place_of_argument,
    requests_of_call,
)
from nearfield.rewrite.frontend.clang import ARRAY_TYPES, Kind, SyntaxNode
from nearfield.rewrite.frontend.function import LOOP_KINDS, FunctionFacts

_ENCLOSING_KINDS = (Kind.COMPOUND_STMT, Kind.IF_STMT, *LOOP_KINDS)
_EXIT_KINDS = (Kind.RETURN_STMT, Kind.GOTO_STMT, Kind.INDIRECT_GOTO_STMT, Kind.CXX_THROW_EXPR)


class WaitMatcher:
    """Finds the waits for the messages that begin in one loop, and checks all other uses of their requests.
    `patch_spans` are the source offsets between which a patch creates, starts and frees requests."""

    def __init__(self, function: FunctionFacts, loop: SyntaxNode, patch_spans: Sequence[tuple[int, int]] = ()) -> None:
        self._function, self._loop, self._patch_spans = function, loop, patch_spans

    def check_request(self, call: SyntaxNode, count: int = 1) -> RequestPlace:
        """Returns the requests of a call that begins `count` messages, its last argument. Raises NotMovable unless the
        requests are inactive whenever the call is executed and when the loop ends, and no other message has them."""
        request_place = request_place_of_argument(call.arguments[-1], count)
        declaration, function = request_place.declaration, self._function
        if not is_local_request_variable(request_place, function):
            raise NotMovable(f"{declaration.name} is no variable of this function, or no request", call.line)
        if request_place.element_range.stop > (
            declaration.type.element_count if declaration.type.kind in ARRAY_TYPES else 1
        ):
            raise NotMovable(f"{declaration.name} has fewer requests", call.line)
        waits = [
            wait
            for use in function.uses.get(declaration.key, [])
            for wait in self._completing_waits(use, call, request_place)
        ]
        if not any(self._always_follows(wait, call) for wait in waits):
            raise NotMovable("no MPI_Wait or MPI_Waitall surely completes it in the same iteration", call.line)
        return request_place

    def _completing_waits(self, use: SyntaxNode, call: SyntaxNode, request_place: RequestPlace) -> Iterator[SyntaxNode]:
        """Yields the wait in the loop that a use of the request variable belongs to, if it completes the request.
        Raises NotMovable if the use may give the request another value, or may begin another message with it."""
        above = next((one for one in self._function.ancestors_of(use) if one.kind == Kind.CALL_EXPR), None)
        if above is call:
            return
        name, arguments = ("", []) if above is None else (above.name, above.arguments)
        if not name.startswith("MPI_Wait") and any(first <= use.offset < last for first, last in self._patch_spans):
            return
        used_place = requests_of_call(above) if above is not None else None
        if above is None or used_place is None or used_place.variable_use.offset != use.offset:
            raise NotMovable(f"the request is used at line {use.line}", call.line)
        if name.startswith("MPI_I"):
            if set(used_place.element_range) & set(request_place.element_range):
                raise NotMovable(f"the request is also used at line {above.line}", call.line)
        elif is_within(above, self._loop) and set(request_place.element_range) <= set(used_place.element_range):
            if not is_status_unread(arguments[-1], self._function):
                raise NotMovable(f"the status is read that line {above.line} sets", call.line)
            yield above

    def _always_follows(self, wait: SyntaxNode, call: SyntaxNode) -> bool:
        """Returns whether a wait is executed after each execution of a call, in the same iteration of all loops: it is
        a statement of a block around the call, and nothing in between leaves the block."""
        function, block = self._function, self._function.parent_of(wait)
        enclosing_nodes = list(function.ancestors_of(call))
        if (
            block is None
            or block.kind != Kind.COMPOUND_STMT
            or block not in enclosing_nodes
            or wait.offset < call.offset
        ):
            return False
        inner_nodes = enclosing_nodes[: enclosing_nodes.index(block)]
        if any(one.kind not in _ENCLOSING_KINDS or one.kind in LOOP_KINDS for one in inner_nodes):
            return False
        loop = next(one for one in enclosing_nodes if one.kind in LOOP_KINDS)
        return not any(self._may_skip_wait(node, call, wait) for node in loop.walk())

    def _may_skip_wait(self, node: SyntaxNode, call: SyntaxNode, wait: SyntaxNode) -> bool:
        """Returns whether a statement between a call and its wait may jump over the wait."""
        if not call.offset < node.offset < wait.offset:
            return False
        capturing_kinds = {Kind.BREAK_STMT: (*LOOP_KINDS, Kind.SWITCH_STMT), Kind.CONTINUE_STMT: LOOP_KINDS}.get(
            node.kind
        )
        if capturing_kinds is not None:
            left_statement = next(
                (one for one in self._function.ancestors_of(node) if one.kind in capturing_kinds), None
            )
            return left_statement is None or left_statement.offset < call.offset
        return node.kind in _EXIT_KINDS
