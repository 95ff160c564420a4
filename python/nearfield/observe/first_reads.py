"""Sums up, by the source line that receives the data, how long received data stays unread in a simulated program
(src/sim/run/replay/first_reads.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.observe.replay import Replay


@dataclass
class ReceivedData:
    """The messages that the calls of one MPI function from one source line received, on all ranks. Times are in ns,
    under the base policy at the first memory speed. `in_mpi_ns`: from the arrival of the data to the end of the call,
    summed over the messages. `byte_ns_until_read`: from the end of the call to the first read of each cache line, times
    the bytes of the line, summed over the lines that the program read (`read_bytes`). `byte_ns`: the same, but counted
    from the arrival of the data."""

    name: str
    line: str
    messages: int = 0
    bytes: int = 0
    read_bytes: int = 0
    in_mpi_ns: float = 0.0
    byte_ns_until_read: float = 0.0
    byte_ns: float = 0.0


def received_data(program_replay: Replay) -> list[ReceivedData]:
    """Returns the data that each line received, in descending order of `byte_ns`."""
    lines: dict[tuple[str, str], ReceivedData] = {}
    for call in (call for rank in program_replay.replayed.ranks for call in rank.calls if call.received.messages):
        one = lines.setdefault(key := (call.name, program_replay.source_line_of(call)), ReceivedData(*key))
        one.messages += call.received.messages
        one.bytes += call.received.bytes
        one.read_bytes += call.received.read_bytes
        one.in_mpi_ns += call.received.in_mpi_ns
        one.byte_ns_until_read += call.received.byte_ns_until_read
        one.byte_ns += call.received.byte_ns
    return sorted(lines.values(), key=lambda one: -one.byte_ns)


def mean_unread_bytes(program_replay: Replay) -> float:
    """Returns the number of received bytes in a node that have not yet been read, as the mean over time and nodes.
    Bytes that are never read do not count."""
    total_ns = program_replay.time_ns()[0][0] * program_replay.cluster.nodes
    return sum(one.byte_ns for one in received_data(program_replay)) / total_ns if total_ns else 0.0
