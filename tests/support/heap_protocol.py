"""A model of how a page of the shared heap moves into its file and back while others write and read, and a checker that
runs through all interleavings of its steps.

One page of a heap has two halves: `message`, which MPI messages pass through, and `rest`, which other data of the
program may take. A process of the model is a list of steps; each is one atomic action of src/preload/heap (the
docstring names its function), and it may have to wait. The kernel's copy is two steps, since the kernel first looks up
the page and then copies. What the checker shows holds for sequentially consistent memory, as which src/preload/heap
orders these accesses, and for one page, two processes and one message at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

HALVES = ("message", "rest")
Half = str
Page = tuple[int, int]  # the content of a page of the machine's memory


@dataclass(frozen=True)
class State:
    """`mapping` is where the owner's page lies: private memory, the file, or the file until it is written to (cow)."""

    pages: tuple[Page, ...] = ((0, 0), (0, 0))
    private: int = 0  # which page the private memory is
    file: int = 1  # which page is in the file
    mapping: str = "private"
    is_shared: bool = False  # the page's bit, which peers read
    moving: bool = False  # Header::moving
    writers: int = 0  # Slot
    readers: int = 0
    order: str = "none"  # Header::copy_request
    completed: bool = False  # MPI has reported to the owner that its message is complete
    found: int = 0  # the page that the kernel has looked up for a peer
    got: int | None = None  # what a peer has read
    at: tuple[int, ...] = ()  # the next step of each process

    def mapped_page(self) -> int:
        """Returns the page that the owner reads."""
        return self.file if self.mapping in ("file", "cow") else self.private

    def read(self, half: Half) -> int:
        return self.get(self.mapped_page(), half)

    def get(self, page: int, half: Half) -> int:
        return self.pages[page][HALVES.index(half)]

    def put(self, page: int, half: Half, value: int) -> State:
        """Returns the state after a write to a page of the machine's memory."""
        content = [*self.pages[page]]
        content[HALVES.index(half)] = value
        return replace(self, pages=(*self.pages[:page], (content[0], content[1]), *self.pages[page + 1 :]))

    def with_new(self, what: str, content: Page) -> State:
        """Returns the state with a new page as the private memory or in the file. Who has looked up the old one still
        has that."""
        return replace(self, pages=(*self.pages, content), **{what: len(self.pages)})

    def ready_to_write(self) -> State:
        """Returns the state after the kernel has copied a page that is copied when it is written to."""
        if self.mapping != "cow":
            return self
        return replace(self.with_new("private", self.pages[self.file]), mapping="private")

    def write(self, half: Half, value: int) -> State:
        """Returns the state after a write by the owner's process, through its mapping."""
        state = self.ready_to_write()
        return state.put(state.mapped_page(), half, value)


Step = Callable[[State], "State | int | None"]  # a new state, a jump by a number of steps, or None: it must wait


@dataclass(frozen=True)
class Violation:
    problem: str
    trace: tuple[str, ...]


@dataclass
class Model:
    """`processes`: lists of (name, step). `is_right` is checked in each state in which all have ended."""

    processes: dict[str, Sequence[tuple[str, Step]]]
    is_right: Callable[[State], bool]
    start: State = field(default_factory=State)
    states: int = 0

    def check(self) -> Violation | None:
        """Runs through all interleavings. Returns the first violation, with the steps that lead to it; None if there is
        none. Waiting for ever is one, too."""
        first = replace(self.start, at=(0,) * len(self.processes))
        came: dict[State, tuple[State, str] | None] = {first: None}
        waiting = [first]
        while waiting:
            state = waiting.pop()
            followers = list(self._followers(state))
            if not followers and not self._all_ended(state):
                return Violation("a process waits for ever", _trace(came, state))
            if not followers and not self.is_right(state):
                return Violation(f"wrong at the end: {state}", _trace(came, state))
            for name, follower in followers:
                if follower not in came:
                    came[follower] = (state, name)
                    waiting.append(follower)
        self.states = len(came)
        return None

    def _all_ended(self, state: State) -> bool:
        return all(at == len(steps) for at, steps in zip(state.at, self.processes.values(), strict=True))

    def _followers(self, state: State) -> Iterator[tuple[str, State]]:
        for number, (process, steps) in enumerate(self.processes.items()):
            at = state.at[number]
            if at == len(steps):
                continue
            name, step = steps[at]
            result = step(state)
            if result is None:
                continue
            jump, follower = (result, state) if isinstance(result, int) else (1, result)
            moved = [*state.at]
            moved[number] = at + jump
            yield f"{process}: {name}", replace(follower, at=tuple(moved))


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    names: list[str] = []
    while step := came[state]:
        state, name = step
        names.append(name)
    return tuple(reversed(names))


# ---- steps

Steps = list[tuple[str, Step]]


def when(condition: Callable[[State], bool], **changes: object) -> Step:
    """Returns a step that waits for the condition, and then changes the state."""
    return lambda state: replace(state, **changes) if condition(state) else None


def jump_unless(condition: Callable[[State], bool], over: int) -> Step:
    """Returns a step that goes on if the condition holds, and otherwise skips a number of steps."""
    return lambda state: 1 if condition(state) else over + 1


