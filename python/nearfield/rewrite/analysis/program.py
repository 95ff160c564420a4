"""The front end's view of a function: arrays, accesses, loops, nests, MPI calls, and regions of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.rewrite.analysis.polynomials import Poly, Symbol

# The nonblocking equivalents of each blocking call.
NONBLOCKING = {
    "MPI_Send": ("MPI_Isend",), "MPI_Recv": ("MPI_Irecv",), "MPI_Sendrecv": ("MPI_Irecv", "MPI_Isend"),
}  # fmt: skip


class NotMovable(Exception):
    """A statement across which nothing can be moved, with the reason and the line."""

    def __init__(self, reason: str, line: int, assumption: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.assumption = reason, line, assumption


@dataclass(frozen=True)
class MissedOptimization:
    """The reason why the communication at a line is not moved. `assumption` is the option that would allow more, if
    there is one. `tried` means that a patch existed, but failed when it was run or measured."""

    line: int
    reason: str
    function: str = ""
    assumption: str = ""
    tried: bool = False


@dataclass(frozen=True)
class Base:
    """The base of memory accesses: a variable, an array, or the memory behind a pointer."""

    key: str
    text: str
    kind: str  # scalar, array, vector, pointer or rows (pointers to rows)
    element: str  # element type
    sizes: tuple[Poly | None, ...] = ()  # of the dimensions; None if unknown
    declaration: int = 0


@dataclass(frozen=True)
class Loop:
    """A canonical loop, ascending or, with `down`, descending: lower <= iterator < upper."""

    iterator: Symbol
    lower: tuple[Poly, ...]
    upper: tuple[Poly, ...]
    step: int = 1
    declares: str = ""  # the iterator's type, if the loop declares it
    unsigned: bool = False
    down: bool = False
    pragmas: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Condition:
    """poly >= 0, or poly == 0."""

    poly: Poly
    equal: bool = False


@dataclass(frozen=True)
class Access:
    """The elements of a base that a statement may access, over all inner loops and conditions. An index of None may
    have any value."""

    base: Base
    index: tuple[Poly | None, ...]
    write: bool
    line: int
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    message: bool = False
    note: str = ""  # why an index may have any value


@dataclass
class Nest:
    """Loops around one piece of code, which is kept verbatim."""

    loops: list[Loop]
    accesses: list[Access]
    start: int  # offset of the statement in the file
    end: int
    body: tuple[int, int]  # offsets of the repeated code
    line: int
    lead: int = 0  # start of the preceding pragmas
    counters: set[int] = field(default_factory=set)  # loop variables that are declared before the loops


@dataclass
class Message:
    """One side of a message: the elements of the buffer, from the call's arguments."""

    send: bool
    count: Poly | None
    element_bytes: int
    certain: bool = False  # sent or received whenever the region is executed


@dataclass(frozen=True)
class Chunking:
    """How the messages of an exchange are split if they have more than `least` elements: `loop` iterates over the first
    element of each chunk, and its step is the chunk length."""

    loop: Loop
    count: Poly
    least: int

    @property
    def elements(self) -> int:
        return self.loop.step

    @property
    def at(self) -> str:
        return self.loop.iterator.text


@dataclass(frozen=True)
class Blocking:
    """A blocking call in a statement: its position, its arguments as written, and the numbers of the statement's
    accesses that belong to it. With `listed`, further statements may follow it in its block."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int
    accesses: range
    listed: bool

    def begin_calls(self) -> Iterator[tuple[str, list[str]]]:
        """Yields the calls that begin it, with all arguments but the request."""
        words = list(self.arguments)
        if self.name == "MPI_Sendrecv":
            yield "MPI_Irecv", [*words[5:10], words[10]]
            yield "MPI_Isend", [*words[:5], words[10]]
        else:
            yield NONBLOCKING[self.name][0], words[:6]


@dataclass
class Call:
    """A statement that communicates and is moved as a whole. `post` and `wait` tell whether it begins and completes
    messages; a blocking exchange does both."""

    start: int
    end: int
    line: int
    name: str
    accesses: list[Access]
    messages: list[Message] = field(default_factory=list)
    post: bool = True
    wait: bool = True
    lead: int = 0
    counters: set[int] = field(default_factory=set)
    exchange: dict[str, str] = field(default_factory=dict)  # arguments of an MPI_Sendrecv
    blocking: list[Blocking] = field(
        default_factory=list
    )  # its blocking calls, if begin and completion can be separated
    unsplit: str = ""  # the reason if they cannot
    chunking: Chunking | None = None  # set if its messages are split into chunks

    @property
    def loops(self) -> list[Loop]:
        return [self.chunking.loop] if self.chunking else []

    @property
    def is_plain(self) -> bool:
        """Returns whether the statement is a single blocking call."""
        return len(self.blocking) == 1 and self.blocking[0].start == self.start

    @property
    def requests(self) -> int:
        """Returns the number of requests for its blocking calls."""
        return sum(len(NONBLOCKING[one.name]) for one in self.blocking)


Item = Nest | Call


@dataclass
class Region:
    """Consecutive statements of a block: calls that communicate, and nests."""

    function: str
    items: list[Item]
    symbols: dict[str, Symbol]
    line: int
    declared: list[tuple[int, int]] = field(default_factory=list)  # declarations among the items, which may be hoisted

    def part(self, items: list[Item], line: int) -> Region:
        """Returns consecutive items of the region as a region."""
        inside = [one for one in self.declared if items[0].start < one[0] < items[-1].end]
        return Region(self.function, items, self.symbols, line, inside)

    def text(self, source: str) -> str:
        """Returns the text without its declarations."""
        return self.without_declarations(source, self.items[0].lead, self.end)

    def without_declarations(self, source: str, start: int, end: int) -> str:
        """Returns the text between two offsets without declarations and the lines that they leave empty."""
        made, last = "", start
        for first, behind in self.declared:
            if start <= first < end:
                made += source[last:first].rstrip(" \t")
                last = behind + (made.endswith("\n") and source.startswith("\n", behind))
        return made + source[last:end]

    @property
    def start(self) -> int:
        return self.items[0].start

    @property
    def end(self) -> int:
        return self.items[-1].end

    @property
    def calls(self) -> list[Call]:
        return [item for item in self.items if isinstance(item, Call)]

    @property
    def with_arrays(self) -> set[int]:
        """Returns the numbers of the calls and of the nests that access arrays."""
        return {
            number for number, item in enumerate(self.items)
            if isinstance(item, Call) or any(access.base.sizes for access in item.accesses)
        }  # fmt: skip

    @property
    def nests(self) -> list[Nest]:
        return [item for item in self.items if isinstance(item, Nest)]
