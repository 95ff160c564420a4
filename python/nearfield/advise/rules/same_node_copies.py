"""Check for messages between ranks of one node that a single copy in shared memory would deliver faster (papers S1 and
S2, papers/*/README.md)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.advise.rule import RuleSpec
from nearfield.advise.rules import copies, unseen_buffer
from nearfield.advise.run import ObservedRun
from nearfield.base import own_command
from nearfield.notes import Note, NoteRule

RULE = NoteRule(
    "same-node-copies",
    "Ranks of one node send messages that one copy would do for",
    "An MPI copies a message inside a node twice, or asks the kernel to. Ranks that share memory copy it once, or read "
    "it where it is.",
    "S1, section 3, and S2",
)


def find_same_node_copies(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each source line that sends messages inside a node which a single copy would deliver faster."""
    sent = [
        m
        for m in run.messages
        if m.counts.sends and not m.costs.network and not unseen_buffer.is_outside_shared_heap(m)
    ]
    yield from copies.find_slow_copies(
        run, RULE, sent, "same node: one copy would do for {} to a rank of this node; that",
        f"Run the program by {own_command.command_line('run')}, which copies messages from heap blocks once, or "
        f"exchange halos "
        "by nearfield's library.",
    )  # fmt: skip


SPEC = RuleSpec(RULE, find_same_node_copies, scenarios=("floor",))
