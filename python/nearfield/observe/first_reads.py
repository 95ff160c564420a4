"""Sums up how long received data lies before a simulated program reads it, by the line that receives it
(src/sim/run/replay/first_reads.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.observe.replay import Replay


@dataclass
class ReceivedData:
    """The messages that the calls of one MPI function from one source line received, on all ranks. Times are in ns, by
    the base policy at the first memory speed. `in_mpi_ns`: from the arrival of the data to the end of the call, summed
    over the messages. `byte_ns_until_read`: from there to the first read of each cache line, times its bytes, summed
    over the lines that the program read (`read_bytes`). `byte_ns`: the same from the arrival on."""

    name: str
    line: str
    messages: int = 0
    bytes: int = 0
    read_bytes: int = 0
    in_mpi_ns: float = 0.0
    byte_ns_until_read: float = 0.0
    byte_ns: float = 0.0


def received_data(found: Replay) -> list[ReceivedData]:
    """Returns the data that each line received, in descending order of `byte_ns`."""
    lines: dict[tuple[str, str], ReceivedData] = {}
    for call in (call for rank in found.found.ranks for call in rank.calls if call.received.messages):
        one = lines.setdefault(key := (call.name, found.line(call)), ReceivedData(*key))
        one.messages += call.received.messages
        one.bytes += call.received.bytes
        one.read_bytes += call.received.read_bytes
        one.in_mpi_ns += call.received.in_mpi_ns
        one.byte_ns_until_read += call.received.byte_ns_until_read
        one.byte_ns += call.received.byte_ns
    return sorted(lines.values(), key=lambda one: -one.byte_ns)


def mean_waiting_bytes(found: Replay) -> float:
    """Returns how many received bytes wait in a node for their first read, as the mean over the time and the nodes.
    Bytes that are never read do not count."""
    total_ns = found.time_ns()[0][0] * found.cluster.nodes
    return sum(one.byte_ns for one in received_data(found)) / total_ns if total_ns else 0.0
