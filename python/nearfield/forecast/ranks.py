"""Reads the file that the profiling layer writes for each rank, in the format of src/preload/forecast/format.hpp."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

FORMAT_VERSION = 1
_MAGIC = b"nfcast\n\0"
_HEADER = struct.Struct("<8sII4iII2Q")
_USAGE = struct.Struct("<13Q")
_COSTS = struct.Struct("<2d16Q128s128s2I")
_OBJECT = struct.Struct("<Q248s")
_TABLE = struct.Struct("<II3Q32x")
_ROW = struct.Struct("<QII5Q")
_MAX_OBJECTS, _NAMES_BYTES, _NUM_TABLES, _ROWS_PER_TABLE = 64, 48 << 10, 64, 1024
_PAGE_BYTES = 4096


class RecordingState(IntEnum):
    """How the recording of a rank ended."""

    RUNNING = 0  # the process was killed
    FINALIZED = 1
    EXITED = 2  # the process ended without MPI_Finalize


class CallCategory(IntEnum):
    """The kind of an MPI call."""

    OTHER = 0
    POINT_TO_POINT = 1
    COLLECTIVE = 2
    NEIGHBORS = 3
    ONE_SIDED = 4
    COMPLETION = 5  # wait or test, for requests of several kinds or of an unknown kind
    FILE = 6


class PartnerPlace(IntEnum):
    """Where the ranks run that an MPI call communicates with: on the caller's node, on other nodes, or on both."""

    NODE = 0
    OTHERS = 1
    BOTH = 2


class ProcessUsage(NamedTuple):
    """The operating system's data on a process and its node at one time, as in format.hpp."""

    ticks: int
    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    resident_kib: int
    voluntary_switches: int
    involuntary_switches: int
    delay_ns: int
    has_delay: int
    busy_ticks: int
    idle_ticks: int
    stolen_ticks: int


@dataclass(frozen=True)
class CallGroup:
    """The calls of one MPI function from one code location, with messages of one size class."""

    name: str
    category: CallCategory
    partner_place: PartnerPlace
    size_class: int
    site: tuple[str, int] | None  # code location: path of an executable or library, and offset in it
    num_calls: int
    num_messages: int
    total_bytes: int
    duration_s: float
    between_polls_s: float  # time between consecutive polls, such as MPI_Test

    @property
    def mean_bytes(self) -> float:
        """Returns the mean size of a message in bytes; 0 without messages."""
        return self.total_bytes / self.num_messages if self.num_messages else 0.0


@dataclass(frozen=True)
class RecordedRank:
    """The recorded data of one rank, from the end of MPI_Init to the beginning of MPI_Finalize."""

    rank: int
    num_ranks: int
    num_node_ranks: int
    host: str
    library: str
    state: RecordingState
    is_spawned: bool
    duration_s: float
    in_mpi_s: float  # seconds in MPI calls, summed over threads
    num_threads: int  # number of threads that called MPI
    num_lost_threads: int
    begin_usage: ProcessUsage
    end_usage: ProcessUsage | None  # None if the process was killed
    page_fault_ns: float
    layer_call_ns: float
    cores: frozenset[int]
    sent_to_node_bytes: int
    sent_to_others_bytes: int
    call_groups: tuple[CallGroup, ...]


def read_ranks(folder: Path) -> list[RecordedRank]:
    """Returns the recorded ranks in a folder, by rank number. Files of processes that did not complete MPI_Init, and
    damaged files, are ignored."""
    ranks = (read_rank(file.read_bytes()) for file in folder.glob("*.rank"))
    return sorted((one for one in ranks if one), key=lambda one: (one.is_spawned, one.rank))


def read_rank(data: bytes) -> RecordedRank | None:
    """Returns the rank that the content of a record file describes; None if the file is damaged or of a process that
    did not complete MPI_Init."""
    try:
        return _parse_rank(data)
    except (struct.error, ValueError, IndexError, ZeroDivisionError):
        return None


