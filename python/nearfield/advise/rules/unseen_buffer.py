"""Check for messages between ranks of one node from buffers that are not on the shared heap, such as variables on the
stack (papers S1 and S2, papers/*/README.md)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules import copies
from nearfield.advise.run import MessageGroup, ObservedRun
from nearfield.base import own_command
from nearfield.notes import Note, NoteRule

MIN_HEAP_BLOCK_BYTES = 4096  # the shared heap has no smaller blocks (docs/explanation/shared-heap.md)

RULE = NoteRule(
    "unseen-buffer",
    "Ranks of one node send messages that the shared heap cannot see",
    "The shared heap copies a message once, directly from its block of the heap. Variables and the stack are not in "
    "the heap, so the MPI copies messages from there by its own protocol.",
    "S1, section 3, and S2",
)


def is_outside_shared_heap(message: MessageGroup) -> bool:
    """Returns whether the buffer of the messages is not on the shared heap although it is large enough. If it were
    allocated by malloc, the heap could deliver the messages with a single copy."""
    return message.counts.bytes >= MIN_HEAP_BLOCK_BYTES and not message.counts.allocated


def find_unseen_buffers(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends messages from buffers outside of the shared heap which a single
    copy would deliver faster."""
    sent = [m for m in run.messages if m.counts.sends and not m.costs.network and is_outside_shared_heap(m)]
    yield from copies.find_slow_copies(
        run, RULE, sent, "unseen buffer: this {} to a rank of this node is from a variable or the stack; one copy",
        f"Allocate the buffer (malloc, new, ALLOCATE) and run the program by {own_command.command_line('run')}: its "
        f"shared "
        "heap copies messages once, but sees only allocated memory.",
    )  # fmt: skip


SPEC = RuleSpec(RULE, find_unseen_buffers, scenarios=("floor",))
