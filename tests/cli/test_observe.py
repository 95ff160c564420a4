"""Does `nearfield observe` record just what a program does, leave its results alone, and say what it left out?"""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from observed import N, by_function, compile_observed, observe, show
from typer.testing import CliRunner

from nearfield._native import stream
from nearfield.base.errors import UsageError
from nearfield.cli import app
from nearfield.cli.trace_argument import find_trace
from nearfield.machine import load_machine
from nearfield.observe import observing
from nearfield.observe import trace as traces
from nearfield.observe.trace import TraceFile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def accesses(programs: Path) -> Path:
    return compile_observed("observed_accesses.c", programs / "observed_accesses", "-O2", "-pthread")


COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_every_access_of_a_loop_is_recorded_and_the_result_stays(tmp_path, compiler, level):
    """Does each function have as many accesses and flops as its source, whatever the optimisation?"""
    program = compile_observed("observed_accesses.c", tmp_path / "program", level, "-pthread", NEARFIELD_CC=compiler)
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = observe(tmp_path, "--", program)
    assert (done.stdout, done.returncode) == (alone, 0)
    rank = show(tmp_path)[0]
    counts, flops = by_function(rank), by_function(rank, "flops")
    assert [flops[name] for name in ("add", "gather", "count", "copies")] == [3 * N, N, 0, 0]
    assert [counts[name] for name in ("fill", "add", "gather", "count")] == [2 * N, 3 * 3 * N, 2 * N, 20]
    assert counts["copies"] >= 5  # two copies, a fill, and the structure as a range or as a copy


def test_addresses_are_those_of_the_arrays(tmp_path, accesses):
    """Are loads and stores recorded in their order, with address and size?"""
    observe(tmp_path, "--", accesses)
    reader = stream.Reader(str(tmp_path / "trace/rank-0.nfs"))
    parts = []
    while True:
        addresses, sizes, stores, _ = reader.accesses(1 << 20)
        parts.append((addresses, sizes, stores))
        if reader.event() is None and not len(addresses):
            break
    addresses, sizes, stores = (np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True))
    first = next(i for i in range(len(sizes)) if sizes[i] == 8 and stores[i] and sizes[i + 1] == 4)
    fill = slice(first, first + 2 * N)
    assert list(sizes[fill]) == [8, 4] * N and stores[fill].all()
    assert (np.diff(addresses[fill][0::2]) == 8).all() and (np.diff(addresses[fill][1::2]) == 4).all()
    starts = [i for i in range(len(sizes) - 1) if sizes[i] == 4 and not stores[i] and sizes[i + 1] == 8]
    a = addresses[fill][0]
    gathered = [(addresses[i + 1] - a) // 8 for i in starts[:N]]
    assert gathered == [(i * 7919) % N for i in range(N)]


def test_only_the_region_of_the_user_is_recorded(tmp_path, accesses):
    """Does --region leave out all other functions, can that be simulated, and are mistakes in its name reported?"""
    done = observe(tmp_path, "--region", "add", "--", accesses)
    assert done.returncode == 0 and by_function(show(tmp_path)[0]) == {"add": 3 * 3 * N}
    assert show(tmp_path)[0]["regions"] == {"add": 3}
    words = ["simulate", "run", str(tmp_path / "trace"), "--policy", "memory", "--json", "--region"]
    assert json.loads(CliRunner().invoke(app, [*words, "add"]).stdout)["accesses"] == 3 * 3 * N
    done = CliRunner().invoke(app, [*words, "pcontrol"])
    assert isinstance(done.exception, UsageError) and "it has add" in done.exception.remedy
    done = observe(tmp_path, "--force", "--region", "ad", "--", accesses)
    assert done.returncode == 2 and "has no function 'ad'" in done.stderr


def test_an_argument_that_is_a_commands_name_is_no_program(tmp_path, accesses):
    """Is the program with hooks the one that is observed, and not `sort`, which its argument names?"""
    done = observe(tmp_path, "--region", "add", "--", accesses, "sort")
    assert done.returncode == 0 and by_function(show(tmp_path)[0]) == {"add": 3 * 3 * N}


def test_the_elements_of_a_list_wait_for_one_another(tmp_path, programs):
    """Does a list of 65,536 elements in random order, which only the last cache holds, take that cache's latency for
    each element, and a sum over as many elements at random indices far less?"""
    program = programs / "kernels"
    words = ["cc", "-O2", "-g", str(ROOT / "bench/kernels/kernels.c"), "-o", str(program), "-lm"]
    subprocess.run([sys.executable, "-m", "nearfield", *words], check=True)

    def ns_of(kernel, elements):
        assert observe(tmp_path, "--force", "--region", kernel, "--", program, kernel, "1").returncode == 0
        words = ["simulate", "run", str(tmp_path / "trace"), "--on", "epyc-9755", "--policy", "memory", "--json"]
        done = CliRunner().invoke(app, [*words, "--memory-slowdown", "1", "--region", kernel])
        return json.loads(done.stdout)["time_ns"][0][0] / elements

    machine = load_machine("epyc-9755")
    list_ns = ns_of("list", 1 << 16)
    assert list_ns > 0.7 * machine.cache[-1].latency_cycles.value / machine.core.clock_ghz.value
    assert ns_of("gather", 1 << 18) < list_ns / 2


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("fails", 7, "the command ended with code 7"),
        ("killed", 137, "the stream is cut"),
        ("thread", 0, "cannot be simulated: threads"),
        ("fork", 0, ""),
    ],
)
def test_what_happens_to_the_program_is_reported(tmp_path, accesses, what, code, words):
    """Are a failure, a kill, threads and children distinguished, with the program's own exit code?"""
    done = observe(tmp_path, "--", accesses, what)
    shown = CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")]).output
    assert done.returncode == code and words in done.stderr + shown
    if what == "fork":
        assert by_function(show(tmp_path)[0])["add"] == 3 * 3 * N  # of the child, nothing