def _parse_rank(data: bytes) -> RecordedRank | None:
    """Parses the content of a rank's record file; None if it is of another format."""
    magic, version, state, _, number, ranks, node_ranks, spawned, lost, ticks0, ns0 = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != FORMAT_VERSION:
        return None
    at = _HEADER.size
    begin, end = (ProcessUsage(*_USAGE.unpack_from(data, at + i * _USAGE.size)) for i in (0, 1))
    at += 2 * _USAGE.size
    fault_ns, call_ns, *rest = _COSTS.unpack_from(data, at)
    masks, (host, library, names_used, objects_used) = rest[:16], rest[16:]
    at += _COSTS.size
    objects = [_OBJECT.unpack_from(data, at + i * _OBJECT.size) for i in range(min(objects_used, _MAX_OBJECTS))]
    names = data[at + _MAX_OBJECTS * _OBJECT.size :][: min(names_used, _NAMES_BYTES)]
    whole = RecordingState(state) != RecordingState.RUNNING
    last = end if whole else begin
    seconds_per_tick = (last.wall_ns - ns0) / (last.ticks - ticks0) / 1e9
    tables = list(_used_tables(data))
    calls = tuple(_parse_call_group(row, names, objects, seconds_per_tick) for _, rows in tables for row in rows)
    ended = end.ticks if whole else max((table[2] for table, _ in tables), default=begin.ticks)
    return RecordedRank(
        rank=number, num_ranks=ranks, num_node_ranks=node_ranks, host=_text_until_nul(host),
        library=_text_until_nul(library), state=RecordingState(state), is_spawned=bool(spawned),
        duration_s=(ended - begin.ticks) * seconds_per_tick, in_mpi_s=sum(one.duration_s for one in calls),
        num_threads=sum(1 for _, rows in tables if rows), num_lost_threads=lost,
        begin_usage=begin, end_usage=end if whole else None, page_fault_ns=fault_ns, layer_call_ns=call_ns,
        cores=frozenset(64 * i + bit for i, mask in enumerate(masks) for bit in range(64) if mask >> bit & 1),
        sent_to_node_bytes=sum(table[3] for table, _ in tables),
        sent_to_others_bytes=sum(table[4] for table, _ in tables), call_groups=calls,
    )  # fmt: skip


_Row = tuple[int, ...]


def _used_tables(data: bytes) -> list[tuple[tuple[int, ...], list[_Row]]]:
    """Returns the tables of calls that a thread has used, each as its header and its rows."""
    header_bytes = _HEADER.size + 2 * _USAGE.size + _COSTS.size + _MAX_OBJECTS * _OBJECT.size + _NAMES_BYTES
    first = -(-header_bytes // _PAGE_BYTES) * _PAGE_BYTES
    table_bytes = -(-(_TABLE.size + _ROWS_PER_TABLE * _ROW.size) // _PAGE_BYTES) * _PAGE_BYTES
    tables = []
    for at in range(first, first + _NUM_TABLES * table_bytes, table_bytes):
        table = _TABLE.unpack_from(data, at)
        if table[2]:
            rows = _ROW.iter_unpack(data[at + _TABLE.size : at + _TABLE.size + _ROWS_PER_TABLE * _ROW.size])
            tables.append((table, [row for row in rows if row[3]]))
    return tables


def _parse_call_group(row: _Row, names: bytes, objects: list[tuple[int, bytes]], seconds_per_tick: float) -> CallGroup:
    """Converts a row of a table of calls."""
    site, key, number, calls, messages, size_bytes, ticks, between = row
    place = None
    if 1 <= number <= len(objects):
        base, path = objects[number - 1]
        place = _text_until_nul(path), site - base
    name = _text_until_nul(names[key >> 16 :])
    return CallGroup(
        name, CallCategory(key >> 12 & 15), PartnerPlace(key >> 8 & 15), key & 255, place, calls, messages, size_bytes,
        ticks * seconds_per_tick, between * seconds_per_tick,
    )  # fmt: skip


def _text_until_nul(data: bytes) -> str:
    """Returns the text of a NUL-terminated field."""
    return data.partition(b"\0")[0].decode(errors="replace")
