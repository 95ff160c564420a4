"""The folder beside an unfinished profile, `<out>.launches`: the request, what the engine wrote, how long it took.

It is there from the first launch until the profile is complete; `--resume` goes on from it. Held by one probe at a
time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from nearfield.errors import ProfileError, UsageError
from nearfield.probe.request import Request

_REQUEST, _SPENT, _LOCK = "request.json", "spent.json", "lock"


class Work:
    def __init__(self, out: Path) -> None:
        self.folder = out.parent / f"{out.name}.launches"
        self.stop_file = self.folder / "stop"
        self._out = out

    def read_request(self) -> Request:
        """What the interrupted probe was asked for."""
        try:
            values = json.loads((self.folder / _REQUEST).read_text())
            return Request(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UsageError(
                f"there is nothing to resume at {self._out}", "start a new probe without --resume"
            ) from error

    def require_free(self, *, overwrite: bool) -> None:
        """That a new probe destroys neither an interrupted one that nobody gave up nor what is not ours."""
        there = {entry.name for entry in self.folder.iterdir()} - {_LOCK} if self.folder.exists() else set()
        if there and _REQUEST not in there:
            raise ProfileError(f"{self.folder} is in the way: it is not of a probe", "choose another folder with --out")
        if there and not overwrite:
            raise ProfileError(
                f"there is an interrupted probe at {self._out}",
                "complete it with --resume, or give it up with --overwrite",
            )

    @contextmanager
    def held(self, request: Request, *, fresh: bool) -> Iterator[None]:
        """The folder with this request in it, empty but for that if fresh, and nobody else's meanwhile."""
        with _explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(
                    f"another probe is measuring into {self._out}", "wait for it, or use another --out"
                ) from error
            with _explained(self.folder):
                self._set_up(request, fresh)
            yield
        finally:
            os.close(lock)

    def _set_up(self, request: Request, fresh: bool) -> None:
        for entry in self.folder.iterdir():
            if (fresh and entry.name != _LOCK) or entry == self.stop_file:
                entry.unlink()
        (self.folder / _REQUEST).write_text(json.dumps(asdict(request)))

    def read_spent(self) -> dict[str, float]:
        """Seconds of earlier sittings: of each launch by name, and "total"."""
        try:
            return {
                str(name): float(seconds) for name, seconds in json.loads((self.folder / _SPENT).read_text()).items()
            }
        except (OSError, ValueError, AttributeError):
            return {}

    def write_spent(self, seconds: dict[str, float]) -> None:
        with suppress(OSError):  # nothing depends on it
            (self.folder / _SPENT).write_text(json.dumps(seconds))

    def end(self, samples: Path | None) -> None:
        """The profile is complete: removes the folder, or makes it that of the raw samples."""
        if samples is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with _explained(samples):
            for name in (_LOCK, _SPENT, _REQUEST):
                (self.folder / name).unlink(missing_ok=True)
            shutil.move(self.folder, samples)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise ProfileError(f"cannot write {folder}: {cause}", "choose another folder with --out") from error
