"""Explains how a program's messages were copied, from the reports of its processes under the shared heap.

Every process writes its counters at exit (src/preload/heap/start.cpp) into a folder named in NEARFIELD_HEAP. Processes
on other nodes, and killed processes, write no report. A message is counted by the process that copies it, usually the
receiver, and only if it is copied from memory to memory; eager messages are not counted."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield.base import all_nodes, own_command, shared_heap
from nearfield.base.files import read_user_file
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.units import counted, format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.mpi.run_child import run_as_child

if TYPE_CHECKING:
    from nearfield.ui.terminal import Table  # imported late because it is slow, and only needed for a table

# How a message was copied: name in src/preload/heap/counts.hpp -> human-readable text.
COPY_METHOD_TEXTS = {
    "user_plain": "in user space, plain",
    "user_streaming": "in user space, streaming",
    "user_both": "in user space, by both ends",
    "kernel_not_in_heap": "by the kernel, not in the heap",
    "kernel_not_shared": "by the kernel, not shared",
}
# Defaults of settings not in the environment variable (src/preload/heap/settings.hpp).
DEFAULT_HEAP_SETTINGS = {"on": "1", "from": "8192", "stream": "16777216-", "far_stream": "16384-", "help": "32768-"}
_COUNTER_LIMIT = 1 << 64  # the heap's counters have 64 bits
_MAX_FOLDER_PATH_LENGTH = 200  # the longest path that the heap can store
_NO_RANK_TEXT = "-"
_EAGER_NOTE = (
    "Eager messages are not counted: the MPI copies them itself. Of a message that it copies in parts, each counts."
)
_BASELINE_NOTE = (
    "with the MPI's defaults the kernel copies them, and messages below the MPI's limit are copied twice, through "
    "shared "
    "memory"
)
_HEAP_OFF_SENTENCE = (
    "The rules do not switch the shared heap on: the MPI copies all messages itself, as in the baseline."
)


@dataclass(frozen=True)
class ProcessReport:
    """The report that one process wrote at exit."""

    pid: int
    rank: str
    program: str
    no_heap_reason: str  # why the process had no shared heap; empty if it had one
    num_forks: int
    # how messages were copied (key of COPY_METHOD_TEXTS) -> (messages, bytes)
    counts_by_copy_method: Mapping[str, tuple[int, int]]
    mapped_bytes: int = 0  # address space of the heap; 0: unknown
    shared_bytes: int = 0  # the part that other processes can map; 0: unknown
    # (copies, bytes) that peers made from their own memory on request of this process
    owner_copies: tuple[int, int] = (0, 0)

    @property
    def num_messages(self) -> int:
        return sum(messages for messages, _ in self.counts_by_copy_method.values())

    @property
    def is_rank(self) -> bool:
        return self.rank != _NO_RANK_TEXT

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.is_rank else f"process {self.pid}"


def run_and_explain(
    argv: Sequence[str], environment: Mapping[str, str], on_program_end: Callable[[], None] = lambda: None,
    folders: Sequence[Path] = (),
) -> int:  # fmt: skip
    """Runs the command, calls `on_program_end`, and prints to standard error how its messages were copied. Returns the
    exit code. `folders` are removed if nearfield is killed during the run."""
    if not is_heap_on(environment):
        code = run_as_child(argv, environment, folders)
        on_program_end()
        _print_explanation([_HEAP_OFF_SENTENCE])
        return code
    with OwnedFolder("nearfield-", _report_parent_folder()) as folder:
        settings = ",".join(filter(None, [environment.get(shared_heap.HEAP_VARIABLE), f"report={folder}"]))
        environment = {**environment, shared_heap.HEAP_VARIABLE: settings}
        if all_nodes.FORWARDING_VARIABLE in environment:
            environment |= all_nodes.open_mpi_forwarding_variable(argv, environment)
        code = run_as_child(argv, environment, [*folders, Path(folder)])
        reports = read_reports(Path(folder))
    on_program_end()
    _print_explanation(explanation_sentences(reports, environment, code), reports_with_messages(reports))
    return code


def is_heap_on(environment: Mapping[str, str]) -> bool:
    """Returns whether programs with this environment preload the shared heap and have it switched on."""
    preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    is_loaded = any(Path(name).name == shared_heap.HEAP_LIBRARY_NAME for name in preloaded)
    return is_loaded and _parse_heap_settings(environment)["on"] != "0"


def settings_sentence(environment: Mapping[str, str]) -> str:
    """Returns a sentence that explains which messages the shared heap copies in which way; empty without a heap."""
    if not is_heap_on(environment):
        return ""
    chosen = _parse_heap_settings(environment)
    return (
        f"the shared heap copies past the caches {_format_size_ranges(chosen['stream'])}, between cores that are far "
        f"apart {_format_size_ranges(chosen['far_stream'])}, and all others through them; a sender that waits in "
        f"the MPI helps with {_format_size_ranges(chosen['help'])}; --explain says how many there were"
    )


# ---- reading of reports


def read_reports(folder: Path) -> list[ProcessReport]:
    """Returns the reports in the folder in rank order. Skips damaged ones."""
    found = [report for file in folder.glob("*.heap") if (report := _read_report(file))]
    return sorted(found, key=lambda one: (not one.is_rank, one.rank.zfill(9), one.pid))


def reports_with_messages(reports: Iterable[ProcessReport]) -> list[ProcessReport]:
    """Returns the reports of processes that copied at least one message; leaves out shells and launchers."""
    return [report for report in reports if report.num_messages]


def _parse_counts(text: str) -> tuple[int, int]:
    """Parses "messages bytes". Raises ValueError for numbers that do not fit into the heap's 64-bit counters."""
    messages, size_bytes = map(int, text.split())
    if not (0 <= messages < _COUNTER_LIMIT and 0 <= size_bytes < _COUNTER_LIMIT):
        raise ValueError(text)
    return messages, size_bytes


