"""The analysis result for a function: arrays, accesses, loops, loop nests, MPI calls, and regions of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.rewrite.analysis.polynomials import Poly, Symbol

# The nonblocking equivalents of each blocking call.
NONBLOCKING = {
    "MPI_Send": ("MPI_Isend",), "MPI_Recv": ("MPI_Irecv",), "MPI_Sendrecv": ("MPI_Irecv", "MPI_Isend"),
}  # fmt: skip


class NotMovable(Exception):
    """Raised for a statement across which nothing can be moved, with the reason and the line."""

    def __init__(self, reason: str, line: int, assumption: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.assumption = reason, line, assumption


@dataclass(frozen=True)
class MissedOptimization:
    """The reason why the communication at a line is not moved. `assumption` is the command-line option that would allow
    more, if there is one. `tried` means that a patch existed, but failed when it was run or measured."""

    line: int
    reason: str
    function: str = ""
    assumption: str = ""
    tried: bool = False


@dataclass(frozen=True)
class BaseObject:
    """The object that memory accesses belong to: a variable, an array, or the memory behind a pointer."""

    key: str
    text: str
    kind: str  # scalar, array, vector, pointer or rows (pointers to rows)
    element: str  # element type
    sizes: tuple[Poly | None, ...] = ()  # sizes of the dimensions, outermost first; None if unknown
    declaration: int = 0


@dataclass(frozen=True)
class Loop:
    """A canonical loop, lower <= iterator < upper, ascending unless `down` is set. The iterator is at least every entry
    of `lower` and below every entry of `upper`."""

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
    """A condition on program variables: poly >= 0, or poly == 0 if `equal` is set."""

    poly: Poly
    equal: bool = False


@dataclass(frozen=True)
class Access:
    """The elements of an array or variable that a statement may access, over all iterations of the loops and under the
    conditions around the access. An index of None may have any value."""

    base: BaseObject
    index: tuple[Poly | None, ...]
    write: bool
    line: int
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    message: bool = False  # access by MPI to a message buffer
    note: str = ""  # reason why an index is unknown


@dataclass
class LoopNest:
    """A loop nest: the outer loops, whose iterations may be reordered, and their body, which is copied verbatim."""

    loops: list[Loop]
    accesses: list[Access]
    start: int  # source offset of the statement
    end: int
    body: tuple[int, int]  # source offsets of the begin and end of the loop body
    line: int
    lead: int = 0  # source offset of the pragmas above the statement
    counters: set[int] = field(default_factory=set)  # loop iterators that are declared before the loops


@dataclass
class MessageSide:
    """The send or the receive side of an MPI message, as given by the arguments of the call."""

    send: bool
    count: Poly | None
    element_bytes: int
    certain: bool = False  # sent or received whenever the region is executed


@dataclass(frozen=True)
class Chunking:
    """How the messages of an exchange are split if they have more than `least` elements. `loop` iterates over the first
    element of each chunk; its step is the chunk length in elements."""

    loop: Loop
    count: Poly
    least: int

    @property
    def chunk_elements(self) -> int:
        """Returns the length of a chunk in elements."""
        return self.loop.step

    @property
    def iterator_name(self) -> str:
        """Returns the name of the variable that holds the first element of the current chunk."""
        return self.loop.iterator.text


@dataclass(frozen=True)
class BlockingCall:
    """A blocking MPI call in a statement: its position, its arguments as source text, and the numbers of the
    statement's accesses that belong to the call. If `listed` is set, the call stands in a block, so that further
    statements may follow it."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int
    accesses: range
    listed: bool

    def begin_calls(self) -> Iterator[tuple[str, list[str]]]:
        """Yields the nonblocking calls that begin the blocking call, each with all arguments but the request."""
        words = list(self.arguments)
        if self.name == "MPI_Sendrecv":
            yield "MPI_Irecv", [*words[5:10], words[10]]
            yield "MPI_Isend", [*words[:5], words[10]]
        else:
            yield NONBLOCKING[self.name][0], words[:6]


@dataclass
class CommunicationStatement:
    """A statement that communicates and is moved as a whole. `post` and `wait` are set if it begins and if it completes
    messages; a blocking exchange does both."""

    start: int
    end: int
    line: int
    name: str
    accesses: list[Access]
    messages: list[MessageSide] = field(default_factory=list)
    post: bool = True
    wait: bool = True
    lead: int = 0
    counters: set[int] = field(default_factory=set)
    exchange: dict[str, str] = field(default_factory=dict)  # arguments of an MPI_Sendrecv
    # The blocking MPI calls of the statement, if they can be replaced by a nonblocking begin and a later completion.
    blocking: list[BlockingCall] = field(default_factory=list)
    is_plain_wait: bool = False  # whether it only waits, and for which messages is known
    unsplit: str = ""  # reason why begin and completion cannot be separated
    chunking: Chunking | None = None  # set if its messages are split into chunks

    @property
    def loops(self) -> list[Loop]:
        """Returns the loop over the chunks of the messages, if they are split."""
        return [self.chunking.loop] if self.chunking else []

    @property
    def is_single_blocking_call(self) -> bool:
        """Returns whether the statement is a single blocking MPI call."""
        return len(self.blocking) == 1 and self.blocking[0].start == self.start

    @property
    def request_count(self) -> int:
        """Returns the number of requests that the blocking calls of the statement need when they become nonblocking."""
        return sum(len(NONBLOCKING[one.name]) for one in self.blocking)


Item = LoopNest | CommunicationStatement


@dataclass
class Region:
    """Consecutive statements of a block that may be reordered: calls that communicate, and loop nests."""

    function: str
    items: list[Item]
    symbols: dict[str, Symbol]
    line: int
    declared: list[tuple[int, int]] = field(default_factory=list)  # offsets of declarations that are hoisted

    def subregion(self, items: list[Item], line: int) -> Region:
        """Returns consecutive statements of the region as a region of their own."""
        inside = [one for one in self.declared if items[0].start < one[0] < items[-1].end]
        return Region(self.function, items, self.symbols, line, inside)

    def source_text(self, source: str) -> str:
        """Returns the source text of the region without the declarations among its statements."""
        return self.text_without_declarations(source, self.items[0].lead, self.end)

    def text_without_declarations(self, source: str, start: int, end: int) -> str:
        """Returns the source text between two offsets without declarations and without the lines that they leave
        empty."""
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
    def calls(self) -> list[CommunicationStatement]:
        return [item for item in self.items if isinstance(item, CommunicationStatement)]

    @property
    def items_with_arrays(self) -> set[int]:
        """Returns the numbers of the region's MPI calls, and of its loop nests that access arrays."""
        return {
            number for number, item in enumerate(self.items)
            if isinstance(item, CommunicationStatement) or any(access.base.sizes for access in item.accesses)
        }  # fmt: skip

    @property
    def nests(self) -> list[LoopNest]:
        return [item for item in self.items if isinstance(item, LoopNest)]
