"""A model of how two readers copy messages through the bounce buffer of one owner (src/preload/heap/bounce_copy.cpp),
for the checker of heap_protocol.py, which runs through all interleavings of its steps.

A message has two chunks. Each step is one atomic action. Time passes at any moment: a process of its own ends a
reader's patience, and another one may kill the owner. What the checker shows holds for sequentially consistent memory,
two readers and two polls of the owner; both requests use the same place in the buffer, which is the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heap_protocol import Model

CHUNKS = 2


@dataclass(frozen=True)
class State:
    """The request in the owner's header, the buffer, and what each reader knows."""

    slot: str = "none"  # CopyRequest::state
    requested: int = 0  # the message that the request names
    filled: int = 0  # CopyRequest::claimed
    buffer: tuple[int, ...] = (0,) * CHUNKS  # the message in each chunk
    impatient: tuple[bool, bool] = (False, False)
    got: tuple[tuple[int, ...], ...] = ((), ())  # by reader: the message in each chunk that it has copied
    dead: bool = False
    at: tuple[int, ...] = ()

    def with_reader(self, name: str, reader: int, value: object) -> State:
        values = list(getattr(self, name))
        values[reader] = value
        return replace(self, **{name: tuple(values)})


Steps = Sequence[tuple[str, object]]


def message_of(reader: int) -> int:
    return reader + 1


def read(reader: int, *, waits_for_the_end: bool = True, resets: bool = True, withdraws_at_once: bool = True) -> Steps:
    """read_by_bounce(): what the bounce buffer does not bring, the socket does."""
    mine = message_of(reader)

    def by_socket(state: State) -> State:
        return state if state.dead else state.with_reader("got", reader, (mine,) * CHUNKS)

    def wait_until_taken(state: State) -> State | int | None:
        if state.slot != "posted":
            return 4
        return 1 if state.impatient[reader] else None

    def withdraw(state: State) -> State | int:
        if withdraws_at_once and state.slot != "posted":
            return 3
        return replace(state, slot="none")

    def copy(chunk: int) -> object:
        def step(state: State) -> State | int | None:
            if state.filled > chunk:
                return state.with_reader("got", reader, (*state.got[reader], state.buffer[chunk]))
            return 1 if state.dead else None

        return step

    def wait_for_the_end(state: State) -> int | None:
        return 1 if state.slot == "finished" or state.dead or not waits_for_the_end else None

    copies = [(f"copies chunk {chunk}", copy(chunk)) for chunk in range(CHUNKS)]
    after = len(copies) + 2
    return [
        ("reserves", lambda s: replace(s, slot="being_written") if s.slot == "none" else 5),
        ("names its message", lambda s: replace(s, requested=mine, filled=0 if resets else s.filled)),
        ("posts", lambda s: replace(s, slot="posted")),
        ("waits until it is taken", wait_until_taken),
        ("withdraws", withdraw),
        ("asks the socket", by_socket),
        ("ends", lambda s: after + 1),
        *copies,
        ("waits for the end", wait_for_the_end),
        ("frees the request", lambda s: s if s.dead else replace(s, slot="none")),
    ]


def poll() -> Steps:
    """poll_copy_requests() and fill_bounce()."""

    def alive(step: object) -> object:
        return lambda s: 1 if s.dead else step(s)  # type: ignore[operator]

    def fill(chunk: int) -> object:
        def step(state: State) -> State:
            buffer = [*state.buffer]
            buffer[chunk] = state.requested
            return replace(state, buffer=tuple(buffer))

        return alive(step)

    filling = [
        step
        for chunk in range(CHUNKS)
        for step in (
            (f"fills chunk {chunk}", fill(chunk)),
            (f"counts chunk {chunk}", alive(lambda s, n=chunk: replace(s, filled=n + 1))),
        )
    ]
    skip = len(filling) + 2
    return [
        ("takes", lambda s: replace(s, slot="taken") if s.slot == "posted" and not s.dead else skip),
        *filling,
        ("finishes", alive(lambda s: replace(s, slot="finished"))),
    ]


def two_readers(*, dies: bool = False, polls: int = 2, **omitted: bool) -> Model:
    """Both readers copy a message each, through the buffer or the socket."""
    readers = {f"reader {n}": read(n, **omitted) for n in (0, 1)}
    clocks = {f"clock {n}": [("runs out", lambda s, n=n: s.with_reader("impatient", n, True))] for n in (0, 1)}
    death = {"death": [("kills the owner", lambda s: replace(s, dead=True))]} if dies else {}
    processes = {"owner": [step for _ in range(polls) for step in poll()], **readers, **clocks, **death}
    return Model(processes, is_right, State())  # type: ignore[arg-type]


def is_right(state: State) -> bool:
    """Each reader has copied its own message and nothing else; the request is free, unless the owner has died."""
    whole = all(got == (message_of(n),) * CHUNKS for n, got in enumerate(state.got))  # type: ignore[arg-type]
    own = all(set(got) <= {message_of(n)} for n, got in enumerate(state.got))
    return own and (state.dead or (whole and state.slot == "none"))
