"""The file beside a rules file with the finished launches of an unfinished `tune --collectives`: `<rules>.launches`, or
`<rules>.native-launches` with --native. It exists until the tune has ended, so the same command continues after Ctrl-C,
after a node has died, or if the tune was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from nearfield.base.errors import UsageError
from nearfield.base.journal import Journal

LAUNCH_LOG_SUFFIX, NATIVE_LAUNCH_LOG_SUFFIX = ".launches", ".native-launches"
_OTHER_FILE_REMEDY = "choose another file with --out"
_TimeNs = Annotated[float, Field(ge=1e-3, le=1e15)]


class _LatencyRow(TypedDict):
    """The last output line of the measuring program."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    latency_ns: Annotated[float, Field(ge=0, le=1e12)]


class _SamplesRow(_LatencyRow):
    """Any other output line of the measuring program."""

    operation: str
    bytes: Annotated[int, Field(ge=0)]
    arrival: str
    samples: dict[str, Annotated[list[_TimeNs], Field(min_length=1)]]


class _RoundRow(TypedDict):
    """The measurements of a cell in one round of `--native`: the speed of each algorithm as a multiple of that of the
    MPI's choice, and its time."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    operation: str
    bytes: Annotated[int, Field(ge=0)]
    speed: dict[str, Annotated[float, Field(gt=0, le=1e9)]]
    times_ns: dict[str, _TimeNs]


class _DroppedAlgorithmRow(TypedDict):
    """An algorithm of `--native` that failed in a cell."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    operation: str
    bytes: Annotated[int, Field(ge=0)]
    dropped: str
    reason: str


_OutputRow = _SamplesRow | _RoundRow | _DroppedAlgorithmRow | _LatencyRow
_LINE_ADAPTER: TypeAdapter[tuple[str, list[_OutputRow]]] = TypeAdapter(tuple[str, list[_OutputRow]])


class LaunchLog:
    """The launches, each under a text that names its MPI, CPUs and hosts. Use it inside of the context
    `open_locked`."""

    def __init__(self, rules_file: Path, suffix: str = LAUNCH_LOG_SUFFIX) -> None:
        """The log is stored beside `rules_file`, the path of the rules file that `tune` will write, under its name with
        `suffix` appended."""
        self.path = rules_file.with_name(f"{rules_file.name}{suffix}")
        self._journal = Journal(self.path, _OTHER_FILE_REMEDY)
        self._launches: dict[str, list[list[dict[str, Any]]]] = {}

    @contextmanager
    def open_locked(self, *, resume: bool = False, overwrite: bool = False) -> Iterator[LaunchLog]:
        """Opens the file, locks it and reads its launches, unless they are to be discarded (`overwrite`). Drops damaged
        lines. Raises UsageError if another tune has locked the file, or if there is no file to resume."""
        if resume and not self.path.exists():
            raise UsageError(
                f"there is nothing to resume: no {self.path.name} beside the rules", "start a new tune without --resume"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = UsageError(f"another tune is at work for {self.path.stem}", f"wait for it, or {_OTHER_FILE_REMEDY}")
        with self._journal.open_locked(busy, is_private=True):
            if overwrite:
                self._journal.clear()
            for line in self._journal.read_lines():
                with suppress(ValueError):
                    place, rows = _LINE_ADAPTER.validate_json(line)
                    self._launches.setdefault(place, []).append([dict(row) for row in rows])
            try:
                yield self
            finally:
                if not self._launches:
                    self.remove()

    def launches_of(self, log_key: str) -> Sequence[Sequence[dict[str, Any]]]:
        """Returns the output lines of each finished launch at a place."""
        return self._launches.get(log_key, [])

    def add_launch(self, log_key: str, rows: list[dict[str, Any]]) -> None:
        """Appends a launch, and returns when it is on disk."""
        self._launches.setdefault(log_key, []).append(rows)
        self._journal.append_line(json.dumps([log_key, rows]).encode(), sync=True)

    def remove(self) -> None:
        """Removes the file."""
        self._journal.remove_file()
