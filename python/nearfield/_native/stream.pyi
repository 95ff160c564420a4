"""Reading the streams of observed programs."""

from typing import Any


class BrokenStream(RuntimeError):
    pass

class Chunk:
    @property
    def flags(self) -> int: ...

    @property
    def raw_bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...

    @property
    def accesses(self) -> int: ...

class Site:
    @property
    def object(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def kind(self) -> int: ...

class Passed:
    @property
    def loads(self) -> int: ...

    @property
    def stores(self) -> int: ...

    @property
    def bytes(self) -> int: ...

class SiteCounts:
    """How often each site accessed memory."""

    def __init__(self) -> None: ...

    @property
    def accesses(self) -> list[int]: ...

class Live:
    """The streams of a program that still runs, on this host."""

    def __init__(self) -> None: ...

    @property
    def address(self) -> str:
        """What NEARFIELD_OBSERVE has to be for the program."""

    def save_to(self, folder: str) -> None:
        """Also writes all streams into a folder from now on."""

    @property
    def save_error(self) -> str:
        """Why the streams could not be saved; empty if they were."""

    @property
    def ranks(self) -> int:
        """The number of ranks; 0 until all of them are in MPI_Init."""

    @property
    def idle(self) -> bool:
        """Whether no process is connected."""

    def read_until_eof(self) -> None:
        """The command has ended: reads all that its ranks have sent."""

    def discard_unread(self) -> None:
        """Nobody reads the streams any more: they are saved or dropped."""

    def close(self) -> None:
        """Ends all connections and all pending reads."""

class Reader:
    """
    Reads one rank's stream from its beginning, once. Raises BrokenStream at a byte.
    """

    def __init__(self, path: str) -> None: ...

    def accesses(self, most: int) -> object:
        """
        Reads so many accesses at most, up to the next event. Returns arrays of addresses, bytes, whether they store, and sites; empty ones when an event or the end comes next.
        """

    def pass_accesses(self, counts: SiteCounts | None = None) -> Passed:
        """Counts the accesses up to the next event, and adds them to `counts`."""

    def event(self) -> tuple[str, dict[str, Any]] | None:
        """
        Returns the next event, its name and fields; None at the end of the stream.
        """

    def skip_to_last_chunk(self) -> None:
        """Passes over all chunks but the last one with bytes, and reads none."""

    @property
    def chunks(self) -> list[Chunk]:
        """The headers of the chunks so far."""

    @property
    def sites(self) -> list[Site]:
        """The sites so far, which accesses count from 0."""
