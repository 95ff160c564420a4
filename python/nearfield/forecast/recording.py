"""Runs a command under the preloaded profiling layer, and collects the records of its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import UsageError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.forecast.message_times import MeasuredMessageTimes
from nearfield.forecast.ranks import read_ranks
from nearfield.forecast.run import RecordedRun
from nearfield.mpi.detect_command import detect_mpi
from nearfield.mpi.launch import is_in_allocation
from nearfield.observe.observing import environment_with_preload, require_buildable

FOLDER_VARIABLE = "NEARFIELD_FORECAST"  # environment variable that src/preload/forecast reads


@dataclass(frozen=True)
class Recording:
    """A command to run under the preloaded profiling layer: the name of its MPI, its environment, the folder for the
    records of its ranks, and temporary folders to remove if nearfield is killed."""

    mpi_name: str
    environment: dict[str, str]
    folder: Path
    scratch_folders: tuple[Path, ...] = ()

    def read_run(self, message_times: MeasuredMessageTimes | None) -> RecordedRun:
        """Reads the records of all ranks, after the command has ended."""
        return RecordedRun(read_ranks(self.folder), message_times)


@contextmanager
def prepare_recording(
    argv: Sequence[str], environment: Mapping[str, str], *, mpi_name: str | None = None, out: Path | None = None,
    progress: ReportLine = ignore_progress,
) -> Iterator[Recording]:  # fmt: skip
    """Prepares to run a command under the profiling layer, as a context manager. The records of its ranks remain in
    `out`, if given; otherwise they are removed at the end. Raises UsageError or MpiError before anything runs."""
    inst = require_buildable(detect_mpi(argv, mpi_name))
    library = mpi.build_target(inst, mpi.FORECAST_TARGET, progress)
    if out:
        _create_empty_folder(out)
        yield Recording(
            inst.name,
            environment_with_preload(environment, [library], {FOLDER_VARIABLE: str(out.resolve())}, argv),
            out,
        )
        return
    shared_folder = Path.cwd() if is_in_allocation() else None  # on a file system that other nodes share
    with OwnedFolder(".nearfield-forecast-" if shared_folder else "nearfield-", shared_folder) as name:
        folder = Path(name)
        environment = environment_with_preload(environment, [library], {FOLDER_VARIABLE: name}, argv)
        yield Recording(inst.name, environment, folder, (folder,))


def _create_empty_folder(out: Path) -> None:
    """Creates a folder for records. Raises UsageError if it exists and is not empty, or cannot be created."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"'{out}' is not empty", "name another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make '{out}': {error.strerror}", "name another folder with --out") from error
