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

SUFFIX, NATIVE_SUFFIX = ".launches", ".native-launches"
_OTHER_FILE = "choose another file with --out"
_Ns = Annotated[float, Field(ge=1e-3, le=1e15)]


class _Latency(TypedDict):
    """The last output line of the measuring program."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    latency_ns: Annotated[float, Field(ge=0, le=1e12)]


class _Samples(_Latency):
    """Any other output line of the measuring program."""

    operation: str
    bytes: Annotated[int, Field(ge=0)]
    arrival: str
    samples: dict[str, Annotated[list[_Ns], Field(min_length=1)]]


class _Round(TypedDict):
    """The measurements of a cell in one round of `--native`: the speed of each algorithm as a multiple of that of the
    MPI's choice, and its time."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    operation: str
    bytes: Annotated[int, Field(ge=0)]
    speed: dict[str, Annotated[float, Field(gt=0, le=1e9)]]
    times_ns: dict[str, _Ns]


class _Dropped(TypedDict):
    """An algorithm of `--native` that failed in a cell."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    operation: str
    bytes: Annotated[int, Field(ge=0)]
    dropped: str
    reason: str


_Row = _Samples | _Round | _Dropped | _Latency
_LINE: TypeAdapter[tuple[str, list[_Row]]] = TypeAdapter(tuple[str, list[_Row]])


class LaunchLog:
    """The launches, each under a text that names its MPI, CPUs and hosts. Use it inside of the context `locked`."""

    def __init__(self, rules: Path, suffix: str = SUFFIX) -> None:
        """`rules` is the path of the rules file that the tune will write."""
        self.path = rules.with_name(f"{rules.name}{suffix}")
        self._journal = Journal(self.path, _OTHER_FILE)
        self._launches: dict[str, list[list[dict[str, Any]]]] = {}

    @contextmanager
    def locked(self, *, resume: bool = False, overwrite: bool = False) -> Iterator[LaunchLog]:
        """Opens the file, locks it and reads its launches, unless they are to be discarded (`overwrite`). Drops damaged
        lines. Raises UsageError if another tune has locked the file, or if there is no file to resume."""
        if resume and not self.path.exists():
            raise UsageError(
                f"there is nothing to resume: no {self.path.name} beside the rules", "start a new tune without --resume"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = UsageError(f"another tune is at work for {self.path.stem}", f"wait for it, or {_OTHER_FILE}")
        with self._journal.locked(busy, private=True):
            if overwrite:
                self._journal.clear()
            for line in self._journal.lines():
                with suppress(ValueError):
                    place, rows = _LINE.validate_json(line)
                    self._launches.setdefault(place, []).append([dict(row) for row in rows])
            try:
                yield self
            finally:
                if not self._launches:
                    self.remove()

    def launches_of(self, place: str) -> Sequence[Sequence[dict[str, Any]]]:
        """Returns the output lines of each finished launch at a place."""
        return self._launches.get(place, [])

    def add(self, place: str, rows: list[dict[str, Any]]) -> None:
        """Appends a launch, and returns when it is on disk."""
        self._launches.setdefault(place, []).append(rows)
        self._journal.append(json.dumps([place, rows]).encode(), sync=True)

    def remove(self) -> None:
        """Removes the file."""
        self._journal.remove()
