"""Are a program's accesses simulated as they are in its trace, whatever the format, and is a wrong trace refused?"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import signal
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traces import FORMATS, WRITERS, binary, counts_of, din, extended_din, lackey, machine_of, make_accesses
from tuning import NEARFIELD, in_process

import nearfield.simulate.sensitivity
from nearfield._native import trace
from nearfield.base.errors import UsageError
from nearfield.machine import load_machine
from nearfield.machine.sweep import with_settings
from nearfield.simulate import Memory
from nearfield.simulate.source import TraceSource
from nearfield.simulate.trace import TraceRun, TraceSelection

TRACES = Path(__file__).parents[1] / "data" / "traces"
TRUE, THREADS = TRACES / "true.lackey.gz", TRACES / "threads.view"
MACHINE = "power5-redstorm"  # two cores; TLBs, a prefetcher, caches that write through and that take victims


def simulated(content: bytes | Path, folder: Path, machine: Any = MACHINE, **choice: Any) -> TraceRun:
    """Returns a trace that was run, and its memory with it."""
    path = content if isinstance(content, Path) else folder / "trace"
    if isinstance(content, bytes):
        path.write_bytes(content)
    run = TraceRun(Memory(machine, (1, 7.5)), TraceSelection(**choice))
    with TraceSource(str(path)) as source:
        run.run(source)
    return run


def as_json(*arguments: object) -> dict[str, Any]:
    done = in_process("simulate", "trace", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


# ---- formats


@pytest.mark.parametrize("writer", WRITERS)
def test_formats_give_equal_counts(writer: str, tmp_path: Path) -> None:
    """Is each recognised, and are counts those of the same addresses from Python?"""
    accesses = make_accesses(3000, "L" if writer == "binary" else "LS")
    run = simulated(WRITERS[writer](accesses), tmp_path)
    memory = Memory(MACHINE)
    memory.run([address for _, address in accesses], ["LS".index(kind) for kind, _ in accesses])
    assert run.format_names == [FORMATS.get(writer, writer)]
    assert counts_of(run.memory) == counts_of(memory)
    assert (run.accesses, run.native_accesses.loads) == (3000, sum(kind == "L" for kind, _ in accesses))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_trace_may_be_cut_anywhere(writer: str, tmp_path: Path) -> None:
    """Is it the same when bytes come one by one or in pieces, and with ends of lines as on other systems?"""
    content = WRITERS[writer](make_accesses(100, "L" if writer == "binary" else "LS"))
    whole = counts_of(simulated(content, tmp_path).memory)
    name = FORMATS.get(writer, writer)
    foreign = content if writer == "binary" else content.replace(b"\n", b"\r\n").rstrip()
    for text, step in ((content, 1), (content, 5), (content, 64), (foreign, 7)):
        memory = Memory(MACHINE)
        reader = trace.Reader(name, trace.Accesses(memory.native, 0, None, False))
        for begin in range(0, len(text), step):
            reader.feed(text[begin : begin + step])
        reader.finish()
        assert counts_of(memory) == whole


def lru(accesses: list[tuple[str, int, int]], size: int, ways: int, line: int) -> dict[str, int]:
    """One cache with write-back, as simply as it can be said."""
    sets: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(size // ways // line)]
    found = {"hits": 0, "misses": 0, "evictions": 0, "write_backs": 0}
    for kind, address, count in accesses:
        for number in range(address // line, (address + count - 1) // line + 1):
            lines = sets[number % len(sets)]
            found["hits" if number in lines else "misses"] += 1
            if number not in lines and len(lines) == ways:
                found["evictions"] += 1
                found["write_backs"] += lines.popitem(last=False)[1]
            lines[number] = lines.pop(number, False) or kind == "S"
    return found


@pytest.mark.parametrize("geometry", [(4096, 2, 64), (8192, 8, 64), (1536, 3, 32)])
def test_a_real_trace_has_the_counts_of_a_simple_model(geometry: tuple[int, int, int], tmp_path: Path) -> None:
    """Valgrind's trace of /bin/true: are hits, misses, evictions and write-backs of a cache those of a model of it?"""
    accesses = []
    lines = gzip.decompress(TRUE.read_bytes()).decode().splitlines()
    for line in lines:
        if match := re.fullmatch(r" ([LSM]) ([0-9a-f]+),(\d+)", line):
            kind, address, count = match[1], int(match[2], 16), int(match[3])
            accesses += [(one, address, count) for one in {"M": "LS"}.get(kind, kind)]
    run = simulated(TRUE, tmp_path, machine_of(tmp_path, geometry))
    expected = lru(accesses, *geometry)
    level, dram = run.memory.counts.levels[0], run.memory.counts.dram
    assert {name: getattr(level, name) for name in expected} == expected
    assert (dram.reads, dram.writes) == (expected["misses"], expected["write_backs"])
    assert expected["evictions"] > 100 and run.accesses == len(accesses)
    assert run.native_accesses.instructions == sum(line.startswith("I") for line in lines)


