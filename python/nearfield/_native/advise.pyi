"""Reuse distances and messages of observed programs."""

from collections.abc import Callable, Sequence


class Reach:
    """Lines of messages by the smallest cache that would still have them."""

    @property
    def lines(self) -> list[int]: ...

    @property
    def bytes(self) -> list[float]: ...

class Call:
    """An MPI function, called from one place."""

    @property
    def name(self) -> str: ...

    @property
    def frames(self) -> list[tuple[str, int]]: ...

    @property
    def calls(self) -> int: ...

    @property
    def time_ns(self) -> int: ...

    @property
    def delayed_ns(self) -> int: ...

class Messages:
    """Messages from one call with the same peer, size and layout."""

    @property
    def call(self) -> int: ...

    @property
    def sends(self) -> bool: ...

    @property
    def context(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def peer(self) -> int: ...

    @property
    def world_peer(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def piece_bytes(self) -> int: ...

    @property
    def stride_bytes(self) -> int: ...

    @property
    def messages(self) -> int: ...

    @property
    def address(self) -> int: ...

    @property
    def allocated(self) -> bool: ...

    @property
    def reach(self) -> Reach: ...

    @property
    def sites(self) -> dict[int, int]: ...

    @property
    def lines(self) -> int: ...

    @property
    def untouched(self) -> int: ...

class Ended:
    """Messages that a call waited for."""

    @property
    def call(self) -> int: ...

    @property
    def messages(self) -> int: ...

    @property
    def times(self) -> int: ...

class Burst:
    """Runs of small messages to one peer from one call."""

    @property
    def call(self) -> int: ...

    @property
    def world_peer(self) -> int: ...

    @property
    def bursts(self) -> int: ...

    @property
    def messages(self) -> int: ...

    @property
    def bytes(self) -> int: ...

class CollectiveCalls:
    """Calls of one collective with the same size."""

    @property
    def call(self) -> int: ...

    @property
    def kind(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def calls(self) -> int: ...

class Synchronisations:
    """
    Collectives of a communicator that no rank leaves before all have come.
    """

    @property
    def context(self) -> int: ...

    @property
    def world(self) -> list[int]: ...

    @property
    def calls(self) -> list[int]: ...

    @property
    def times_ns(self) -> list[int]: ...

class Topology:
    """A rank's neighbours in a communicator that has a topology."""

    @property
    def context(self) -> int: ...

    @property
    def world(self) -> list[int]: ...

    @property
    def rank(self) -> int: ...

    @property
    def sources(self) -> list[int]: ...

    @property
    def destinations(self) -> list[int]: ...

class AnalysisResult:
    """Sums over one rank's stream."""

    @property
    def rank(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def accesses(self) -> int: ...

    @property
    def delays(self) -> bool: ...

    @property
    def between_calls_ns(self) -> int: ...

    @property
    def delayed_between_ns(self) -> int: ...

    @property
    def sampled(self) -> float: ...

    @property
    def ended(self) -> bool: ...

    @property
    def calls(self) -> list[Call]: ...

    @property
    def messages(self) -> list[Messages]: ...

    @property
    def ended_in(self) -> list[Ended]: ...

    @property
    def bursts(self) -> list[Burst]: ...

    @property
    def collectives(self) -> list[CollectiveCalls]: ...

    @property
    def synchronisations(self) -> list[Synchronisations]: ...

    @property
    def topologies(self) -> list[Topology]: ...

    @property
    def objects(self) -> list[str]: ...

class Rank:
    """What a stream says, and the places of its sites: object, offset."""

    @property
    def found(self) -> AnalysisResult: ...

    @property
    def sites(self) -> list[tuple[int, int]]: ...

def analyse(streams: Sequence[str], limits_bytes: Sequence[int], small_bytes: int, threads: int, progress: Callable[[int], None] | None) -> list[Rank]:
    """
    Analyses streams, each in two passes. `limits_bytes`: capacities of caches, ascending. `progress` is called now and then with the accesses that have been read, those of both passes together. Raises BrokenStream, and ValueError if there is no stream or limits do not ascend.
    """
