"""Does the protocol by which pages of the shared heap move lose no write and give no peer wrong data, whatever the
order of steps; and does the checker notice when a part of the protocol is missing?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from heap_protocol import (
    Model,
    State,
    carry_out_request,
    peer_reads,
    peer_writes,
    request_and_read,
    share,
    unshare,
    write,
)

SENT = 5
SHARED = State(pages=((0, 0), (SENT, 0)), mapping="file", is_shared=True)
PRIVATE = State(pages=((SENT, 0), (0, 0)))


def ends_with(message: int, rest: int = 0, got: int | None = None) -> Callable[[State], bool]:
    """Returns a check of what the owner's program reads at the end, and of what a peer got."""
    return lambda s: (s.read("message"), s.read("rest"), s.got) == (message, rest, got)


def moves_while_written(**omitted: bool) -> Model:
    """A peer writes a message while the owner moves the page; the owner has one thread."""
    return Model({"owner": share(), "peer": peer_writes(7, **omitted)}, ends_with(7), PRIVATE)


def moves_twice_while_written() -> Model:
    return Model({"owner": [*share(), *unshare(copies=True), *share()], "peer": peer_writes(7)}, ends_with(7), PRIVATE)


def moves_without_waiting() -> Model:
    return Model({"owner": share(waits_for_writers=False), "peer": peer_writes(7)}, ends_with(7), PRIVATE)


def moves_while_read() -> Model:
    return Model({"owner": share(), "peer": peer_reads()}, ends_with(SENT, got=SENT), PRIVATE)


def is_unshared_while_read(**omitted: bool) -> Model:
    """The owner makes its page private, and frees the file's, while a peer reads."""
    processes = {"owner": unshare(copies=True), "peer": peer_reads(**omitted)}
    return Model(processes, ends_with(SENT, got=SENT), SHARED)


def is_unshared_while_written(**omitted: bool) -> Model:
    """A thread's mapping call makes a page private while a peer writes into a part of it; another thread then writes to
    the rest of it."""
    owner = [*unshare(copies=False, **omitted), *write("rest", 9)]
    return Model({"owner": owner, "peer": peer_writes(7)}, ends_with(7, rest=9), SHARED)


def is_unshared_while_threads_write(copies: bool = False) -> Model:
    """Why a page is not copied back while threads may write to it."""
    return Model({"owner": unshare(copies=copies), "thread": write("rest", 9)}, ends_with(SENT, rest=9), SHARED)


def moves_on_request(withdraws: bool = True) -> Model:
    """With threads: a page moves while the message that fills it is under way, at the request of the peer that reads
    it. The program writes to the page as soon as MPI has reported that the message is complete."""
    processes = {
        "owner": carry_out_request(),
        "peer": request_and_read(withdraws=withdraws),
        "thread": write("message", 8, after_message=True),
    }
    return Model(processes, ends_with(8, got=SENT), PRIVATE)


def moves_during_a_thread() -> Model:
    """Why a page does not move while threads may write to it."""
    return Model({"owner": share(), "thread": write("rest", 9)}, ends_with(SENT, rest=9), PRIVATE)


@pytest.mark.parametrize(
    "model",
    [
        moves_while_written(),
        moves_twice_while_written(),
        moves_while_read(),
        is_unshared_while_read(),
        is_unshared_while_written(),
        is_unshared_while_threads_write(),
        moves_on_request(),
    ],
)
def test_nothing_is_lost(model: Model) -> None:
    assert model.check() is None
    assert model.states > 15


@pytest.mark.parametrize(
    "model",
    [
        moves_while_written(waits_for_moves=False),
        moves_while_written(announces=False),
        moves_without_waiting(),
        is_unshared_while_read(announces=False),
        is_unshared_while_read(waits_for_moves=False),
        is_unshared_while_written(waits=False),
        is_unshared_while_written(keeps_writers_out=False),
        is_unshared_while_threads_write(copies=True),
        moves_on_request(withdraws=False),
        moves_during_a_thread(),
    ],
)
def test_each_part_of_the_protocol_is_needed(model: Model) -> None:
    violation = model.check()
    assert violation and violation.trace
