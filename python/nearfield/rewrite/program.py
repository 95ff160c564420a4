"""What the front end finds in a function: arrays, accesses, loops, nests, calls of MPI, and regions made of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nearfield.rewrite.polynomials import Poly, Symbol

# The calls that begin what a blocking call does.
NONBLOCKING = {
    "MPI_Send": ("MPI_Isend",), "MPI_Recv": ("MPI_Irecv",), "MPI_Sendrecv": ("MPI_Irecv", "MPI_Isend"),
}  # fmt: skip


class Barrier(Exception):
    """A statement across which nothing may be moved; says why, and at which line."""

    def __init__(self, reason: str, line: int, assumption: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.assumption = reason, line, assumption


@dataclass(frozen=True)
class Base:
    """Memory that accesses name: a variable, an array, or what a pointer points to."""

    key: str
    text: str
    kind: str  # scalar, array, vector, pointer or rows (pointers to rows)
    element: str  # type
    sizes: tuple[Poly | None, ...] = ()  # of the dimensions; None where it is not known
    declaration: int = 0


@dataclass(frozen=True)
class Loop:
    """A loop that counts up, or down if it says so: lower <= iterator < upper."""

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
    """Elements of a base that a statement may access: all that the inner loops and conditions allow. An index that is
    None may be any."""

    base: Base
    index: tuple[Poly | None, ...]
    write: bool
    line: int
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    message: bool = False
    note: str = ""  # why an index may be any


@dataclass
class Nest:
    """Loops around one piece of code, which is kept as it is written."""

    loops: list[Loop]
    accesses: list[Access]
    start: int  # of the statement in the file
    end: int
    body: tuple[int, int]  # what the loops repeat
    line: int
    lead: int = 0  # where pragmas in front of it begin
    counters: set[int] = field(default_factory=set)  # variables of loops that are declared before them


@dataclass
class Message:
    """One side of a message: the buffer's elements, as arguments of the call."""

    send: bool
    count: Poly | None
    element_bytes: int
    certain: bool = False  # it is sent or received whenever the region is executed


@dataclass(frozen=True)
class Piece:
    """How the messages of an exchange are cut where they have more than `least` elements: `loop` counts the first
    element of each piece, and its step is the length of a piece."""

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
    """A blocking call of a statement: where it stands, its arguments as they are written, and the numbers of the
    statement's accesses that are its own. `listed` says that further statements may follow it where it stands."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int
    accesses: range
    listed: bool

    def begun(self) -> Iterator[tuple[str, list[str]]]:
        """Yields the calls that begin it, with their arguments but the request."""
        words = list(self.arguments)
        if self.name == "MPI_Sendrecv":
            yield "MPI_Irecv", [*words[5:10], words[10]]
            yield "MPI_Isend", [*words[:5], words[10]]
        else:
            yield NONBLOCKING[self.name][0], words[:6]


@dataclass
class Call:
    """A statement that communicates, moved as a whole. `post` and `wait` say whether it begins and completes messages;
    a blocking exchange does both."""

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
    blocking: list[Blocking] = field(default_factory=list)  # its calls, if they can be begun and completed apart
    unsplit: str = ""  # why they cannot
    piece: Piece | None = None  # its messages are cut

    @property
    def loops(self) -> list[Loop]:
        return [self.piece.loop] if self.piece else []

    @property
    def is_plain(self) -> bool:
        """Returns whether the statement is one blocking call and nothing else."""
        return len(self.blocking) == 1 and self.blocking[0].start == self.start

    @property
    def requests(self) -> int:
        """Returns how many requests its blocking calls need."""
        return sum(len(NONBLOCKING[one.name]) for one in self.blocking)


Item = Nest | Call


@dataclass
class Region:
    """Statements that follow one another in a block: calls that communicate, and nests."""

    function: str
    items: list[Item]
    symbols: dict[str, Symbol]
    line: int
    declared: list[tuple[int, int]] = field(default_factory=list)  # declarations among the items, which may come first

    def part(self, items: list[Item], line: int) -> Region:
        """Returns some of its items, which follow one another, as a region."""
        inside = [one for one in self.declared if items[0].start < one[0] < items[-1].end]
        return Region(self.function, items, self.symbols, line, inside)

    def text(self, source: str) -> str:
        """Returns its text without its declarations."""
        return self.without_declarations(source, self.items[0].lead, self.end)

    def without_declarations(self, source: str, start: int, end: int) -> str:
        """Returns the text between two offsets without the declarations in it, and without lines that had no more."""
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
        """Returns the numbers of the calls, and of the nests that access arrays."""
        return {
            number for number, item in enumerate(self.items)
            if isinstance(item, Call) or any(access.base.sizes for access in item.accesses)
        }  # fmt: skip

    @property
    def nests(self) -> list[Nest]:
        return [item for item in self.items if isinstance(item, Nest)]
