"""Says how a program's messages were copied, from the reports of its processes under the shared heap.

Every process writes its counts at its end (src/preload/heap/start.cpp) into a folder that NEARFIELD_HEAP names.
Processes on other nodes, and those that were killed, report nothing. A message is counted by the process that copies
it, usually its receiver, and only if it is copied from memory to memory: eager messages are not."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield.base import all_nodes, own_command, shared_heap
from nearfield.base.files import read_file
from nearfield.base.units import counted, format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.mpi.run_child import run_as_child

if TYPE_CHECKING:
    from nearfield.ui.terminal import Table  # what it imports takes longer than all the rest: only who has a table does

# The names of the ways in src/preload/heap/counts.hpp -> the words for people.
WAYS = {
    "user_plain": "in user space, plain",
    "user_streaming": "in user space, streaming",
    "user_both": "in user space, by both ends",
    "kernel_not_in_heap": "by the kernel, not in the heap",
    "kernel_not_shared": "by the kernel, not shared",
}
# Defaults of settings that the variable leaves out (src/preload/heap/settings.hpp).
DEFAULTS = {"on": "1", "from": "8192", "stream": "16777216-", "far_stream": "16384-", "help": "32768-"}
_COUNTABLE = 1 << 64  # the heap counts in 64 bits
_LONGEST_FOLDER = 200  # the longest path that the heap has room for
_NO_RANK = "-"
_EAGER = (
    "Eager messages are not counted: the MPI copies them itself. Of a message that it copies in parts, each counts."
)
_BASELINE = (
    "with the MPI's defaults the kernel copies them, and what is below the MPI's own limit goes twice, through shared "
    "memory"
)
_OFF = "The rules do not switch the shared heap on: the MPI copies all messages itself, as in the baseline."


@dataclass(frozen=True)
class Report:
    """The report that one process wrote at its end."""

    pid: int
    rank: str
    program: str
    reason: str  # why it had no heap; empty if it had one
    forks: int
    ways: Mapping[str, tuple[int, int]]  # messages and bytes
    mapped_bytes: int = 0  # that the heap spans; 0: not known
    shared_bytes: int = 0  # of these that other processes can map; 0: not known
    by_owners: tuple[int, int] = (0, 0)  # copies that owners of memory made for it, and their bytes

    @property
    def messages(self) -> int:
        return sum(messages for messages, _ in self.ways.values())

    @property
    def is_rank(self) -> bool:
        return self.rank != _NO_RANK

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.is_rank else f"process {self.pid}"


def run(
    argv: Sequence[str], environment: Mapping[str, str], at_end: Callable[[], None] = lambda: None,
    folders: Sequence[Path] = (),
) -> int:  # fmt: skip
    """Runs the command, then calls `at_end`, and prints on standard error how its messages were copied. Returns its
    exit code. `folders` are removed if nearfield is killed before."""
    if not is_on(environment):
        code = run_as_child(argv, environment, folders)
        at_end()
        _print([_OFF])
        return code
    with tempfile.TemporaryDirectory(prefix="nearfield-", dir=_place(), ignore_cleanup_errors=True) as folder:
        settings = ",".join(filter(None, [environment.get(shared_heap.VARIABLE), f"report={folder}"]))
        environment = {**environment, shared_heap.VARIABLE: settings}
        if all_nodes.FORWARD in environment:
            environment |= all_nodes.open_mpi_forwarding_variable(argv, environment)
        code = run_as_child(argv, environment, [*folders, Path(folder)])
        reports = read_reports(Path(folder))
    at_end()
    _print(sentences(reports, environment, code), with_traffic(reports))
    return code


def is_on(environment: Mapping[str, str]) -> bool:
    """Returns whether programs with this environment get a shared heap."""
    preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    is_loaded = any(Path(name).name == shared_heap.NAME for name in preloaded)
    return is_loaded and _settings(environment)["on"] != "0"


def settings_sentence(environment: Mapping[str, str]) -> str:
    """Returns a sentence on how the shared heap will copy messages; empty without a heap."""
    if not is_on(environment):
        return ""
    chosen = _settings(environment)
    return (
        f"the shared heap copies past the caches {_sizes(chosen['stream'])}, between cores that are far apart "
        f"{_sizes(chosen['far_stream'])}, and all others through them; a sender that waits in the MPI helps with "
        f"{_sizes(chosen['help'])}; --explain says how many there were"
    )


# ---- reading


def read_reports(folder: Path) -> list[Report]:
    """Returns the reports in the order of ranks, without damaged ones."""
    found = [report for file in folder.glob("*.heap") if (report := _read(file))]
    return sorted(found, key=lambda one: (not one.is_rank, one.rank.zfill(9), one.pid))


def with_traffic(reports: Iterable[Report]) -> list[Report]:
    """Returns the reports without those of shells, launchers and other processes that copied no message."""
    return [report for report in reports if report.messages]


def _counts(text: str) -> tuple[int, int]:
    """Returns the messages and bytes of a way. Raises ValueError if the heap's 64 bits cannot have counted them."""
    messages, size_bytes = map(int, text.split())
    if not (0 <= messages < _COUNTABLE and 0 <= size_bytes < _COUNTABLE):
        raise ValueError(text)
    return messages, size_bytes


