"""The analysis result for a function: arrays, accesses, loops, loop nests, MPI calls, and regions of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.rewrite.analysis.polynomials import Polynomial, Symbol

# The nonblocking equivalents of each blocking call.
NONBLOCKING_EQUIVALENTS = {
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
    object_kind: str  # scalar, array, vector, pointer or rows (pointers to rows)
    element_type: str  # element type
    dimension_sizes: tuple[Polynomial | None, ...] = ()  # sizes of the dimensions, outermost first; None if unknown
    declaration_key: int = 0


@dataclass(frozen=True)
class Loop:
    """A canonical loop, lower <= iterator < upper, ascending unless `is_descending` is set. The iterator is at least
    every entry of `lower_bounds` and below every entry of `upper_bounds`."""

    iterator: Symbol
    lower_bounds: tuple[Polynomial, ...]
    upper_bounds: tuple[Polynomial, ...]
    step: int = 1
    declared_type: str = ""  # the iterator's type, if the loop declares it
    is_unsigned: bool = False
    is_descending: bool = False
    pragmas: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Condition:
    """A condition on program variables: polynomial >= 0, or polynomial == 0 if `is_equality` is set."""

    polynomial: Polynomial
    is_equality: bool = False


@dataclass(frozen=True)
class Access:
    """The elements of an array or variable that a statement may access, over all iterations of the loops and under the
    conditions around the access. An index of None may have any value."""

    base: BaseObject
    indices: tuple[Polynomial | None, ...]
    is_write: bool
    line: int
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    is_message: bool = False  # access by MPI to a message buffer
    unknown_index_reason: str = ""  # reason why an index is unknown


@dataclass
class LoopNest:
    """A loop nest: the outer loops, whose iterations may be reordered, and their body, which is copied verbatim."""

    loops: list[Loop]
    accesses: list[Access]
    start: int  # source offset of the statement
    end: int
    body_span: tuple[int, int]  # source offsets of the start and end of the loop body
    line: int
    pragma_offset: int = 0  # source offset of the pragmas above the statement
    outer_iterators: set[int] = field(default_factory=set)  # loop iterators that are declared before the loops


@dataclass
class MessageSide:
    """The send or the receive side of an MPI message, as given by the arguments of the call."""

    is_send: bool
    count: Polynomial | None
    element_bytes: int
    is_certain: bool = False  # sent or received whenever the region is executed


@dataclass(frozen=True)
class Chunking:
    """How the messages of an exchange are split if they have more than `max_unsplit_elements` elements. `loop` iterates
    over the first element of each chunk; its step is the chunk length in elements."""

    loop: Loop
    count: Polynomial
    max_unsplit_elements: int

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
    statement's accesses that belong to the call. If `is_in_block` is set, the call stands in a block, so that further
    statements may follow it."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int
    access_numbers: range
    is_in_block: bool

    def begin_calls(self) -> Iterator[tuple[str, list[str]]]:
        """Yields the nonblocking calls that begin the blocking call, each with all arguments but the request."""
        arguments = list(self.arguments)
        if self.name == "MPI_Sendrecv":
            yield "MPI_Irecv", [*arguments[5:10], arguments[10]]
            yield "MPI_Isend", [*arguments[:5], arguments[10]]
        else:
            yield NONBLOCKING_EQUIVALENTS[self.name][0], arguments[:6]


@dataclass
class CommunicationStatement:
    """A statement that communicates and is moved as a whole. `begins_messages` and `completes_messages` are set if it
    begins and if it completes messages; a blocking exchange does both."""

    start: int
    end: int
    line: int
    call_names: str
    accesses: list[Access]
    messages: list[MessageSide] = field(default_factory=list)
    begins_messages: bool = True
    completes_messages: bool = True
    pragma_offset: int = 0
    outer_iterators: set[int] = field(default_factory=set)
    sendrecv_arguments: dict[str, str] = field(default_factory=dict)  # arguments of an MPI_Sendrecv
    # The blocking MPI calls of the statement, if they can be replaced by a nonblocking begin and a later completion.
    blocking_calls: list[BlockingCall] = field(default_factory=list)
    is_plain_wait: bool = False  # whether it only waits, for messages that are known
    unsplittable_reason: str = ""  # reason why begin and completion cannot be separated
    chunking: Chunking | None = None  # set if its messages are split into chunks

    @property
    def loops(self) -> list[Loop]:
        """Returns the loop over the chunks of the messages, if they are split."""
        return [self.chunking.loop] if self.chunking else []

    @property
    def is_single_blocking_call(self) -> bool:
        """Returns whether the statement is a single blocking MPI call."""
        return len(self.blocking_calls) == 1 and self.blocking_calls[0].start == self.start

    @property
    def num_requests(self) -> int:
        """Returns the number of requests that the blocking calls of the statement need when they become nonblocking."""
        return sum(len(NONBLOCKING_EQUIVALENTS[one.name]) for one in self.blocking_calls)


RegionItem = LoopNest | CommunicationStatement


@dataclass
class Region:
    """Consecutive statements of a block that may be reordered: calls that communicate, and loop nests."""

    function: str
    items: list[RegionItem]
    symbols: dict[str, Symbol]
    line: int
    hoisted_declaration_spans: list[tuple[int, int]] = field(
        default_factory=list
    )  # offsets of declarations that are hoisted

    def subregion(self, items: list[RegionItem], line: int) -> Region:
        """Returns consecutive statements of the region as a region of their own."""
        inside = [one for one in self.hoisted_declaration_spans if items[0].start < one[0] < items[-1].end]
        return Region(self.function, items, self.symbols, line, inside)

    def source_text(self, source: str) -> str:
        """Returns the source text of the region without the declarations among its statements."""
        return self.text_without_declarations(source, self.items[0].pragma_offset, self.end)

    def text_without_declarations(self, source: str, start: int, end: int) -> str:
        """Returns the source text between two offsets without declarations and without the lines that they leave
        empty."""
        remaining_text, last = "", start
        for first, behind in self.hoisted_declaration_spans:
            if start <= first < end:
                remaining_text += source[last:first].rstrip(" \t")
                last = behind + (remaining_text.endswith("\n") and source.startswith("\n", behind))
        return remaining_text + source[last:end]

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
            if isinstance(item, CommunicationStatement) or any(access.base.dimension_sizes for access in item.accesses)
        }  # fmt: skip

    @property
    def nests(self) -> list[LoopNest]:
        return [item for item in self.items if isinstance(item, LoopNest)]