def test_mistakes_are_refused_before_the_program_runs(tmp_path, accesses):
    """Does a folder that holds something stay as it is, and is a program without hooks reported?"""
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace/mine").touch()
    done = observe(tmp_path, "--", accesses)
    assert done.returncode == 2 and not done.stdout and (tmp_path / "trace/mine").exists()
    (tmp_path / "trace/mine").unlink()
    for program, code in (("true", 5), ("false", 1)):  # the program's own code, unless it ended well
        done = observe(tmp_path, "--", program)
        assert done.returncode == code and "no process of this command recorded anything" in done.stderr
        assert not (tmp_path / "trace").exists(), "an empty trace would be the newest one"
    assert observe(tmp_path, "--", accesses).returncode == 0
    assert observe(tmp_path, "--", accesses).returncode == 2
    assert observe(tmp_path, "--force", "--", "no-such-program").returncode == 2


WAITING = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int numbers[1 << 16];
int main(int argc, char **argv) {
  unsigned at = 1;
  for (long left = atol(argv[1]); left > 0; --left) at = at * 1664525 + 1013904223, numbers[at >> 16] += 1;
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
"""


@pytest.fixture(scope="module")
def waiting(programs: Path) -> Path:
    """A program that touches memory in no order, says so and waits forever."""
    source = programs / "waiting.c"
    source.write_text(WAITING)
    return compile_observed(str(source), programs / "waiting", "-O1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("accesses", [0, 3_000_000])
def test_a_signal_is_reported_and_leaves_nothing(tmp_path, waiting, number, accesses):
    """Does an observation that a signal ends say so, blame nobody, keep what there is, and leave no process?"""
    command = [sys.executable, "-m", "nearfield", "observe", "-o", str(tmp_path / "trace"), "--", str(waiting)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, str(accesses)], **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said = process.communicate(timeout=100)[1]
    assert process.returncode == 128 + number and f"{number.name} ended" in said
    assert "compile" not in said and "Traceback" not in said
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if str(waiting).encode() in content(one)]
    assert (tmp_path / "trace").exists() == bool(accesses)
    if accesses:
        assert show(tmp_path)[0]["lines"][0]["function"] == "main"


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_a_trace_that_is_there_is_noticed_before_anything_is_built(tmp_path, monkeypatch):
    """Does nothing start to build for a folder that cannot be used?"""
    traces.create_trace_folder(tmp_path / "heat.trace", about("heat"), force=False)
    monkeypatch.setattr(observing, "prepare_command", lambda *_, **__: pytest.fail("it builds"))
    with pytest.raises(UsageError, match="holds a trace already"):
        observing.observe(["true"], tmp_path / "heat.trace")


def about(command: str, day: int = 1) -> TraceFile:
    return TraceFile(nearfield="0", created=datetime(2026, 1, day, tzinfo=timezone.utc), command=command)


def test_traces_are_named_after_their_programs_and_found(tmp_path, monkeypatch, capsys):
    """Is the newest trace of a folder taken if none is named, with a line on the others?"""
    assert observing.default_trace_folder(["mpirun", "-n", "2", "cat"]) == Path("cat.trace")
    assert observing.default_trace_folder(["mpirun", "-n", "2", sys.executable, "heat.py", "9"]) == Path("heat.trace")
    assert observing.default_trace_folder(["./cg.W.2"]) == Path("cg.W.2.trace")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no trace in this folder"):
        find_trace()
    traces.create_trace_folder(Path("old.trace"), about("old", day=1), force=False)
    assert find_trace().folder == Path("old.trace") and not capsys.readouterr().err
    traces.create_trace_folder(Path("a.trace"), about("new", day=2), force=False)
    assert find_trace().metadata.command == "new"
    assert "a.trace, the newest trace here; there is also old.trace" in capsys.readouterr().err
    assert find_trace(Path("old.trace")).metadata.command == "old"


def test_names_need_not_be_utf8(tmp_path, accesses):
    """Are programs and traces observed, shown and simulated whose names are bytes that no text has?"""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9"))
    folder.mkdir()
    program = Path(shutil.copy(accesses, folder / "program"))
    done = observe(folder, "--", program)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert by_function(show(folder)[0])["add"] == 3 * 3 * N
    shown = CliRunner().invoke(app, ["observe", "show", str(folder / "trace")])
    assert shown.exit_code == 0 and "observed_accesses.c" in shown.output
    words = ["simulate", "run", str(folder / "trace"), "--policy", "memory", "--json"]
    assert json.loads(CliRunner().invoke(app, words).stdout)["accesses"] > 3 * 3 * N
    (folder / "trace/rank-0.nfs").write_bytes(b"none")
    broken = CliRunner().invoke(app, ["simulate", "run", str(folder / "trace")])
    assert isinstance(broken.exception, traces.BrokenTraceError)


def test_places_of_other_types_are_refused(tmp_path, accesses):
    """Is a damaged table of places an error that names the file, and a missing one none?"""
    observe(tmp_path, "--", accesses)
    file = tmp_path / "trace/places.parquet"
    whole = pl.read_parquet(file)
    damaged = [
        whole.with_columns(pl.lit("x").alias("offset")), whole.with_columns(pl.lit(None).alias("function")),
        whole.with_columns(object=pl.lit(3)), whole.with_columns(flops=pl.lit([1])), whole.drop("line"),
    ]  # fmt: skip
    for table in damaged:
        table.write_parquet(file)
        done = CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")])
        assert isinstance(done.exception, traces.BrokenTraceError) and "places.parquet" in str(done.exception)
    file.write_bytes(b"PAR1 nonsense PAR1")
    done = CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")])
    assert isinstance(done.exception, traces.BrokenTraceError)
    file.unlink()
    assert CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")]).exit_code == 0


def test_a_full_disk_ends_the_recording_and_not_the_program(tmp_path, accesses):
    """Does the program give its result when its stream cannot be written?"""
    limited = ["bash", "-c", f"ulimit -f 0; trap '' XFSZ; exec {accesses}"]
    done = observe(tmp_path, "--", *limited)
    assert done.stdout.startswith("499500") and "continues without being recorded" in done.stderr


def test_other_compilers_are_refused(tmp_path, monkeypatch):
    """Does a compiler without hooks get a clear answer, and one that is missing?"""
    other = tmp_path / "icc"
    other.write_text("#!/bin/sh\necho icc version 2021 >&2\n")
    other.chmod(0o755)
    for compiler, code in ((str(other), 3), (str(tmp_path / "none"), 2)):
        environment = {**os.environ, "NEARFIELD_CC": compiler}
        command = [sys.executable, "-m", "nearfield", "cc", "-c", "x.c"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == code and "NEARFIELD_CC=" in done.stderr
