"""Runs a program while nearfield's library counts its collectives, by operation, communicator shape and length. The MPI
executes the collectives meanwhile. Every process writes its counts in MPI_Finalize
(src/preload/collectives/call_lengths.hpp)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import nearfield
from nearfield.apply.collectives import collectives_variables_for_command
from nearfield.base import all_nodes, own_command
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.files import atomic_write
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi.detect_command import detect_mpi
from nearfield.mpi.launch import is_in_allocation
from nearfield.mpi.run_child import run_as_child
from nearfield.rules.called_collectives import CallCount, CalledCollectives, merge_call_counts, save_called_collectives
from nearfield.rules.collectives import COLLECTIVES_VARIABLE, OPERATIONS

# environment variable for the folder of counts (call_lengths.cpp)
COUNTS_FOLDER_VARIABLE = "NEARFIELD_COLLECTIVES_LENGTHS"
_COUNTS_FILE_HEADER = ("nearfield-lengths", "1")


@dataclass(frozen=True)
class LearningRun:
    """A command whose collectives are to be counted: its environment, the name of its MPI, and the output file."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    mpi_name: str
    output_file: Path

    def run(self) -> tuple[int, CalledCollectives | None]:
        """Runs the command and saves the collectives that its ranks called. Returns the exit code and the saved
        collectives; None instead of the latter if the command failed. Raises MeasurementError if the command succeeded
        but its ranks wrote no counts."""
        with _temporary_folder_for_ranks() as folder:
            environment = {**self.environment, COUNTS_FOLDER_VARIABLE: str(folder)}
            environment |= all_nodes.variables_for_all_nodes(self.argv, environment)
            code = run_as_child(self.argv, environment, [folder])
            if code:
                return code, None
            counts, ranks = read_call_counts(folder)
        called = CalledCollectives(
            schema_version=1,
            nearfield=nearfield.__version__,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=own_command.original_command_line(),
            mpi=self.mpi_name,
            ranks=ranks,
            call=merge_call_counts(counts, ranks),
        )
        save_called_collectives(called, self.output_file)
        return 0, called


def prepare_learning(
    argv: Sequence[str],
    environment: Mapping[str, str],
    output_file: Path,
    mpi_name: str | None,
    progress: ReportLine = ignore_progress,
) -> LearningRun:
    """Builds the counting library for the command's MPI. Returns the command ready to run. Raises UsageError,
    ProfileError or MpiError if the command cannot be run with the library, or if the output file cannot be written."""
    if output_file.is_dir():
        raise UsageError(f"'{output_file}' is a folder", "name a file with --learn")
    atomic_write(output_file, b"", "name another file with --learn", keep=False)
    found = detect_mpi(argv, mpi_name)
    # after=0: count from the first call of a communicator, since programs may use one only once.
    settings = ",".join(filter(None, [environment.get(COLLECTIVES_VARIABLE, ""), "after=0"]))
    made = {
        **environment,
        **collectives_variables_for_command(argv, mpi_name, environment, progress),
        COLLECTIVES_VARIABLE: settings,
    }
    return LearningRun(argv, made, f"{found.family}-{found.version}", output_file)


def read_call_counts(folder: Path) -> tuple[list[CallCount], int]:
    """Returns the counts of all ranks and the number of ranks. Raises MeasurementError if the file of a rank is missing
    or damaged."""
    counts: list[CallCount] = []
    seen: set[int] = set()
    expected = 0
    for file in sorted(folder.glob("*.lengths")):
        try:
            first, *lines = file.read_text().splitlines()
            *words, rank, ranks = first.split()
            if tuple(words) != _COUNTS_FILE_HEADER:
                raise ValueError(first)
            counts += map(_parse_call_count, lines)
            seen.add(int(rank))
            expected = max(expected, int(ranks))
        except ValueError as error:
            raise MeasurementError(f"a rank's counts are damaged: {error}", "run the program again") from error
    if not seen:
        raise MeasurementError(
            "no process called MPI_Finalize under the layer that counts collectives",
            "the program may be linked statically, or end without MPI_Finalize",
        )
    if len(seen) < expected:
        raise MeasurementError(
            f"{len(seen)} of {expected} ranks reported their collective calls",
            "other nodes must see this folder, and all ranks must call MPI_Finalize",
        )
    return counts, expected


def _parse_call_count(line: str) -> CallCount:
    operation, *numbers = line.split()
    if operation not in OPERATIONS:
        raise ValueError(f"no operation is called '{operation}'")
    ranks, nodes, size_bytes, calls, ns = map(int, numbers)
    return CallCount(operation, ranks, nodes, size_bytes, calls, ns)


@contextmanager
def _temporary_folder_for_ranks() -> Iterator[Path]:
    """Yields a temporary folder that all ranks can write to. In an allocation, creates it in the current folder,
    because other nodes do not see this node's /tmp."""
    parent = Path.cwd() if is_in_allocation() else None
    with OwnedFolder(".nearfield-learn-" if parent else "nearfield-", parent) as folder:
        yield Path(folder)