@pytest.mark.parametrize(
    ("line", "format_", "taken"),
    [
        ("2 400 a remark", "din", {"instructions": 1}), ("0x", "din", None), ("0", "din", None), ("9 400", "din", None),
        ("0 4g0", "din", None), ("0 400,8", "din", None), ("x 400 8", "din", None), ("r 400", "din", None),
        ("r 400 0", "din", None), ("r 400 200000", "din", None), ("W\t0X4000000000 1f", "din", {"stores": 1}),
        ("i 400 4", "din", {"instructions": 1}), ("m 400 4", "din", {"loads": 1}), ("v 0 0", "din", {"others": 1}),
        ("0 11223344556677889", "din", None), ("1 ffffffffffffffff", "din", {"stores": 1}),
        (" M 1ffeffe7e,8", "lackey", {"loads": 1, "stores": 1}), ("I  0401ab70,3", "lackey", {"instructions": 1}),
        ("--1-- warning", "lackey", {}), ("**1** from the program", "lackey", {}), ("Hello", "lackey", None),
        (" L 1ffeffe7e", "lackey", None), (" L 1ffeffe7e,8 9", "lackey", None), (" X 1ffeffe7e,8", "lackey", None),
        (" L 1ffeffe7e,0", "lackey", None), (" L 1ffeffe7e,-8", "lackey", None), ("L,8", "lackey", None),
        ("12 3: 7 read 8 byte(s) @ 0x10 by PC 0x0", "view", {"loads": 1}),
        ("12 3: 7 dflush 64 byte(s) @ 0x10 by PC 0x0", "view", {"others": 1}),
        ("12 3: W1.T7 write 8 byte(s) @ 0x10", "view", {"stores": 1}), ("12 3: 7 <entry type 9>", "view", {}),
        ("T7   0x00467c45  4c 8b 54 24 08  mov    0x08(%rsp), %r10", "view", {"instructions": 1}),
        ("                            00 0f", "view", {}), ("       6 : total instructions", "view", {}),
        ("12 3: 7 grow 8 byte(s) @ 0x10", "view", None), ("12 3: 7 read 8 bytes @ 0x10", "view", None),
        ("12 3: 7", "view", None), ("12 3: read 8 byte(s) @ 0x10", "view", None), ("Adios world!", "view", None),
        ("12 3: 7 read 8 byte(s) @ 0x1z", "view", None), ("12 3: W.T7 read 8 byte(s) @ 0x1", "view", None),
    ],
)  # fmt: skip
def test_what_a_line_says(line: str, format_: str, taken: dict[str, int] | None) -> None:
    """Is every kind of line read for what it is, and everything else refused with its number?"""
    found = trace.Accesses(Memory(MACHINE).native, 0, None, False)
    reader = trace.Reader(format_, found)
    if taken is None:
        with pytest.raises(ValueError, match=f"^line 3 is not {format_}: ") as caught:
            reader.feed(f"\n\n{line}\n".encode())
        assert str(caught.value).endswith(repr(line)) or "\t" in line
    else:
        reader.feed(f"\n\n{line}\n".encode())
    names = ("loads", "stores", "instructions", "others")
    assert {name: getattr(found, name) for name in names if getattr(found, name)} == (taken or {})


def test_dineros_words_are_of_four_bytes(tmp_path: Path) -> None:
    """Dinero III reads the word in which an address is, so that no access is to two lines; its extended format does
    not."""
    machine = machine_of(tmp_path, (4096, 2, 64))
    traditional = simulated(b"0 103f\n", tmp_path, machine).memory.counts.levels[0]
    extended = simulated(b"r 103f 4\n", tmp_path, machine).memory.counts.levels[0]
    assert (traditional.misses, extended.misses) == (1, 2)


# ---- what of a trace is simulated