def share(*, waits_for_writers: bool = True) -> Steps:
    """sharing.cpp, share_locked() and share_piece(): the owner moves its page into the file. pwrite copies one half
    after the other. If a peer writes, nothing moves."""
    steps: Steps = [
        ("begins to move", lambda s: replace(s, moving=True)),
        ("is the page private?", jump_unless(lambda s: s.mapping == "private", over=5)),
        ("do peers write?", jump_unless(lambda s: s.writers == 0 or not waits_for_writers, over=4)),
        *((f"copies {half}", lambda s, half=half: s.put(s.file, half, s.get(s.private, half))) for half in HALVES),
        ("maps the file", lambda s: replace(s, mapping="file")),
        ("sets the bit", lambda s: replace(s, is_shared=True)),
        ("ends moving", lambda s: replace(s, moving=False)),
    ]
    return steps


def unshare(*, copies: bool, waits: bool = True, keeps_writers_out: bool = True) -> Steps:
    """sharing.cpp, unshare_stretch(): the owner makes its page private, by a copy (copy_back, and the file's page is
    freed) or by mapping it so that the kernel copies it when it is written to (copy_on_write)."""
    idle: Step = when(lambda s: not waits or (s.writers == 0 and (s.readers == 0 or not copies)))
    back: Steps = [
        ("maps empty private memory", lambda s: replace(s.with_new("private", (0, 0)), mapping="private")),
        ("copies the content", lambda s: s.put(s.private, "message", s.get(s.file, "message"))),
        ("copies the rest", lambda s: s.put(s.private, "rest", s.get(s.file, "rest"))),
        ("frees the file's page", lambda s: s.with_new("file", (0, 0))),
    ]
    cow: Steps = [("maps the file privately", lambda s: replace(s, mapping="cow"))]
    then = back if copies else cow
    return [
        ("begins to move", lambda s: replace(s, moving=keeps_writers_out)),
        ("is the page shared?", jump_unless(lambda s: s.mapping == "file", over=2 + len(then))),
        ("clears the bit", lambda s: replace(s, is_shared=False)),
        ("waits for peers", idle),
        *then,
        ("ends moving", lambda s: replace(s, moving=False)),
    ]


def peer_writes(value: int, *, waits_for_moves: bool = True, announces: bool = True) -> Steps:
    """peers.cpp, Copying, and vm_calls.cpp, copy_stretch(): a peer writes a message into the page."""
    by = 1 if announces else 0

    def announce(state: State) -> State:
        return replace(state, writers=state.writers + by)

    def retreat(state: State) -> State | int:
        return replace(state, writers=state.writers - by) if waits_for_moves and state.moving else 2

    return [
        ("announces that it writes", announce),
        ("do pages move?", retreat),
        ("comes again", lambda s: -2),
        ("is the page shared?", jump_unless(lambda s: s.is_shared, over=2)),
        ("writes to the file", lambda s: s.put(s.file, "message", value)),
        ("ends", lambda s: 3),
        ("the kernel looks the page up", _look_up_to_write),
        ("the kernel writes", lambda s: s.put(s.found, "message", value)),
        ("announces the end", lambda s: replace(s, writers=s.writers - by)),
    ]


def _look_up_to_write(state: State) -> State:
    ready = state.ready_to_write()
    return replace(ready, found=ready.mapped_page())


def peer_reads(*, announces: bool = True, waits_for_moves: bool = True) -> Steps:
    """vm_calls.cpp, copy_stretch(): a peer reads a message out of the page."""
    by = 1 if announces else 0

    def retreat(state: State) -> State | int:
        return replace(state, readers=state.readers - by) if waits_for_moves and state.moving else 2

    return [
        ("announces that it reads", lambda s: replace(s, readers=s.readers + by)),
        ("do pages move?", retreat),
        ("comes again", lambda s: -2),
        ("is the page shared?", jump_unless(lambda s: s.is_shared, over=2)),
        ("reads the file", lambda s: replace(s, got=s.get(s.file, "message"))),
        ("ends", lambda s: 3),
        ("the kernel looks the page up", lambda s: replace(s, found=s.mapped_page())),
        ("the kernel reads", lambda s: replace(s, got=s.get(s.found, "message"))),
        ("announces the end", lambda s: replace(s, readers=s.readers - by)),
    ]


def request_and_read(*, withdraws: bool = True) -> Steps:
    """cooperative_copy.cpp, ShareRequest around the kernel's copy: a peer reads a message and asks the owner meanwhile
    to share its page; it withdraws the request, or waits until it is carried out, before the message is complete."""
    withdraw: Steps = [
        ("withdraws the request", lambda s: replace(s, order="none") if s.order == "posted" else 1),
        ("waits until it is carried out", when(lambda s: s.order in ("none", "finished"), order="none")),
    ]
    return [
        ("posts a request", lambda s: replace(s, order="posted")),
        *peer_reads(),
        *(withdraw if withdraws else []),
        ("the message is complete", lambda s: replace(s, completed=True)),
    ]


def carry_out_request() -> Steps:
    """cooperative_copy.cpp, poll_copy_requests(): the owner polls once, inside MPI, and shares the requested page."""
    moving = share()
    return [
        ("takes the request", lambda s: replace(s, order="taken") if s.order == "posted" else len(moving) + 2),
        *moving,
        ("the request is carried out", lambda s: replace(s, order="finished")),
    ]


def write(half: Half, value: int, *, after_message: bool = False) -> Steps:
    """A thread of the owner's program writes, by MPI's rules only after the message that passes there is complete."""
    waits: Step = when(lambda s: s.completed or not after_message)
    return [("waits for its message", waits), (f"writes {half}", lambda s: s.write(half, value))]
