"""Decides which messages of a region a wait completes. A wait whose messages are not all known is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from nearfield.rewrite.analysis.accesses import is_structure_member
from nearfield.rewrite.analysis.expressions import ExpressionReader, NotAffine, Pointer
from nearfield.rewrite.analysis.program import Access
from nearfield.rewrite.analysis.refusals import Refusals
from nearfield.rewrite.analysis.requests import active_request_reason, unknown_requests_reason
from nearfield.rewrite.frontend.clang import SyntaxNode
from nearfield.rewrite.frontend.function import FunctionFacts

RequestPosition = tuple[str, int | None]


@dataclass
class PostedMessage:
    """A message in flight: its request, and the accesses to its buffer."""

    request_position: RequestPosition
    accesses: list[Access]
    is_certain: bool  # begun by every execution of its statement


def request_position(pointer: Pointer) -> RequestPosition:
    """Returns the key of the variable or array that holds a request, and the index of the request in it; None if the
    index is unknown."""
    if not pointer.indices:
        return pointer.base.key, 0
    index = pointer.indices[0] if len(pointer.indices) == 1 else None
    return pointer.base.key, index.constant if index is not None else None


@dataclass(frozen=True)
class Completion:
    """A call that completes one request or, if there is a `count`, that number of requests. `posted_messages` are
    the messages in flight before the call. `region_span` are the source offsets of what `function` executes between the
    start of the region and the end of the call's statement."""

    request: SyntaxNode
    count: SyntaxNode | None
    posted_messages: Sequence[PostedMessage]
    reader: ExpressionReader
    function: FunctionFacts
    region_span: tuple[int, int]

    @cached_property
    def pointer(self) -> Pointer:
        """Returns the address of the first request."""
        return self.reader.pointer_value(self.request)

    @cached_property
    def indices(self) -> range | None:
        """Returns the indices of the requests in their array; None if they are not constant."""
        _, first = request_position(self.pointer)
        try:
            number = self.reader.to_polynomial(self.count).constant if self.count is not None else 1
        except NotAffine:
            number = None
        return range(first, first + number) if first is not None and number is not None else None

    @cached_property
    def messages(self) -> list[PostedMessage]:
        """Returns the messages in flight that the call may complete."""
        key, indices = self.pointer.base.key, self.indices
        return [
            one for one in self.posted_messages
            if one.request_position[0] == key
            and (indices is None or one.request_position[1] is None or one.request_position[1] in indices)
        ]  # fmt: skip

    @property
    def messages_of_unknown_requests(self) -> list[PostedMessage]:
        """Returns the messages of which it is not known whether the call completes them."""
        return [one for one in self.messages if one.request_position[1] is None]

    def is_known(self) -> bool:
        """Returns whether each request surely belongs to a message of the region."""
        certain_indices = {one.request_position[1] for one in self.messages if one.is_certain}
        return self.indices is not None and certain_indices >= set(self.indices)

    @cached_property
    def outside_message_reason(self) -> str:
        """Returns the reason why a request may belong to a message that was begun outside of the region; '' if none
        can."""
        base, (start, end) = self.pointer.base, self.region_span
        if reason := unknown_requests_reason(base, self.function):
            return reason
        if is_structure_member(Pointer(base, ())):
            return f"what else {base.text} stands for is not known"
        outside_uses = [
            use for use in self.function.uses.get(base.declaration_key, []) if not start <= use.offset < end
        ]
        return next(filter(None, (active_request_reason(use, self.function) for use in outside_uses)), "")

    def may_leave_messages(self) -> bool:
        """Returns whether a message whose request is one of an array, but not known, may remain in flight, since the
        call does not complete the whole array."""
        sizes = self.pointer.base.dimension_sizes
        size = sizes[0].constant if len(sizes) == 1 and sizes[0] is not None else None
        is_whole_array = self.indices is not None and size is not None and self.indices[:size] == range(size)
        return bool(self.messages_of_unknown_requests) and not is_whole_array


COMPLETION_REFUSALS: Refusals[Completion] = (
    (lambda it: not it.messages, "it completes messages that were begun elsewhere"),
    (lambda it: it.indices is None, "which messages it completes is known only when it runs"),
    (
        lambda it: not it.is_known() and it.count is None and it.messages_of_unknown_requests,
        "which messages it completes is known only when it runs",
    ),
    (
        lambda it: not it.is_known() and it.outside_message_reason,
        "it may complete messages that were begun elsewhere: {0.outside_message_reason}",
    ),
    (
        lambda it: it.count is not None and it.may_leave_messages(),
        "it may complete only some of the messages of its requests",
    ),
)