@pytest.mark.parametrize(("skip", "limit"), [(0, 500), (300, None), (299, 2), (1, 1), (2000, 5), (0, 1000)])
def test_a_part_is_as_if_there_were_no_more(skip: int, limit: int | None, tmp_path: Path) -> None:
    accesses = make_accesses(1000)
    part = simulated(lackey(accesses), tmp_path, skip=skip, limit=limit)
    expected = accesses[skip:][:limit]
    assert counts_of(part.memory) == counts_of(simulated(extended_din(expected) or b"v 0 0\n", tmp_path).memory)
    assert part.accesses == len(expected) and part.native_accesses.skipped == min(skip, 1000)


def test_after_the_limit_nothing_is_read(tmp_path: Path) -> None:
    """Is not even a mistake seen there?"""
    content = din(make_accesses(10)) + b"nonsense\n"
    assert simulated(content, tmp_path, limit=10).accesses == 10
    with pytest.raises(UsageError, match="line 11 is not din: 'nonsense'"):
        simulated(content, tmp_path)


def test_instructions_are_counted_or_loads(tmp_path: Path) -> None:
    without, with_them = (simulated(lackey(make_accesses(50)), tmp_path, instructions=taken) for taken in (False, True))
    assert without.native_accesses.instructions == with_them.native_accesses.instructions == 50
    assert (without.accesses, with_them.accesses) == (50, 100)
    levels = [run.memory.counts.levels[0] for run in (without, with_them)]
    assert [level.hits + level.misses for level in levels] == [50, 50 + 50]