def _read(file: Path) -> Report | None:
    try:
        values = dict(line.split(" = ", 1) for line in read_file(file).decode("utf-8", "replace").splitlines())
        ways = {way: _counts(values[way]) for way in WAYS}
        reason = "" if values["reason"] == "-" else values["reason"]
        names = ("forks", "mapped_bytes", "shared_bytes")
        numbers = {name: int(values.get(name, 0)) for name in names}
        by_owners = _counts(values.get("owner", "0 0"))
        return Report(
            int(file.stem), values["rank"], values["program"], reason, ways=ways, by_owners=by_owners, **numbers
        )
    except (OSError, ValueError, KeyError):
        return None


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in environment.get(shared_heap.VARIABLE, "").split(","))
    return DEFAULTS | {key: value for key, _, value in pairs if value}


def _place() -> str | None:
    """Returns the folder of temporary files for reports, or /tmp if the heap cannot read or store its name."""
    usual = tempfile.gettempdir()
    return usual if "," not in usual and len(os.fsencode(usual)) < _LONGEST_FOLDER else "/tmp"


# ---- saying


def table(reports: Sequence[Report]) -> Table:
    """Returns a table with a line for each process and one for all, with only the ways that were used."""
    from rich.markup import escape

    from nearfield.ui.terminal import Column, Table

    used = [way for way in WAYS if any(report.ways[way][0] for report in reports)]
    several_programs = len({report.program for report in reports}) > 1
    programs = [Column("program", key=True)] if several_programs else []
    made = Table(Column("rank", key=True), *programs, *(Column(WAYS[way], right=True) for way in used))
    for report in reports:
        who = report.rank if report.is_rank else report.name
        program = [escape(report.program)] if several_programs else []
        made.add_row(who, *program, *(_cell(*report.ways[way]) for way in used))
    if len(reports) > 1:
        sums = [[sum(one.ways[way][i] for one in reports) for i in (0, 1)] for way in used]
        made.add_row("all", *([""] if several_programs else []), *(_cell(*both) for both in sums), style="bold")
    return made


def _cell(messages: int, size_bytes: int) -> str:
    return f"{messages} ({format_bytes(size_bytes, digits=3)})" if messages else "-"


def sentences(reports: Sequence[Report], environment: Mapping[str, str], code: int) -> list[str]:
    """Returns sentences that say what the heap did for these messages, what it cost, and why the kernel copied some."""
    seen = with_traffic(reports)
    return [
        *(_use(seen) if seen else [_why_nothing([one for one in reports if one.is_rank or not code])]),
        *_why_kernel(seen, _settings(environment)["from"]),
        *_by_owners(seen),
        *_memory(seen),
        *_why_no_heap(seen or [report for report in reports if report.is_rank]),
        *(_forked(report) for report in seen if report.forks),
        *(["A process that was killed, or called _exit, has reported nothing."] if code else []),
        _EAGER,
    ]


