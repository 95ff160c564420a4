"""The checkpoint folder of an unfinished profile, `<out>.launches`: the request, the engine's output and the time
spent.

The folder exists from the first launch until the profile is complete. `--resume` continues from the folder. A lock file
admits one probe at a time."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import os_errors_as_profile_errors, read_file
from nearfield.base.journal import Journal
from nearfield.measure.request import Request
from nearfield.measure.row import Row

_REQUEST, _SPENT, _LOCK, _SIMULATED = "request.json", "spent.json", "lock", "simulated.jsonl"
_REQUESTS = TypeAdapter(Request)
_OTHER_FOLDER = "choose another folder with --out"
_SECONDS = TypeAdapter(dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]])


@dataclass
class Outcome:
    """The state of a request when a probe or simulation returns."""

    complete: bool  # False: the user stopped it, or the time limit was reached
    saved: bool = False  # True: a profile was written
    stopped_by: int | None = None  # number of the signal that stopped the request
    missed: int = 0  # cases skipped because of the time limit
    not_begun: int = 0  # launches skipped because of the time limit
    rows: list[Row] = field(default_factory=list)  # records of a simulation, including those of earlier sessions

    @property
    def exit_code(self) -> int:
        """Returns 128 plus the number of the signal that stopped the request; 0 if the request is complete or no signal
        arrived."""
        return 128 + self.stopped_by if self.stopped_by and not self.complete else 0


class CheckpointFolder:
    """The checkpoint folder of a profile that is to be saved at `out`."""

    def __init__(self, out: Path) -> None:
        self.folder = out.parent / f"{out.name}.launches"
        self.stop_file = self.folder / "stop"
        self._out = out

    def read_request(self) -> Request:
        """Returns the request of the interrupted probe. Raises UsageError if there is none, and ProfileError if its
        file is damaged."""
        self._require_private()
        try:
            return _REQUESTS.validate_json(read_file(self.folder / _REQUEST), strict=True)
        except FileNotFoundError as error:
            raise UsageError(
                f"there is nothing to resume at {self._out}", "start a new probe without --resume"
            ) from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise ProfileError(
                f"cannot resume: {self.folder / _REQUEST}: {why}", "start a new probe with --overwrite"
            ) from error

    def require_unused(self, *, overwrite: bool) -> None:
        """Raises ProfileError if the folder holds an interrupted probe and `overwrite` is false, or holds files that no
        probe wrote."""
        entries = {entry.name for entry in self.folder.iterdir()} - {_LOCK} if self.folder.exists() else set()
        if entries and _REQUEST not in entries:
            raise ProfileError(f"{self.folder} is in the way: it is not of a probe", _OTHER_FOLDER)
        if entries and not overwrite:
            raise ProfileError(
                f"there is an interrupted probe at {self._out}",
                "complete it with --resume, or give it up with --overwrite",
            )

    @contextmanager
    def lock_for(self, request: Request, *, fresh: bool) -> Iterator[None]:
        """Locks the folder against other probes for the duration of the block, and writes the request into the folder;
        with `fresh`, empties the folder first."""
        with os_errors_as_profile_errors(self.folder, _OTHER_FOLDER):
            self._make_folder()
        try:
            with self._locked_journal(_LOCK, private=True):
                with os_errors_as_profile_errors(self.folder, _OTHER_FOLDER):
                    self._write_request(request, fresh)
                yield
        except FileNotFoundError as error:
            if self.folder.exists():
                raise
            raise ProfileError(
                f"{self.folder} was removed while the probe wrote into it, and all measurements with it",
                "measure again, and leave that folder alone until the probe ends",
            ) from error

    def journal(self) -> AbstractContextManager[Journal]:
        """Returns a context that opens the journal of simulated cases. The folder must be locked."""
        return self._locked_journal(_SIMULATED, private=False)  # its folder is private already

    def _locked_journal(self, name: str, *, private: bool) -> AbstractContextManager[Journal]:
        busy = UsageError(f"another probe is measuring into {self._out}", "wait for it, or use another --out")
        return Journal(self.folder / name, _OTHER_FOLDER).locked(busy, private=private)

    def _require_private(self) -> None:
        """Raises ProfileError if other users may write into the folder: a link of theirs could redirect our output, and
        a request of theirs could start their program."""
        with suppress(FileNotFoundError):
            status = self.folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise ProfileError(
                    f"{self.folder} is in the way: it is not a folder into which only you may write",
                    "remove it, or choose another folder with --out",
                )

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            self._require_private()

    def _write_request(self, request: Request, fresh: bool) -> None:
        """Removes the stop file, with `fresh` also every other file but the lock, and writes the request."""
        for entry in self.folder.iterdir():
            if (fresh and entry.name != _LOCK) or entry == self.stop_file:
                entry.unlink()
        (self.folder / _REQUEST).write_bytes(_REQUESTS.dump_json(request))

    def read_spent(self) -> dict[str, float]:
        """Returns the seconds spent so far: launch name -> seconds, and "total" -> seconds of all sessions; {} if the
        file is missing or damaged."""
        try:
            return _SECONDS.validate_json(read_file(self.folder / _SPENT), strict=True)
        except (OSError, ValueError):
            return {}

    def write_spent(self, seconds: dict[str, float]) -> None:
        with suppress(OSError):  # a probe resumes without the file, too
            (self.folder / _SPENT).write_bytes(_SECONDS.dump_json(seconds))

    def remove_or_keep_samples(self, samples: Path | None) -> None:
        """Removes the folder of a complete probe. With `samples`, moves the engine's output there first, to keep the
        raw samples."""
        if samples is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with os_errors_as_profile_errors(samples, _OTHER_FOLDER):
            for name in (_LOCK, _SPENT, _REQUEST):
                (self.folder / name).unlink(missing_ok=True)
            samples.mkdir()  # the samples have the access rights of the profile
            for entry in self.folder.iterdir():
                shutil.move(entry, samples)
            self.folder.rmdir()
