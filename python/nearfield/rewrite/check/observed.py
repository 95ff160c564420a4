"""Reads what a run of a program did, from the files that src/preload/verify writes, and compares two runs."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_OTHER_WRITES_TEXT = "has the same values, but reads saw other writes of it"
# Identifies what is compared in two runs: ("prints", "stdout"), ("file", name), ("message", rank, peer, tag), ...
ComparisonKey = tuple[str, ...]


class MemoryPiece(NamedTuple):
    """A piece of memory at one memory check: its length in bytes, the hash of its bytes, and the hash of the histories
    of its bytes (all values that the bytes had, with the number of reads)."""

    name: str
    num_bytes: str
    bytes_hash: str
    histories_hash: str


@dataclass
class RankLog:
    """The verification log of one rank. `stream_hashes_by_peer_and_tag` has, for each peer and tag, the hash of the
    message stream after each number of bytes. `memory_checks` are the memory checks, each with all pieces of memory;
    `line_by_event` has the line of each event in the log."""

    process_id: str = ""
    has_ended: bool = False
    stream_hashes_by_peer_and_tag: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    memory_checks: list[tuple[str, list[MemoryPiece]]] = field(default_factory=list)
    buffer_misuses: list[tuple[int, str]] = field(
        default_factory=list
    )  # misuse of message buffers: number of memory checks before it, and text
    line_by_event: dict[tuple[str, ...] | int, int] = field(default_factory=dict)


@dataclass
class ObservedRun:
    """The observed results of one run of a program."""

    exit_code: int
    duration_s: float
    has_timed_out: bool
    first_error_line: str  # the first line on standard error, of the program or the launcher
    ranks: list[RankLog]
    texts_by_stream: dict[str, list[str]]  # by stream (stdout, stderr): the text of each process
    hash_by_file: dict[str, str]  # hash of each written file, by name

    @property
    def is_complete(self) -> bool:
        """Returns whether all ranks reached MPI_Finalize."""
        return not self.has_timed_out and bool(self.ranks) and all(rank.has_ended for rank in self.ranks)

    @property
    def num_messages(self) -> int:
        """Returns the number of messages that all ranks sent."""
        return sum(len(stream) for rank in self.ranks for stream in rank.stream_hashes_by_peer_and_tag.values())

    @property
    def num_checks_by_place(self) -> Counter[str]:
        """Returns how often memory was checked at each place in the program."""
        return Counter(place for rank in self.ranks for place, _ in rank.memory_checks)


@dataclass(frozen=True)
class RunDifference:
    """A difference between two runs, with a sentence on where it begins."""

    key: ComparisonKey
    text: str
    line: int = sys.maxsize  # line number in the rank's log


def read_rank(log: Path) -> RankLog:
    """Reads the verification log of one rank."""
    rank = RankLog()
    whole_lines = log.read_text(encoding="utf-8", errors="replace").rpartition("\n")[
        0
    ]  # the last line may be truncated
    for line_number, line in enumerate(whole_lines.splitlines()):
        word, _, payload = line.partition(" ")
        fields = payload.split(" ")
        if word == "sent":
            peer, tag, count, digest = fields
            rank.stream_hashes_by_peer_and_tag.setdefault((peer, tag), {})[int(count)] = digest
            rank.line_by_event.setdefault((peer, tag, count), line_number)
        elif word == "place":
            rank.line_by_event[len(rank.memory_checks)] = line_number
            rank.memory_checks.append((payload, []))
        elif word == "block":
            rank.memory_checks[-1][1].append(MemoryPiece(f"heap block {fields[0]}", *fields[1:]))
        elif word == "array":
            name = "static variables" if fields[0] == "static" else f"array {fields[0]}"
            rank.memory_checks[-1][1].append(MemoryPiece(name, *fields[1:]))
        elif word == "wrong":
            rank.buffer_misuses.append((len(rank.memory_checks), payload))
        elif word == "process":
            rank.process_id = payload
        elif word == "end":
            rank.has_ended = True
    return rank


def read_run(
    log_folder: Path, work_folder: Path, exit_code: int, duration_s: float, has_timed_out: bool, launcher_error: str
) -> ObservedRun:
    """Returns the results of a run from the folder with its logs and from its working directory."""
    files = sorted(log_folder.glob("log.*"), key=lambda file: int(file.suffix[1:]))
    ranks = [read_rank(file) for file in files]
    prints = {
        stream: _texts_by_process(log_folder, stream, [rank.process_id for rank in ranks])
        for stream in ("stdout", "stderr")
    }
    first_printed_line = next(
        (line for text in prints["stderr"] + prints["stdout"] for line in text.splitlines() if line.strip()), ""
    )
    return ObservedRun(
        exit_code,
        duration_s,
        has_timed_out,
        first_printed_line or launcher_error,
        ranks,
        prints,
        dict(_file_hashes(work_folder)),
    )


def _texts_by_process(log_folder: Path, stream: str, processes: list[str]) -> list[str]:
    """Returns the printed text of each rank, followed by that of other processes in any order."""
    texts = {
        file.suffix[1:]: file.read_text(encoding="utf-8", errors="replace") for file in log_folder.glob(f"{stream}.*")
    }
    return [texts.pop(process, "") for process in processes] + sorted(filter(None, texts.values()))


def _file_hashes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the name and the hash of each file below a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), hashlib.sha256(file.read_bytes()).hexdigest()


def compare_runs(original: ObservedRun, rewritten: ObservedRun) -> Iterator[RunDifference]:
    """Yields the differences of the second run from the first; for each rank, sorted by where they begin."""
    if len(original.ranks) != len(rewritten.ranks):
        yield RunDifference(("ranks",), f"{len(rewritten.ranks)} ranks called MPI_Init, not {len(original.ranks)}")
    for number, (original_rank, rewritten_rank) in enumerate(zip(original.ranks, rewritten.ranks, strict=False)):
        yield from sorted(_compare_ranks(str(number), original_rank, rewritten_rank), key=lambda found: found.line)
    for stream, texts in original.texts_by_stream.items():
        for number, pair in enumerate(zip(texts, rewritten.texts_by_stream[stream], strict=False)):
            if pair[0] != pair[1]:
                yield RunDifference((stream,), f"rank {number} prints {_describe_first_different_line(*pair)}")
    for name in sorted(original.hash_by_file.keys() | rewritten.hash_by_file.keys()):
        if original.hash_by_file.get(name) != rewritten.hash_by_file.get(name):
            difference_text = (
                "differs"
                if name in original.hash_by_file and name in rewritten.hash_by_file
                else "is not written by both"
            )
            yield RunDifference(("file", name), f"the file {name} {difference_text}")
    if original.exit_code != rewritten.exit_code:
        yield RunDifference(("exit",), f"the exit code is {rewritten.exit_code}, not {original.exit_code}")


def _describe_first_different_line(original_text: str, rewritten_text: str) -> str:
    """Returns the first line that differs between two printed texts, in words."""
    original_lines, rewritten_lines = original_text.splitlines(), rewritten_text.splitlines()
    line_index = next(
        (i for i, pair in enumerate(zip(original_lines, rewritten_lines, strict=False)) if pair[0] != pair[1]), None
    )
    if line_index is None:
        return f"{len(rewritten_lines)} lines, not {len(original_lines)}"
    return f"'{rewritten_lines[line_index][:80]}', not '{original_lines[line_index][:80]}'"


def _compare_ranks(rank_number: str, original: RankLog, rewritten: RankLog) -> Iterator[RunDifference]:
    """Yields the differences between two logs of one rank."""
    for num_earlier_checks, text in rewritten.buffer_misuses:
        if (num_earlier_checks, text) not in original.buffer_misuses:
            yield RunDifference(("wrong",), f"on rank {rank_number} {text}", 0)
    for peer, tag in sorted(
        original.stream_hashes_by_peer_and_tag.keys() | rewritten.stream_hashes_by_peer_and_tag.keys()
    ):
        original_hashes, rewritten_hashes = (
            original.stream_hashes_by_peer_and_tag.get((peer, tag), {0: ""}),
            rewritten.stream_hashes_by_peer_and_tag.get((peer, tag), {0: ""}),
        )
        receiver_text = f"to rank {peer} with tag {tag}"
        first_different_count = next(
            (
                count
                for count in sorted(original_hashes.keys() & rewritten_hashes.keys())
                if original_hashes[count] != rewritten_hashes[count]
            ),
            None,
        )
        if first_different_count is not None:
            message_number = sorted(rewritten_hashes).index(first_different_count) + 1
            text, line = (
                f"message {message_number} of rank {rank_number} {receiver_text} differs",
                rewritten.line_by_event[peer, tag, str(first_different_count)],
            )
            yield RunDifference(("message", rank_number, peer, tag), text, line)
        elif max(original_hashes) != max(rewritten_hashes):
            text = f"rank {rank_number} sends {max(rewritten_hashes)} bytes {receiver_text}, not {max(original_hashes)}"
            lines = [
                rewritten.line_by_event[peer, tag, str(count)]
                for count in rewritten_hashes.keys() - original_hashes.keys()
                if count
            ]
            yield RunDifference(("message", rank_number, peer, tag), text, min(lines, default=sys.maxsize))
    yield from _compare_memory(rank_number, original, rewritten)


def _compare_memory(rank_number: str, original: RankLog, rewritten: RankLog) -> Iterator[RunDifference]:
    """Yields the first difference of each piece of memory between two logs of one rank."""
    reported = set()
    for check_index, (original_check, rewritten_check) in enumerate(
        zip(original.memory_checks, rewritten.memory_checks, strict=False)
    ):
        place_text = f"on rank {rank_number} at place {check_index + 1} ({rewritten_check[0]})"
        if original_check[0] != rewritten_check[0]:
            yield RunDifference(
                ("places", rank_number), f"{place_text}: the original program is elsewhere ({original_check[0]})"
            )
            return
        pieces = _pieces_by_name(rewritten_check)
        differences = [
            (_describe_difference(piece, pieces.get(name)), name)
            for name, piece in _pieces_by_name(original_check).items()
        ]
        for difference, name in sorted(differences, key=lambda original: original[0].endswith(_OTHER_WRITES_TEXT)):
            if difference and name not in reported:
                reported.add(name)
                yield RunDifference(
                    ("memory", rank_number, name), f"{place_text}: {difference}", rewritten.line_by_event[check_index]
                )
    if len(original.memory_checks) != len(rewritten.memory_checks):
        yield RunDifference(
            ("places", rank_number),
            f"rank {rank_number} comes to {len(rewritten.memory_checks)} places, not {len(original.memory_checks)}",
        )


def _describe_difference(original_piece: MemoryPiece, rewritten_piece: MemoryPiece | None) -> str:
    """Returns the difference between two states of a piece of memory in words; '' if there is none."""
    piece = f"{original_piece.name} of {original_piece.num_bytes} bytes"
    if rewritten_piece is None:
        return f"{piece} is not there"
    if (original_piece.num_bytes, original_piece.bytes_hash) != (rewritten_piece.num_bytes, rewritten_piece.bytes_hash):
        return f"{piece} differs"
    if original_piece.histories_hash != rewritten_piece.histories_hash:
        return f"{piece} {_OTHER_WRITES_TEXT}"
    return ""


def _pieces_by_name(memory_check: tuple[str, list[MemoryPiece]]) -> dict[str, MemoryPiece]:
    """Returns the pieces of memory at one check by name. Arrays of the same name are numbered in their order; a
    rewritten program may have more of them."""
    num_seen_by_name: Counter[str] = Counter()
    pieces = {}
    for piece in memory_check[1]:
        name = piece.name
        num_seen_by_name[name] += 1
        pieces[f"{name} ({num_seen_by_name[name]})" if num_seen_by_name[name] > 1 else name] = piece
    return pieces
