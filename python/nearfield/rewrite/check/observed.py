"""Reads what a run of a program did, from the files that src/preload/verify writes, and compares two runs."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_OTHER_WRITES = "has the same values, but reads saw other writes of it"
# Identifies what is compared in two runs: ("prints", "stdout"), ("file", name), ("message", rank, peer, tag), ...
Key = tuple[str, ...]


class MemoryPiece(NamedTuple):
    """A piece of memory at one check: its length in bytes, the hash of its bytes, and the hash of the histories of its
    bytes."""

    name: str
    size: str
    values: str
    histories: str


@dataclass
class RankLog:
    """The verification log of one rank. `sent` has, for each peer and tag, the hash of the message stream after each
    number of bytes. `places` are the memory checks, each with all pieces of memory; `lines` has the line of each event
    in the log."""

    process: str = ""
    has_ended: bool = False
    sent: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    places: list[tuple[str, list[MemoryPiece]]] = field(default_factory=list)
    wrong: list[tuple[int, str]] = field(default_factory=list)  # misuse of buffers: memory checks before it, and text
    lines: dict[tuple[str, ...] | int, int] = field(default_factory=dict)


@dataclass
class ObservedRun:
    """The observed results of one run of a program."""

    exit_code: int
    seconds: float
    timed_out: bool
    said: str  # the first line on standard error, of the program or the launcher
    ranks: list[RankLog]
    prints: dict[str, list[str]]  # by stream (stdout, stderr): the text of each process
    files: dict[str, str]  # hash of each written file, by name

    @property
    def is_complete(self) -> bool:
        """Returns whether all ranks reached MPI_Finalize."""
        return not self.timed_out and bool(self.ranks) and all(rank.has_ended for rank in self.ranks)

    @property
    def message_count(self) -> int:
        """Returns the number of messages that all ranks sent."""
        return sum(len(stream) for rank in self.ranks for stream in rank.sent.values())

    @property
    def checks_by_place(self) -> Counter[str]:
        """Returns how often memory was checked at each place in the program."""
        return Counter(where for rank in self.ranks for where, _ in rank.places)


@dataclass(frozen=True)
class RunDifference:
    """A difference between two runs, with a sentence on where it begins."""

    key: Key
    text: str
    line: int = sys.maxsize  # line number in the rank's log


def read_rank(log: Path) -> RankLog:
    """Reads the verification log of one rank."""
    rank = RankLog()
    whole_lines = log.read_text(encoding="utf-8", errors="replace").rpartition("\n")[
        0
    ]  # the last line may be truncated
    for at, line in enumerate(whole_lines.splitlines()):
        word, _, rest = line.partition(" ")
        fields = rest.split(" ")
        if word == "sent":
            peer, tag, count, digest = fields
            rank.sent.setdefault((peer, tag), {})[int(count)] = digest
            rank.lines.setdefault((peer, tag, count), at)
        elif word == "place":
            rank.lines[len(rank.places)] = at
            rank.places.append((rest, []))
        elif word == "block":
            rank.places[-1][1].append(MemoryPiece(f"heap block {fields[0]}", *fields[1:]))
        elif word == "array":
            name = "static variables" if fields[0] == "static" else f"array {fields[0]}"
            rank.places[-1][1].append(MemoryPiece(name, *fields[1:]))
        elif word == "wrong":
            rank.wrong.append((len(rank.places), rest))
        elif word == "process":
            rank.process = rest
        elif word == "end":
            rank.has_ended = True
    return rank


def read_run(logs: Path, work: Path, exit_code: int, seconds: float, timed_out: bool, said: str) -> ObservedRun:
    """Returns the results of a run from the folder with its logs and from its working directory."""
    files = sorted(logs.glob("log.*"), key=lambda file: int(file.suffix[1:]))
    ranks = [read_rank(file) for file in files]
    prints = {stream: _printed_texts(logs, stream, [rank.process for rank in ranks]) for stream in ("stdout", "stderr")}
    first = next(
        (line for text in prints["stderr"] + prints["stdout"] for line in text.splitlines() if line.strip()), ""
    )
    return ObservedRun(exit_code, seconds, timed_out, first or said, ranks, prints, dict(_file_hashes(work)))


def _printed_texts(logs: Path, stream: str, processes: list[str]) -> list[str]:
    """Returns the printed text of each rank, followed by that of other processes in any order."""
    texts = {file.suffix[1:]: file.read_text(encoding="utf-8", errors="replace") for file in logs.glob(f"{stream}.*")}
    return [texts.pop(process, "") for process in processes] + sorted(filter(None, texts.values()))


def _file_hashes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the name and the hash of each file below a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), hashlib.sha256(file.read_bytes()).hexdigest()


def compare_runs(one: ObservedRun, other: ObservedRun) -> Iterator[RunDifference]:
    """Yields the differences of the second run from the first; for each rank, sorted by where they begin."""
    if len(one.ranks) != len(other.ranks):
        yield RunDifference(("ranks",), f"{len(other.ranks)} ranks called MPI_Init, not {len(one.ranks)}")
    for number, (before, after) in enumerate(zip(one.ranks, other.ranks, strict=False)):
        yield from sorted(_compare_ranks(str(number), before, after), key=lambda found: found.line)
    for stream, texts in one.prints.items():
        for number, pair in enumerate(zip(texts, other.prints[stream], strict=False)):
            if pair[0] != pair[1]:
                yield RunDifference((stream,), f"rank {number} prints {_first_other_line(*pair)}")
    for name in sorted(one.files.keys() | other.files.keys()):
        if one.files.get(name) != other.files.get(name):
            what = "differs" if name in one.files and name in other.files else "is not written by both"
            yield RunDifference(("file", name), f"the file {name} {what}")
    if one.exit_code != other.exit_code:
        yield RunDifference(("exit",), f"the exit code is {other.exit_code}, not {one.exit_code}")


def _first_other_line(one: str, other: str) -> str:
    """Returns the first line that differs between two printed texts, in words."""
    before, after = one.splitlines(), other.splitlines()
    at = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return f"{len(after)} lines, not {len(before)}"
    return f"'{after[at][:80]}', not '{before[at][:80]}'"


def _compare_ranks(number: str, one: RankLog, other: RankLog) -> Iterator[RunDifference]:
    """Yields the differences between two logs of one rank."""
    for place, text in other.wrong:
        if (place, text) not in one.wrong:
            yield RunDifference(("wrong",), f"on rank {number} {text}", 0)
    for peer, tag in sorted(one.sent.keys() | other.sent.keys()):
        before, after = one.sent.get((peer, tag), {0: ""}), other.sent.get((peer, tag), {0: ""})
        to = f"to rank {peer} with tag {tag}"
        wrong = next((count for count in sorted(before.keys() & after.keys()) if before[count] != after[count]), None)
        if wrong is not None:
            number_of = sorted(after).index(wrong) + 1
            text, line = f"message {number_of} of rank {number} {to} differs", other.lines[peer, tag, str(wrong)]
            yield RunDifference(("message", number, peer, tag), text, line)
        elif max(before) != max(after):
            text = f"rank {number} sends {max(after)} bytes {to}, not {max(before)}"
            lines = [other.lines[peer, tag, str(count)] for count in after.keys() - before.keys() if count]
            yield RunDifference(("message", number, peer, tag), text, min(lines, default=sys.maxsize))
    yield from _compare_memory(number, one, other)


def _compare_memory(number: str, one: RankLog, other: RankLog) -> Iterator[RunDifference]:
    """Yields the first difference of each piece of memory between two logs of one rank."""
    reported = set()
    for at, (before, after) in enumerate(zip(one.places, other.places, strict=False)):
        where = f"on rank {number} at place {at + 1} ({after[0]})"
        if before[0] != after[0]:
            yield RunDifference(("places", number), f"{where}: the original program is elsewhere ({before[0]})")
            return
        pieces = _pieces_by_name(after)
        found = [
            (_describe_difference(piece, pieces.get(name)), name) for name, piece in _pieces_by_name(before).items()
        ]
        for what, name in sorted(found, key=lambda one: one[0].endswith(_OTHER_WRITES)):
            if what and name not in reported:
                reported.add(name)
                yield RunDifference(("memory", number, name), f"{where}: {what}", other.lines[at])
    if len(one.places) != len(other.places):
        yield RunDifference(
            ("places", number), f"rank {number} comes to {len(other.places)} places, not {len(one.places)}"
        )


def _describe_difference(before: MemoryPiece, after: MemoryPiece | None) -> str:
    """Returns the difference between two states of a piece of memory in words; '' if there is none."""
    piece = f"{before.name} of {before.size} bytes"
    if after is None:
        return f"{piece} is not there"
    if (before.size, before.values) != (after.size, after.values):
        return f"{piece} differs"
    if before.histories != after.histories:
        return f"{piece} {_OTHER_WRITES}"
    return ""


def _pieces_by_name(place: tuple[str, list[MemoryPiece]]) -> dict[str, MemoryPiece]:
    """Returns the pieces of memory at one check by name. Arrays of the same name are numbered in their order; a
    rewritten program may have more of them."""
    seen: Counter[str] = Counter()
    found = {}
    for piece in place[1]:
        name = piece.name
        seen[name] += 1
        found[f"{name} ({seen[name]})" if seen[name] > 1 else name] = piece
    return found