def _use(seen: Sequence[Report]) -> list[str]:
    """Returns what the heap did that the MPI's defaults do not do."""
    total = sum(report.messages for report in seen)
    sizes = [report.ways[way] for report in seen for way in WAYS if way.startswith("user_")]
    once, size_bytes = (sum(numbers) for numbers in zip(*sizes, strict=True))
    if not once:
        return []
    many = f"{once} of {counted(total, 'message')}" if once < total else f"All {total} messages"
    many = "The only message" if total == 1 else many
    verb = "was" if once == 1 else "were"
    return [f"{many} ({format_bytes(size_bytes, digits=3)}) {verb} copied once, in user space; {_BASELINE}."]


def _memory(seen: Sequence[Report]) -> list[str]:
    """Returns what the heap cost in memory; nothing where the reports do not say it."""
    mapped, shared = (sum(getattr(one, name) for one in seen) for name in ("mapped_bytes", "shared_bytes"))
    if not mapped:
        return []
    of_these = f", {format_bytes(shared, digits=3)} of it in pages that they share" if shared else ""
    return [
        f"The heaps of these processes span {format_bytes(mapped, digits=3)}{of_these}. What a process "
        "has read of its peers' heaps counts in its own resident memory, too."
    ]


def _why_kernel(seen: Sequence[Report], shortest: str) -> list[str]:
    outside, unshared = (sum(one.ways[way][0] for one in seen) for way in ("kernel_not_in_heap", "kernel_not_shared"))
    messages = counted(sum(report.messages for report in seen), "message")
    said = []
    if outside:
        said.append(
            f"{outside} of {messages} came from memory outside the heap (stack, static data, another allocator, blocks "
            f"shorter than {_size(shortest)}): the kernel copied them, as in the baseline."
        )
    if unshared:
        said.append(
            f"{unshared} of {messages} came from pages that were not shared: the kernel copied them, as in the "
            "baseline. Pages become shared when a second message passes through them, unless threads use them or the "
            f"kernel forbids it ({own_command.line('doctor')} says whether it does)."
        )
    return said


def _by_owners(seen: Sequence[Report]) -> list[str]:
    """Returns what replaced the kernel's copies where it forbids them."""
    copies = sum(one.by_owners[0] for one in seen)
    if not copies:
        return []
    size = format_bytes(sum(one.by_owners[1] for one in seen), digits=3)
    return [
        f"The kernel forbids these processes to read one another's memory ({own_command.line('doctor')} says why). The "
        f"owners of the memory therefore made {counted(copies, 'copy', 'copies')} ({size}) for them. The table counts "
        "these as copied by the kernel; each costs two copies, and a message in shared pages one."
    ]


def _why_nothing(reports: Sequence[Report]) -> str:
    if not reports:
        return "No process on this node has reported: nothing is known of its messages."
    return (
        "No process on this node copied a message out of another one's memory: all were eager, went between nodes, or "
        "this MPI does not copy long messages by process_vm_readv or process_vm_writev."
    )


def _why_no_heap(reports: Sequence[Report]) -> list[str]:
    names: dict[str, list[str]] = {}
    for report in reports:
        if report.reason:
            names.setdefault(report.reason, []).append(report.name)
    return [
        f"{capitalize(join_and(list(dict.fromkeys(who))))} had no shared heap, or none from some point on: {why}."
        for why, who in names.items()
    ]


def _forked(report: Report) -> str:
    times = "once" if report.forks == 1 else f"{report.forks} times"
    return f"{capitalize(report.name)} forked {times}: shared pages became private until messages passed through again."


def _sizes(ranges: str) -> str:
    """Returns in words the sizes of "65536-2097152+8388608-" or "never", as src/preload/heap/settings.cpp reads
    them."""
    if ranges == "never":
        return "no messages"
    pairs = [pair.partition("-") for pair in ranges.split("+")]
    words = [f"{_size(low)} to {_size(high)}" if high else f"{_size(low)} and more" for low, _, high in pairs]
    return f"messages of {join_and(words)}"


def _size(text: str) -> str:
    return format_bytes(int(text)) if text.isdigit() else text


def _print(said: Iterable[str], reports: Sequence[Report] = ()) -> None:
    if reports:
        from nearfield.ui.terminal import Terminal

        Terminal(stderr=True).print(table(reports))
    for sentence in said:
        print(f"nearfield: {sentence}", file=sys.stderr)
