"""Sums up how long received data lies before a simulated program reads it, by the line that receives it
(src/sim/run/replay/first_reads.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.observe.replay import Replay


@dataclass
class ReceivedData:
    """The messages that the calls of one MPI function from one source line received, on all ranks. Times are sums over
    the messages that the program read, by the base policy at the first memory speed. `byte_ns`: the bytes of each
    message times the time from its arrival to its first read."""

    name: str
    line: str
    messages: int = 0
    bytes: int = 0
    unread_messages: int = 0
    in_mpi_ns: float = 0.0
    until_read_ns: float = 0.0
    byte_ns: float = 0.0

    @property
    def read_messages(self) -> int:
        """Returns how many of the messages the program read."""
        return self.messages - self.unread_messages


def received_data(found: Replay) -> list[ReceivedData]:
    """Returns the data that each line received, in descending order of `byte_ns`."""
    lines: dict[tuple[str, str], ReceivedData] = {}
    for call in (call for rank in found.found.ranks for call in rank.calls if call.received.messages):
        one = lines.setdefault(key := (call.name, found.line(call)), ReceivedData(*key))
        one.messages += call.received.messages
        one.bytes += call.received.bytes
        one.unread_messages += call.received.unread_messages
        one.in_mpi_ns += call.received.in_mpi_ns
        one.until_read_ns += call.received.until_read_ns
        one.byte_ns += call.received.byte_ns
    return sorted(lines.values(), key=lambda one: -one.byte_ns)


def mean_waiting_bytes(found: Replay) -> float:
    """Returns how many received bytes wait in a node for their first read, as the mean over the time and the nodes."""
    total_ns = found.time_ns()[0][0] * found.cluster.nodes
    return sum(one.byte_ns for one in received_data(found)) / total_ns if total_ns else 0.0
