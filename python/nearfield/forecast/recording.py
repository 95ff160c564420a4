"""Runs a command with the thin profiling layer, and collects the records of its ranks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import UsageError
from nearfield.base.progress import ReportLine, ignore
from nearfield.forecast.prices import Prices
from nearfield.forecast.ranks import read_ranks
from nearfield.forecast.run import Run
from nearfield.mpi.detect_command import detect_mpi
from nearfield.mpi.launch import in_allocation
from nearfield.observe.observing import preloading, require_buildable

FOLDER = "NEARFIELD_FORECAST"  # read by src/preload/forecast


@dataclass(frozen=True)
class Recording:
    """A command that is to run with the layer: the name of its MPI, its environment, the folder for its ranks' records,
    and the folders to remove if nearfield is killed."""

    mpi: str
    environment: dict[str, str]
    folder: Path
    scratch: tuple[Path, ...] = ()

    def run(self, prices: Prices | None) -> Run:
        """Returns the run, after the command has ended."""
        return Run(read_ranks(self.folder), prices)


@contextmanager
def recording(
    argv: Sequence[str], environment: Mapping[str, str], *, mpi_name: str | None = None, out: Path | None = None,
    progress: ReportLine = ignore,
) -> Iterator[Recording]:  # fmt: skip
    """A context in which the command can run with the layer. Its record remains only in `out`, if given. Raises
    UsageError or MpiError before anything runs."""
    inst = require_buildable(detect_mpi(argv, mpi_name))
    library = mpi.program(inst, mpi.FORECAST, progress)
    if out:
        _new_folder(out)
        yield Recording(inst.name, preloading(environment, [library], {FOLDER: str(out.resolve())}, argv), out)
        return
    shared_folder = Path.cwd() if in_allocation() else None  # other nodes see this folder, but not this node's /tmp
    folder = Path(tempfile.mkdtemp(prefix=".nearfield-forecast-" if shared_folder else "nearfield-", dir=shared_folder))
    try:
        environment = preloading(environment, [library], {FOLDER: str(folder)}, argv)
        yield Recording(inst.name, environment, folder, (folder,))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"'{out}' holds something already", "name another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make '{out}': {error.strerror}", "name another folder with --out") from error