def _read_report(file: Path) -> ProcessReport | None:
    try:
        values = dict(line.split(" = ", 1) for line in read_user_file(file).decode("utf-8", "replace").splitlines())
        ways = {way: _parse_counts(values[way]) for way in COPY_METHOD_TEXTS}
        reason = "" if values["reason"] == "-" else values["reason"]
        num_forks, mapped_bytes, shared_bytes = (
            int(values.get(name, 0)) for name in ("forks", "mapped_bytes", "shared_bytes")
        )
        by_owners = _parse_counts(values.get("owner", "0 0"))
        return ProcessReport(
            int(file.stem),
            values["rank"],
            values["program"],
            reason,
            num_forks,
            ways,
            mapped_bytes,
            shared_bytes,
            by_owners,
        )
    except (OSError, ValueError, KeyError):
        return None


def _parse_heap_settings(environment: Mapping[str, str]) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in environment.get(shared_heap.HEAP_VARIABLE, "").split(","))
    return DEFAULT_HEAP_SETTINGS | {key: value for key, _, value in pairs if value}


def _report_parent_folder() -> str | None:
    """Returns the parent folder for reports: the default temporary folder, or /tmp if the heap cannot parse or store
    its path."""
    usual = tempfile.gettempdir()
    return usual if "," not in usual and len(os.fsencode(usual)) < _MAX_FOLDER_PATH_LENGTH else "/tmp"


# ---- human-readable texts


def make_report_table(reports: Sequence[ProcessReport]) -> Table:
    """Returns a table with one row per process and one row for the sum. Its columns are the ways to copy that were
    used."""
    from rich.markup import escape

    from nearfield.ui.terminal import Column, Table

    used = [way for way in COPY_METHOD_TEXTS if any(report.counts_by_copy_method[way][0] for report in reports)]
    several_programs = len({report.program for report in reports}) > 1
    programs = [Column("program", key=True)] if several_programs else []
    made = Table(Column("rank", key=True), *programs, *(Column(COPY_METHOD_TEXTS[way], right=True) for way in used))
    for report in reports:
        who = report.rank if report.is_rank else report.name
        program = [escape(report.program)] if several_programs else []
        made.add_row(who, *program, *(_format_count_cell(*report.counts_by_copy_method[way]) for way in used))
    if len(reports) > 1:
        sums = [[sum(one.counts_by_copy_method[way][i] for one in reports) for i in (0, 1)] for way in used]
        made.add_row(
            "all", *([""] if several_programs else []), *(_format_count_cell(*both) for both in sums), style="bold"
        )
    return made


def _format_count_cell(num_messages: int, size_bytes: int) -> str:
    return f"{num_messages} ({format_bytes(size_bytes, digits=3)})" if num_messages else "-"


def explanation_sentences(
    reports: Sequence[ProcessReport], environment: Mapping[str, str], exit_code: int
) -> list[str]:
    """Returns sentences that explain what the shared heap did for these messages, how much memory it took, and why the
    kernel copied some messages."""
    seen = reports_with_messages(reports)
    return [
        *(
            _user_space_copy_sentences(seen)
            if seen
            else [_no_copies_sentence([one for one in reports if one.is_rank or not exit_code])]
        ),
        *_kernel_copy_sentences(seen, _parse_heap_settings(environment)["from"]),
        *_owner_copy_sentences(seen),
        *_memory_sentences(seen),
        *_explain_missing_heap(seen or [report for report in reports if report.is_rank]),
        *(_fork_sentence(report) for report in seen if report.num_forks),
        *(["A process that was killed, or called _exit, has reported nothing."] if exit_code else []),
        _EAGER_NOTE,
    ]