def test_traces_follow_one_another(tmp_path: Path) -> None:
    """Is the memory after two files that after one with the accesses of both?"""
    accesses = make_accesses(400)
    (tmp_path / "a").write_bytes(din(accesses[:150]))
    (tmp_path / "b.gz").write_bytes(gzip.compress(lackey(accesses[150:])))
    both = as_json(tmp_path / "a", tmp_path / "b.gz")
    (tmp_path / "c").write_bytes(din(accesses))
    one = as_json(tmp_path / "c")
    assert both["formats"] == ["din", "lackey"]
    assert all(both[key] == one[key] for key in ("accesses", "levels", "dram", "tlbs"))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_traces(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Are they unpacked, whatever their name, and is one that is cut short refused?"""
    content = din(make_accesses(5000))
    assert counts_of(simulated(pack(content), tmp_path).memory) == counts_of(simulated(content, tmp_path).memory)
    with pytest.raises(UsageError, match="trace is damaged"):
        simulated(pack(content)[:-30], tmp_path)


def test_standard_input(tmp_path: Path) -> None:
    """A pipe whose bytes come late and in pieces, packed or not: is it read as a file is?"""
    content = din(make_accesses(5000))
    expected = simulated(content, tmp_path).memory.counts.levels[0]
    sent = gzip.compress(content)
    command = [*NEARFIELD, "simulate", "trace", "-", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin and running.stdout and running.stderr
        for begin in range(0, len(sent), 4000):
            running.stdin.write(sent[begin : begin + 4000])
            running.stdin.flush()
        running.stdin.close()
        found = json.loads(running.stdout.read())
        assert running.stderr.read() == b""
    assert (found["levels"][0]["misses"], found["accesses"]) == (expected.misses, 5000)


# ---- threads


def test_every_thread_has_a_core(tmp_path: Path) -> None:
    """Is a line that one thread wrote brought to the other one's core, and the trace of two threads what it says?"""
    run = simulated(THREADS, tmp_path)
    assert (run.threads, run.native_accesses.loads, run.native_accesses.stores) == (2, 2, 1)
    assert (run.native_accesses.instructions, run.native_accesses.others) == (3, 1)
    memory = Memory(MACHINE)
    memory.run([0x7FDF64E2ADC0], nearfield.simulate.Access.store, core=0)
    memory.run([0x7FDF64E2ADC8], core=0)
    memory.run([0x7FDF64E2ADC0], bytes=4, core=1)
    assert counts_of(run.memory) == counts_of(memory)
    assert "2 threads on as many cores" in in_process("simulate", "trace", THREADS).out


def test_threads_share_cores_in_turn(tmp_path: Path) -> None:
    """Four threads on two cores: do the first and the third share a cache, and the others, and does a line say so?"""
    cores = machine_of(tmp_path, (4096, 2, 64), cores=2)
    lines = [f"{n} 0: {700 + n % 4} read 8 byte(s) @ 0x{4096 + 64 * (n % 2):x} by PC 0x0\n" for n in range(8)]
    run = simulated("".join(lines).encode(), tmp_path, cores)
    level = run.memory.counts.levels[0]
    assert (run.threads, level.misses, level.hits) == (4, 2, 6)
    output = in_process("simulate", "trace", tmp_path / "trace", "--on", tmp_path / "mine.toml").out
    assert "4 threads share 2 cores in turn" in output


# ---- what is shown


def test_tables_and_json_say_the_same(tmp_path: Path) -> None:
    """Are all counts there, for every level and speed?"""
    (tmp_path / "trace").write_bytes(lackey(make_accesses(20000)))
    found = as_json(tmp_path / "trace", "--memory-slowdown", "1,7.5")
    done = in_process("simulate", "trace", tmp_path / "trace", "--memory-slowdown", "1,7.5")
    assert done.code == 0
    for number, level in enumerate(found["levels"], 1):
        row = next(line for line in done.out.splitlines() if line.startswith(f"L{number} "))
        assert row.replace(",", "").split()[1:4] == [
            str(level["hits"] + level["misses"]), str(level["hits"]), str(level["misses"])
        ]  # fmt: skip
    assert f"DRAM  {found['dram']['reads']:,}  {found['dram']['writes']:,}" in re.sub(" +", "  ", done.out)
    slow = found["times"][1]
    assert slow["memory_slowdown"] == 7.5 and slow["cycles"] > 2 * found["times"][0]["cycles"]
    assert f"{slow['cycles']:,.0f}" in done.out
    assert "20,000 instructions skipped; --instructions simulates them as loads" in done.out
    assert f"({found['loads']:,} loads, {found['stores']:,} stores)" in done.out
    assert found["accesses"] == found["loads"] + found["stores"] == 20000 and found["complete"]


def test_ctrl_c_shows_what_was_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it comes while the trace is read: are the accesses up to there shown, and said to be no more, and is the
    exit code that of a command that a signal ended?"""
    (tmp_path / "trace").write_bytes(extended_din(make_accesses(50000)))
    monkeypatch.setattr("nearfield.simulate.source.BLOCK_BYTES", 1 << 18)
    read, blocks = TraceSource.read, [0]

    def interrupted(source: TraceSource) -> bytes:
        blocks[0] += 1
        if blocks[0] == 3:
            signal.raise_signal(signal.SIGINT)
        return read(source)

    monkeypatch.setattr(TraceSource, "read", interrupted)
    done = in_process("simulate", "trace", tmp_path / "trace")
    assert done.code == 130
    count = re.search(r"stopped: these are the counts of the first ([\d,]+) accesses", done.err)
    assert count and f"on {MACHINE}: {count[1]} accesses" in done.out
    assert 5000 < int(count[1].replace(",", "")) < 45000


def test_ctrl_c_ends_waiting_for_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing has come yet and may never come, as for somebody who typed no file."""
    reading, writing = os.pipe()
    begin = TraceSource.__init__

    def interrupted(source: TraceSource, name: str) -> None:
        main = threading.main_thread().ident
        threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        begin(source, name)

    monkeypatch.setattr(TraceSource, "__init__", interrupted)
    with os.fdopen(reading) as waiting, os.fdopen(writing, "w") as late:
        monkeypatch.setattr("sys.stdin", waiting)
        rescue = threading.Timer(20, late.close)  # so that a failure is not a hang
        rescue.start()
        done = in_process("simulate", "trace", "-")
        rescue.cancel()
        assert not late.closed
    assert (done.code, "the first 0 accesses" in done.err) == (130, True)


@pytest.mark.parametrize(
    ("content", "options", "code", "says"),
    [
        (b"0 400\n1 4x0\n", (), 2, ["trace: line 2 is not din: '1 4x0'", "Expected: '0 7fe400'"]),
        (b"", (), 2, ["trace is empty"]),
        (b"Hello\nWorld\n", (), 2, ["in none of the formats that are known", "--format din|lackey|view|binary"]),
        (b"\0" * 15, (), 2, ["it ends after 7 of the 8 bytes of record 2", "addresses of 8 bytes each"]),
        (b"0 400\n", ("--format", "dim"), 2, ["there is no format of traces 'dim'", "Did you mean 'din'?"]),
        (b"\xff\0\n", ("--format", "din"), 2, ["line 1 is not din: '??'"]),
        (b"0" * 70000, ("--format", "din"), 2, ["line 1 is not din: '0000", "...'"]),
        (b"".join(b"0 %x\n" % (n << 30) for n in range(129)), (), 2, ["more than 128 regions", "--skip and --limit"]),
        (b"0 400\n", ("--memory-slowdown", "0.5"), 2, ["memory cannot be 0.5 times as slow"]),
        (b"0 400\n", ("--memory-slowdown", "1,2,3,4,5"), 2, ["5 memory speeds cannot be simulated in one run"]),
        (b"0 400\n", ("--on", "power6"), 2, ["there is no described machine 'power6'"]),
        (b"0 400\n", ("--limit", "0"), 2, ["Invalid value for '--limit'"]),
    ],
)  # fmt: skip
def test_a_wrong_trace_or_option_is_refused(
    content: bytes, options: tuple[str, ...], code: int, says: list[str], tmp_path: Path
) -> None:
    """Does one error name the file, the line and what was expected, and is nothing shown besides?"""
    (tmp_path / "trace").write_bytes(content)
    done = in_process("simulate", "trace", tmp_path / "trace", *options)
    assert (done.code, done.out) == (code, "")
    assert all(one in " ".join(done.err.split()) for one in says), done.err


@pytest.mark.parametrize(("name", "says"), [("missing", "No such file"), ("", "Is a directory"), ("a\0b", "null")])
def test_a_file_that_cannot_be_read(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot be read: .*{says}"):
        TraceSource(f"{tmp_path}/{name}")


def test_standard_input_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a job without a terminal: is that reported, and are files read all the same?"""
    monkeypatch.setattr("sys.stdin", None)
    assert simulated(din(make_accesses(10)), tmp_path).accesses == 10
    with pytest.raises(UsageError, match="standard input is closed"):
        TraceSource("-")


def test_an_operation_is_still_one() -> None:
    """Are names of operations, mistyped ones and options what they were before `trace` stood beside them?"""
    done = in_process("simulate", "brcast")
    assert done.code == 2
    assert done.err == "error: there is no collective or application 'brcast'\n  → Did you mean 'bcast'?\n"
    assert in_process("simulate", "bcast", "trace").err.startswith(
        "error: there is no collective or application 'trace'"
    )
    assert json.loads(in_process("simulate", "--list", "--json").out)["collectives"]


def test_binary_is_what_numpy_writes(tmp_path: Path) -> None:
    accesses = make_accesses(100, "L")
    np.array([address for _, address in accesses], dtype="<u8").tofile(tmp_path / "numpy")
    assert (tmp_path / "numpy").read_bytes() == binary(accesses)


def test_a_chase_takes_longer_than_independent_loads(tmp_path: Path) -> None:
    """And misses as often? The true time lies between the two."""
    content = WRITERS["binary"](make_accesses(400, "L"))
    free, chase = (simulated(content, tmp_path, chase=one).memory for one in (False, True))
    assert chase.now_ns[0] > 1.5 * free.now_ns[0]
    assert chase.counts.levels[0].misses == free.counts.levels[0].misses


def test_error_bars_are_those_of_machines_with_other_values(tmp_path: Path) -> None:
    """Does --sensitivity give, for the value that matters most, what that machine gives by itself, and do results lie
    between their limits? Is standard input refused, which can be read once only?"""
    path = tmp_path / "trace"
    path.write_bytes(binary(make_accesses(3000, "L")))
    found = as_json(path, "--format", "binary", "--on", MACHINE, "--sensitivity")
    varied = found["sensitivity"]
    for one in (*varied["times_ns"], *varied["misses"], varied["dram_bytes"]):
        assert one["low"] <= one["value"] <= one["high"]
    assert varied["times_ns"][0]["value"] == found["times"][0]["ns"]
    first = varied["influences"][0]
    other = with_settings(load_machine(MACHINE), ((first["key"], first["other"]),))
    run = simulated(path, tmp_path, other, format="binary")
    assert run.memory.now_ns[0] / found["times"][0]["ns"] == pytest.approx(first["time_factor"])
    assert not [one for one in varied["influences"] if one["key"].startswith(("nic.", "network.", "messaging."))]
    shown = in_process("simulate", "trace", path, "--format", "binary", "--on", MACHINE, "--sensitivity")
    assert first["key"] in shown.out and "L1 misses" in shown.out
    refused = in_process("simulate", "trace", "-", "--sensitivity")
    assert refused.code == 2 and "standard input can be read once" in refused.err


def test_ctrl_c_leaves_results_without_error_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While variations are simulated: are the results of the machine itself shown, with the exit code of the signal?"""
    path = tmp_path / "trace"
    path.write_bytes(binary(make_accesses(3000, "L")))

    def interrupt(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(nearfield.simulate.sensitivity, "_summarize", interrupt)
    done = in_process("simulate", "trace", path, "--format", "binary", "--sensitivity")
    assert done.code == 130 and "there are no error bars" in done.err and "3,000 accesses simulated" in done.out
