"""Does `nearfield run --explain` say rightly how messages were copied, and is the command its own otherwise?"""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tuning import NEARFIELD, rules_for, write

from nearfield.apply import explain
from nearfield.apply.explain import (
    ProcessReport,
    explanation_sentences,
    make_report_table,
    read_reports,
    reports_with_messages,
)
from nearfield.base import shared_heap
from nearfield.mpi import Installation

HEAP = {"LD_PRELOAD": f"/a/other.so:/b/{shared_heap.HEAP_LIBRARY_NAME}", "NEARFIELD_HEAP": "on=1"}
SETTINGS = Path(__file__).parents[2] / "src/preload/heap/settings.hpp"


def report(rank: str = "0", *, reason: str = "", forks: int = 0, **ways: tuple[int, int]) -> ProcessReport:
    return ProcessReport(
        100, rank, "app", reason, forks, {way: ways.get(way, (0, 0)) for way in explain.COPY_METHOD_TEXTS}
    )


def said(*reports: ProcessReport, code: int = 0, **settings: str) -> str:
    text = ",".join(f"{key}={value}" for key, value in settings.items())
    return " ".join(explanation_sentences(reports, {**HEAP, "NEARFIELD_HEAP": text}, code))


# ---- words


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([report(user_plain=(3, 9))], "All 3 messages (9 B) were copied once, in user space; with the MPI's defaults"),
        ([report(user_streaming=(1, 9))], "The only message (9 B) was copied once"),
        ([report(user_plain=(7, 9), kernel_not_in_heap=(3, 9))], "3 of 10 messages came from memory outside the heap"),
        ([report(user_plain=(7, 9), kernel_not_in_heap=(3, 9))], "7 of 10 messages (9 B) were copied once"),
        ([report(kernel_not_shared=(1, 9))], "1 of 1 message came from pages that were not shared"),
        ([report(kernel_not_in_heap=(1, 9))], "blocks shorter than 8 KiB"),
        ([report("2", user_plain=(1, 9), forks=2)], "Rank 2 forked 2 times: shared pages became private"),
        ([report("2", user_plain=(1, 9), forks=1)], "Rank 2 forked once: shared pages became private"),
        ([report(r, kernel_not_in_heap=(1, 9), reason="why") for r in "012"], "Rank 0, rank 1 and rank 2 had no sha"),
        ([report("-", kernel_not_in_heap=(1, 9), reason="why")], "Process 100 had no shared heap"),
        ([report("0", reason="it is small"), report("-", reason="another")], "or none from some point on: it is small"),
        ([report("0")], "No process on this node copied a message"),
        ([], "No process on this node has reported"),
    ],
)  # fmt: skip
def test_each_reason_is_a_sentence(reports: list[ProcessReport], words: str) -> None:
    """Is what happened said, also of one message, one process and none, and always what is not counted?"""
    text = said(*reports)
    assert words in text
    assert "Eager messages are not counted: the MPI copies them itself." in text
    assert "killed" not in text and "another" not in text.replace("another allocator", "").replace("another one's", "")


def test_what_was_killed_is_said() -> None:
    assert "was killed, or called _exit, has reported nothing" in said(report(), code=1)
    launcher = said(report("-"), code=130)
    assert "nothing is known of its messages" in launcher and "copied a message out of" not in launcher


def test_what_is_set_is_said() -> None:
    """Are ranges of sizes put into words, the defaults those of the library, and a heap that is off not mentioned?"""
    assert explain.settings_sentence({}) == ""
    assert explain.settings_sentence({**HEAP, "NEARFIELD_HEAP": "on=0"}) == ""
    set_here = {**HEAP, "NEARFIELD_HEAP": "on=1,stream=8192-65536+1048576-,far_stream=never"}
    text = explain.settings_sentence(set_here)
    assert "messages of 8 KiB to 64 KiB and 1 MiB and more, between cores that are far apart no messages" in text
    assert "blocks shorter than 16 KiB" in said(report(kernel_not_in_heap=(1, 9)), **{"from": "16384"})
    source = SETTINGS.read_text()
    assert f"min_block_bytes = {explain.DEFAULT_HEAP_SETTINGS['from']};" in source
    for name, member in (
        ("stream", "streaming_sizes"),
        ("far_stream", "streaming_sizes_when_far"),
        ("help", "cooperative_copy_sizes"),
    ):
        assert f" {member}{{{{{{{explain.DEFAULT_HEAP_SETTINGS[name][:-1]}, " in source