def _user_space_copy_sentences(reports: Sequence[ProcessReport]) -> list[str]:
    """Returns a sentence on the messages that the heap copied in user space, unlike the MPI's defaults; empty if
    none."""
    total = sum(report.num_messages for report in reports)
    sizes = [
        report.counts_by_copy_method[way] for report in reports for way in COPY_METHOD_TEXTS if way.startswith("user_")
    ]
    once, size_bytes = (sum(numbers) for numbers in zip(*sizes, strict=True))
    if not once:
        return []
    many = f"{once} of {counted(total, 'message')}" if once < total else f"All {total} messages"
    many = "The only message" if total == 1 else many
    verb = "was" if once == 1 else "were"
    return [f"{many} ({format_bytes(size_bytes, digits=3)}) {verb} copied once, in user space; {_BASELINE_NOTE}."]


def _memory_sentences(reports: Sequence[ProcessReport]) -> list[str]:
    """Returns a sentence on the memory that the heaps took; empty if the reports do not contain the numbers."""
    mapped, shared = (sum(getattr(one, name) for one in reports) for name in ("mapped_bytes", "shared_bytes"))
    if not mapped:
        return []
    of_these = f", {format_bytes(shared, digits=3)} of it in pages that they share" if shared else ""
    return [
        f"The heaps of these processes span {format_bytes(mapped, digits=3)}{of_these}. What a process "
        "has read of its peers' heaps counts in its own resident memory, too."
    ]


def _kernel_copy_sentences(reports: Sequence[ProcessReport], min_heap_size: str) -> list[str]:
    outside, unshared = (
        sum(one.counts_by_copy_method[way][0] for one in reports) for way in ("kernel_not_in_heap", "kernel_not_shared")
    )
    messages = counted(sum(report.num_messages for report in reports), "message")
    said = []
    if outside:
        said.append(
            f"{outside} of {messages} came from memory outside the heap (stack, static data, another allocator, blocks "
            f"shorter than {_format_size(min_heap_size)}): the kernel copied them, as in the baseline."
        )
    if unshared:
        said.append(
            f"{unshared} of {messages} came from pages that were not shared: the kernel copied them, as in the "
            "baseline. Pages become shared when a second message passes through them, unless threads use them or the "
            f"kernel forbids it ({own_command.command_line('doctor')} says whether it does)."
        )
    return said


def _owner_copy_sentences(reports: Sequence[ProcessReport]) -> list[str]:
    """Returns sentences on copies that the owners of the memory made, because the kernel forbids the reader to copy;
    empty if there were none."""
    copies = sum(one.owner_copies[0] for one in reports)
    if not copies:
        return []
    size = format_bytes(sum(one.owner_copies[1] for one in reports), digits=3)
    return [
        f"The kernel forbids these processes to read one another's memory ({own_command.command_line('doctor')} says "
        f"why). The "
        f"owners of the memory therefore made {counted(copies, 'copy', 'copies')} ({size}) for them. The table counts "
        "these as copied by the kernel; each costs two copies, and a message in shared pages one."
    ]


def _no_copies_sentence(reports: Sequence[ProcessReport]) -> str:
    if not reports:
        return "No process on this node has reported: nothing is known of its messages."
    return (
        "No process on this node copied a message out of another one's memory: all were eager, went between nodes, or "
        "this MPI does not copy long messages by process_vm_readv or process_vm_writev."
    )


def _explain_missing_heap(reports: Sequence[ProcessReport]) -> list[str]:
    names: dict[str, list[str]] = {}
    for report in reports:
        if report.no_heap_reason:
            names.setdefault(report.no_heap_reason, []).append(report.name)
    return [
        f"{capitalize(join_and(list(dict.fromkeys(who))))} had no shared heap, or none from some point on: {why}."
        for why, who in names.items()
    ]


def _fork_sentence(report: ProcessReport) -> str:
    times = "once" if report.num_forks == 1 else f"{report.num_forks} times"
    return f"{capitalize(report.name)} forked {times}: shared pages became private until messages passed through again."


def _format_size_ranges(ranges: str) -> str:
    """Returns the ranges of message sizes in a setting, as human-readable text: "65536-2097152+8388608-" or "never", as
    parsed in src/preload/heap/settings.cpp."""
    if ranges == "never":
        return "no messages"
    pairs = [pair.partition("-") for pair in ranges.split("+")]
    words = [
        f"{_format_size(low)} to {_format_size(high)}" if high else f"{_format_size(low)} and more"
        for low, _, high in pairs
    ]
    return f"messages of {join_and(words)}"


def _format_size(text: str) -> str:
    return format_bytes(int(text)) if text.isdigit() else text


def _print_explanation(sentences: Iterable[str], reports: Sequence[ProcessReport] = ()) -> None:
    if reports:
        from nearfield.ui.terminal import Terminal

        Terminal(stderr=True).print(make_report_table(reports))
    for sentence in sentences:
        print(f"nearfield: {sentence}", file=sys.stderr)
