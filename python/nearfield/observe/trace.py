"""A trace: a folder with the recording of an observed program.

trace.toml has the provenance. rank-N.nfs is the stream of rank N (src/trace/stream/format.hpp). places.parquet has, for
each code location that accessed memory or called MPI, the source line and the floating-point operations per access."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from nearfield._native import stream
from nearfield.base import own_command
from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors, read_user_file
from nearfield.base.toml import SCHEMA_VERSION, Table, dump_toml, parse_toml

TRACE_FILE = "trace.toml"
PLACES_FILE = "places.parquet"
PLACE_COLUMNS = {"object": bytes, "offset": int, "file": str, "line": int, "function": str, "flops": float}
OBSERVE_AGAIN_REMEDY = "observe the program again"
STREAM_HEADER_BYTES = 16  # bytes of a stream without a chunk (src/trace/stream/format.hpp)
_NO_SPACE_REMEDY = "Give another folder with --out, on a disk with room."


class TraceFile(Table):
    """The contents of trace.toml."""

    schema_version: int = SCHEMA_VERSION
    nearfield: str
    created: datetime
    command: str
    mpi: str = ""  # empty for a program without MPI
    region: str = ""  # accesses outside of the region are not recorded
    recorder: Literal["hooks", "valgrind"] = "hooks"  # what recorded the accesses
    complete: bool = False  # True: the program ended by itself, and every stream is complete
    ended_by: str = ""  # name of the signal that ended nearfield and the program
    seconds: float = 0.0
    exit_code: int = -1
    ranks: int = 0
    accesses: int = 0
    stream_bytes: int = 0


class BrokenTraceError(NearfieldError):
    """A trace is truncated, modified, or of another version of the format."""

    exit_code = ProfileError.exit_code


class Trace:
    """A trace folder, whose streams are read on demand."""

    def __init__(self, folder: Path) -> None:
        """Reads trace.toml. Raises ProfileError if there is no trace in the folder."""
        self.folder = folder
        try:
            content = read_user_file(folder / TRACE_FILE)
        except OSError as error:
            remedy = f"name a folder that {own_command.command_line('observe')} made"
            raise ProfileError(f"there is no trace in {folder}: {error.strerror}", remedy) from error
        self.metadata = parse_toml(TraceFile, content, folder / TRACE_FILE, OBSERVE_AGAIN_REMEDY)

    def streams(self) -> list[Path]:
        """Returns the stream files in rank order. Raises BrokenTraceError if one is missing."""
        file_by_rank = stream_files(self.folder)
        missing_ranks = [
            rank for rank in range(max(self.metadata.ranks, len(file_by_rank))) if rank not in file_by_rank
        ]
        if missing_ranks or not file_by_rank:
            which = f"of rank {missing_ranks[0]}" if missing_ranks else "of any rank"
            raise BrokenTraceError(f"there is no stream {which} in {self.folder}", OBSERVE_AGAIN_REMEDY)
        return [file_by_rank[rank] for rank in sorted(file_by_rank)]

    def open_reader(self, file: Path) -> stream.Reader:
        """Opens a stream file and returns its reader. Raises BrokenTraceError."""
        with broken_streams_as_errors():
            return stream.Reader(str(file))


class broken_streams_as_errors:  # noqa: N801  # read as a word: with broken_streams_as_errors()
    """A context that converts a BrokenStream exception to a BrokenTraceError with a remedy."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, stream.BrokenStream):
            raise BrokenTraceError(str(error), OBSERVE_AGAIN_REMEDY) from error


def stream_files(folder: Path) -> dict[int, Path]:
    """Returns rank -> stream file."""
    names = ((re.fullmatch(r"rank-(\d+)\.nfs", file.name), file) for file in folder.iterdir())
    return {int(name[1]): file for name, file in names if name}


def unnamed_streams(folder: Path) -> Iterator[Path]:
    """Yields the stream files of processes that did not reach MPI_Init, or that were killed before their end."""
    yield from folder.glob("process-*.nfs")


def find_newest_trace(folder: Path) -> tuple[Trace, list[Path]]:
    """Returns the newest trace in the subfolders of this folder, and the folders of all traces. Raises UsageError if
    there is none."""
    traces = []
    for file in sorted(folder.glob(f"*/{TRACE_FILE}")):
        with suppress(NearfieldError):
            traces.append(Trace(file.parent))
    if not traces:
        remedy = f"Name one, or observe a program: {own_command.command_line('observe', '--', 'COMMAND')}"
        raise UsageError("There is no trace in this folder", remedy)
    return max(traces, key=lambda one: one.metadata.created), [one.folder for one in traces]


def require_usable_folder(folder: Path, force: bool) -> None:
    """Raises UsageError if a new trace cannot be written into this folder, because it holds other files, or a trace and
    `force` is false."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        if not (folder / TRACE_FILE).is_file():
            raise UsageError(f"{folder} is no trace, and not empty", "give another folder with --out")
        if not force:
            raise UsageError(f"{folder} holds a trace already", "give another one with --out, or --force to replace it")


def create_trace_folder(folder: Path, metadata: TraceFile, force: bool) -> None:
    """Creates the folder of a trace with trace.toml; removes an old trace in it. Raises UsageError as
    require_usable_folder does."""
    require_usable_folder(folder, force)
    if (folder / TRACE_FILE).is_file():
        shutil.rmtree(folder)
    with os_errors_as_profile_errors(folder, _NO_SPACE_REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
    write_trace_file(folder, metadata)


def write_trace_file(folder: Path, metadata: TraceFile) -> None:
    """Writes trace.toml."""
    text = dump_toml(metadata, "Origin of this trace.", "docs/explanation/observing.md")
    atomic_write(folder / TRACE_FILE, text, _NO_SPACE_REMEDY)
