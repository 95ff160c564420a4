"""The checkpoint folder of an unfinished profile, `<out>.launches`. It holds the request, the engine's output and the
seconds spent so far.

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
from nearfield.base.files import os_errors_as_profile_errors, read_user_file
from nearfield.base.journal import Journal
from nearfield.measure.request import Request
from nearfield.measure.row import Row

_REQUEST_FILE, _SPENT_SECONDS_FILE, _LOCK_FILE, _SIMULATED_CASES_FILE = (
    "request.json",
    "spent.json",
    "lock",
    "simulated.jsonl",
)
_REQUEST_ADAPTER = TypeAdapter(Request)
_OTHER_FOLDER_REMEDY = "choose another folder with --out"
_SECONDS_ADAPTER = TypeAdapter(dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]])


@dataclass
class RequestOutcome:
    """The state of a request when a probe or simulation returns."""

    is_complete: bool  # False: the user stopped it, or the time limit was reached
    is_saved: bool = False  # True: a profile was written
    stop_signal: int | None = None  # number of the signal that stopped the request
    num_missed_cases: int = 0  # cases skipped because of the time limit
    num_skipped_launches: int = 0  # launches skipped because of the time limit
    rows: list[Row] = field(default_factory=list)  # records of a simulation, including those of earlier sessions

    @property
    def exit_code(self) -> int:
        """Returns 128 plus the number of the signal that stopped the request; 0 if the request is complete or no signal
        arrived."""
        return 128 + self.stop_signal if self.stop_signal and not self.is_complete else 0


class CheckpointFolder:
    """The checkpoint folder of a profile that is to be saved at `profile_folder`."""

    def __init__(self, profile_folder: Path) -> None:
        self.folder = profile_folder.parent / f"{profile_folder.name}.launches"
        self.stop_file = self.folder / "stop"
        self._profile_folder = profile_folder

    def read_request(self) -> Request:
        """Returns the request of the interrupted probe. Raises UsageError if there is none, and ProfileError if its
        file is damaged."""
        self._require_private_folder()
        try:
            return _REQUEST_ADAPTER.validate_json(read_user_file(self.folder / _REQUEST_FILE), strict=True)
        except FileNotFoundError as error:
            raise UsageError(
                f"there is nothing to resume at {self._profile_folder}", "start a new probe without --resume"
            ) from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise ProfileError(
                f"cannot resume: {self.folder / _REQUEST_FILE}: {why}", "start a new probe with --overwrite"
            ) from error

    def require_unused(self, *, overwrite: bool) -> None:
        """Raises ProfileError if the folder holds an interrupted probe and `overwrite` is false, or holds files that no
        probe wrote."""
        entries = {entry.name for entry in self.folder.iterdir()} - {_LOCK_FILE} if self.folder.exists() else set()
        if entries and _REQUEST_FILE not in entries:
            raise ProfileError(f"{self.folder} is in the way: it is not of a probe", _OTHER_FOLDER_REMEDY)
        if entries and not overwrite:
            raise ProfileError(
                f"there is an interrupted probe at {self._profile_folder}",
                "complete it with --resume, or discard it with --overwrite",
            )

    @contextmanager
    def lock_with_request(self, request: Request, *, is_new: bool) -> Iterator[None]:
        """Locks the folder against other probes for the duration of the block, and writes the request into the folder;
        with `is_new`, empties the folder first."""
        with os_errors_as_profile_errors(self.folder, _OTHER_FOLDER_REMEDY):
            self._make_folder()
        try:
            with self._locked_journal(_LOCK_FILE, is_private=True):
                with os_errors_as_profile_errors(self.folder, _OTHER_FOLDER_REMEDY):
                    self._write_request(request, is_new)
                yield
        except FileNotFoundError as error:
            if self.folder.exists():
                raise
            raise ProfileError(
                f"{self.folder} was removed while the probe wrote into it, and all measurements with it",
                "measure again, and leave that folder alone until the probe ends",
            ) from error

    def open_journal(self) -> AbstractContextManager[Journal]:
        """Returns a context that opens the journal of simulated cases. The folder must be locked."""
        return self._locked_journal(_SIMULATED_CASES_FILE, is_private=False)  # its folder is private already

    def _locked_journal(self, name: str, *, is_private: bool) -> AbstractContextManager[Journal]:
        busy = UsageError(
            f"another probe is measuring into {self._profile_folder}", "wait for it, or use another --out"
        )
        return Journal(self.folder / name, _OTHER_FOLDER_REMEDY).open_locked(busy, is_private=is_private)

    def _require_private_folder(self) -> None:
        """Raises ProfileError if other users may write into the folder: their links could redirect our output, and
        their request could start their program."""
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
            self._require_private_folder()

    def _write_request(self, request: Request, is_new: bool) -> None:
        """Writes the request. Before that, removes the stop file, and with `is_new` every file except the lock."""
        for entry in self.folder.iterdir():
            if (is_new and entry.name != _LOCK_FILE) or entry == self.stop_file:
                entry.unlink()
        (self.folder / _REQUEST_FILE).write_bytes(_REQUEST_ADAPTER.dump_json(request))

    def read_spent_seconds(self) -> dict[str, float]:
        """Returns the seconds spent so far: launch name -> seconds, and "total" -> seconds of all sessions; {} if the
        file is missing or damaged."""
        try:
            return _SECONDS_ADAPTER.validate_json(read_user_file(self.folder / _SPENT_SECONDS_FILE), strict=True)
        except (OSError, ValueError):
            return {}

    def write_spent_seconds(self, seconds: dict[str, float]) -> None:
        with suppress(OSError):  # a probe resumes without the file, too
            (self.folder / _SPENT_SECONDS_FILE).write_bytes(_SECONDS_ADAPTER.dump_json(seconds))

    def remove_or_move_samples(self, samples: Path | None) -> None:
        """Removes the folder of a complete probe. With `samples`, moves the engine's output there first, to keep the
        raw samples."""
        if samples is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with os_errors_as_profile_errors(samples, _OTHER_FOLDER_REMEDY):
            for name in (_LOCK_FILE, _SPENT_SECONDS_FILE, _REQUEST_FILE):
                (self.folder / name).unlink(missing_ok=True)
            samples.mkdir()  # the samples have the access rights of the profile
            for entry in self.folder.iterdir():
                shutil.move(entry, samples)
            self.folder.rmdir()