def test_the_table_sums_each_way() -> None:
    """Are the numbers of each rank there, and those of all?"""
    reports = [
        report("0", user_plain=(1234567, 1288490189), user_streaming=(2, 9), kernel_not_in_heap=(12345678, 1 << 40)),
        report("11", user_plain=(3, 3), kernel_not_shared=(98765432, 1 << 20)),
    ]  # fmt: skip
    rows = [[cell.plain for cell in cells] for cells, _ in make_report_table(reports).rows]
    assert rows == [
        ["0", "1234567 (1.2 GiB)", "2 (9 B)", "12345678 (1020 GiB)", "-"],
        ["11", "3 (3 B)", "-", "-", "98765432 (1 MiB)"],
        ["all", "1234570 (1.2 GiB)", "2 (9 B)", "12345678 (1020 GiB)", "98765432 (1 MiB)"],
    ]


def test_memory_is_said_as_far_as_it_is_reported(tmp_path: Path) -> None:
    """Are reports read whose library writes other keys about memory, and is what they say the sum of all ranks?"""
    ways = "".join(f"{way} = 1 5\n" for way in explain.COPY_METHOD_TEXTS)
    for rank, keys in enumerate(("mapped_bytes = 1048576\nshared_bytes = 65536\n", "mapped_bytes = 1048576\n", "")):
        lines = f"rank = {rank}\nprogram = a\nreason = -\nforks = 0\n{keys}{ways}"
        (tmp_path / f"{rank}.heap").write_text(lines)
    reports = read_reports(tmp_path)
    assert "span 2 MiB, 64 KiB of it in pages that they share" in said(*reports)
    assert "span 1 MiB. What" in said(reports[1])
    assert "span" not in said(reports[2])


def test_damaged_reports_are_left_out(tmp_path: Path) -> None:
    """And are processes in the order of their ranks, shells and launchers without traffic not shown?"""
    lines = "rank = {}\nprogram = a = b\nreason = -\nforks = 0\nshared_bytes = 1\nmore = 5\n"
    ways = "".join(f"{way} = {{0}} 5\n" for way in explain.COPY_METHOD_TEXTS)
    for pid, (rank, messages) in enumerate([("10", 1), ("9", 2), ("-", 0), ("-", 1)]):
        (tmp_path / f"{pid}.heap").write_text(lines.format(rank) + ways.format(messages))
    whole = lines.format("1") + ways.format(1)
    huge = whole.replace("5\n", f"{10**400}\n")
    damaged = {"6.heap": huge, "7.heap": "", "8.heap": lines.format("1"), "x.heap": whole}
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    reports = read_reports(tmp_path)
    assert [one.rank for one in reports] == ["9", "10", "-", "-"]
    assert [(one.rank, one.num_messages) for one in reports_with_messages(reports)] == [("9", 10), ("10", 5), ("-", 5)]
    assert reports[0].program == "a = b"


# ---- the command


@pytest.fixture
def stock(installations: list[Installation], tmp_path: Path) -> list[str]:
    """`run --explain` with rules that set nothing, as far as the command."""
    rules = write(tmp_path, rules_for(installations[0], "ob1 / sm", {}))
    return [*NEARFIELD, "run", "--explain", "--force", "--rules", str(rules), "--", "sh", "-c"]


@pytest.mark.slow
def test_the_command_behaves_as_if_run_directly(stock: list[str]) -> None:
    """Are standard streams and exit codes the command's, as a shell has them for one that a signal ends, with lines
    on standard error about rules that set nothing, a share of MPI that nobody can know here, and a heap that is off?"""
    one = subprocess.run(
        [*stock, "read l; echo got $l; exit 7"], input="it\n", capture_output=True, text=True, timeout=30
    )
    assert (one.returncode, one.stdout) == (7, "got it\n")
    nothing, unknown, off = one.stderr.splitlines()
    assert nothing.endswith("nothing is set") and off == f"nearfield: {explain._HEAP_OFF_SENTENCE}"
    assert unknown.startswith("nearfield: how much of this run is MPI is not known: neither the launcher nor")
    assert subprocess.run([*stock, "kill -SEGV $$"], capture_output=True, timeout=30).returncode == 128 + signal.SIGSEGV
    piped = subprocess.run([*stock, "yes | head -n 1"], capture_output=True, text=True, timeout=30)
    assert piped.stdout == "y\n" and "roken pipe" not in piped.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL])
def test_signals_are_passed_on(stock: list[str], number: signal.Signals, tmp_path: Path) -> None:
    """Does the command get them, once, and decide itself what they mean? Does it get SIGTERM if nearfield is killed?"""
    killed = number == signal.SIGKILL
    trapped = "TERM" if killed else number.name[3:]
    script = f"trap 'echo came; sleep 0.1; exit 9' {trapped}; : > {tmp_path / 'ready'}; while :; do sleep 0.05; done"
    with subprocess.Popen([*stock, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        until = time.monotonic() + 20
        while not (tmp_path / "ready").exists() and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert (out, process.returncode) == ("came\n", -signal.SIGKILL if killed else 9)
