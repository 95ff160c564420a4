"""Every reader of files: a whole set of files that it takes, which of them to damage, and what reads them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import traces
from mutations import PLACES
from reader import DATA, ROOT, Reader, Use
from unfinished_files import (
    read_launch_log,
    read_launches,
    read_request,
    read_trials,
    write_launch_log,
    write_launches,
    write_trials,
)


def _copy(*sources: Path) -> Callable[[Path], None]:
    def seed(folder: Path) -> None:
        for source in sources:
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / source.name)

    return seed


def _times(folder: Path) -> None:
    lines = ["scenario,size_bytes,state,ns", "pingpong,8,reused,310.5", "pingpong,4096,exclusive,2100"]
    (folder / "times.csv").write_text("\n".join(lines) + "\n")


# ---- profiles


def _profiles(folder: Path) -> None:
    shutil.copytree(DATA / "epyc-vm-quiet", folder / "p")
    shutil.copytree(DATA / "epyc-vm-busy", folder / "q")


def _mend_checksum(folder: Path, chance: random.Random) -> None:
    """Writes the checksum of the damaged records into run.toml, mostly, so that more than the checksum is tried."""
    run, table = folder / "p/run.toml", folder / "p/records.parquet"
    if chance.random() < 0.8:
        right = hashlib.sha256(table.read_bytes()).hexdigest()
        run.write_text(re.sub(r'(?m)^records_sha256 = ".*"$', f'records_sha256 = "{right}"', run.read_text()))


_OF_PROFILES: list[Use] = [
    ["show", "{}/p"],
    ["show", "{}/p", "--json"],
    ["show", "{}/p", "--scenario", "pingpong"],
    ["show", "{}/p", "--csv"],
    ["diff", "{}/p", "{}/q"],
    ["diff", "{}/q", "{}/p", "--json"],
    ["report", "{}/p", "--json"],
    ["report", "{}/p", "-o", "{}/out.html"],
    ["report", "{}/q", "{}/p", "-o", "{}/out.html"],
    ["machine", "show", "{}/p"],
    ["machine", "new", "--from", "here", "--profile", "{}/p", "-o", "{}/new.toml"],
    ["plan", "64x64x64", "-n", "4", "--profile", "{}/p"],
    ["halo", "--costs", "{}/p"],
]

# ---- machines, rules, claims


def _rules(folder: Path) -> None:
    shutil.copy(DATA / "rules" / "openmpi-5.0.11.toml", folder / "rules.toml")
    shutil.copytree(DATA / "epyc-vm-quiet", folder / "p")


def _parse_claims(folder: Path) -> None:
    from nearfield.reproduce import papers
    from nearfield.reproduce.checks import profile_names_of

    papers.load_paper.cache_clear()
    paper = papers.load_paper("S9")
    for claim in paper.claim:
        for statement in claim.statement:
            profile_names_of(statement)


def _with_claims(folder: Path) -> None:
    """Reads the folder's claims as if they were one of the papers that come with nearfield."""
    from nearfield.reproduce import papers

    before = papers.claims_file_by_paper
    papers.claims_file_by_paper = lambda: {"S9": folder / "claims.toml"}
    try:
        _parse_claims(folder)
    finally:
        papers.claims_file_by_paper = before


# ---- hosts


def _hostfile(folder: Path) -> None:
    (folder / "hosts").write_text("# two hosts\nlocalhost slots=2 cpus=0,1\nnode-b slots=1\nnode-c cpus=0,2,4\n")


def _read_hostfile(folder: Path) -> None:
    from nearfield.base.topology import Topology
    from nearfield.measure.live.layout import plan_groups, read_hostfile

    nodes = read_hostfile(folder / "hosts", (0, 1))
    topology = Topology.from_synthetic("package:1 l3:1 l2:4 core:1 pu:1")
    plan_groups(topology, {"pair", "all"}, nodes=nodes, all_pairs=False, ranks=None)


# ---- traces


def _address_traces(folder: Path) -> None:
    accesses = traces.make_accesses(300)
    for name, write in traces.WRITERS.items():
        loads = [("L", address) for _, address in accesses]
        (folder / f"{name}.trace").write_bytes(write(loads if name == "binary" else accesses))
    shutil.copy(DATA / "traces" / "threads.view", folder)


_TRACE_FILES = {f"{name}.trace": "text" for name in traces.WRITERS} | {"binary.trace": "bytes", "threads.view": "text"}


def _observe_program(folder: Path) -> None:
    """Observes a program: one of MPI where there is a compiler of an MPI, otherwise one without."""
    from nearfield import mpi
    from nearfield.mpi.compiler import compiler_environment
    from nearfield.rewrite.check.build import c_compiler_wrapper

    inst = mpi.find_usable_mpis()[0]
    compiler = str(c_compiler_wrapper(inst))
    environment = {**os.environ, **inst.env, **compiler_environment(inst), "NEARFIELD_CC": compiler}
    source, program = ROOT / "tests/programs/observed_ring.c", folder / "ring"
    _run_checked([sys.executable, "-m", "nearfield", "cc", "-O2", "-g", str(source), "-o", str(program)], environment)
    command, environment = mpi.launch_command(inst, [str(program)], 2, oversubscribe=True)
    words = ["observe", "-o", str(folder / "t"), "--mpi", inst.name, "--", *command]
    _run_checked([sys.executable, "-m", "nearfield", *words], environment)
    shutil.copytree(DATA / "epyc-vm-quiet", folder / "p")


def _run_checked(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


_OF_TRACES: list[Use] = [
    ["observe", "show", "{}/t"],
    ["observe", "show", "--json", "{}/t"],
    ["advise", "{}/t", "-p", "{}/p"],
    ["advise", "{}/t", "-p", "{}/p", "--json", "--min-loss", "0%"],
    ["simulate", "run", "{}/t", "--on", "leo3", "--jobs", "1"],
]


def _heap_reports(folder: Path) -> None:
    from nearfield.apply.explain import COPY_METHOD_TEXTS

    ways = "".join(f"{way} = {number} {number * 70000}\n" for number, way in enumerate(COPY_METHOD_TEXTS))
    for pid, rank in ((11, "0"), (12, "1")):
        (folder / f"{pid}.heap").write_text(f"rank = {rank}\nprogram = app\nreason = -\nforks = 1\nregions = 2\n{ways}")


def _explain(folder: Path) -> None:
    from nearfield.apply import explain

    reports = explain.read_reports(folder)
    explain._print_explanation(explain.explanation_sentences(reports, {}, 0), explain.reports_with_messages(reports))


# ---- sources


def _sources(folder: Path) -> None:
    for name in ("rewrite_stencil.c", "rewrite_rows.c", "listing1.c"):
        shutil.copy(ROOT / "tests/programs" / name, folder)
    shutil.copy(folder / "rewrite_stencil.c", folder / "whole.c")
    entry = {"directory": str(folder), "file": "whole.c", "command": "mpicc -O2 -DROWS=100 -I. -c whole.c"}
    other = {"directory": str(folder), "file": "listing1.c", "arguments": ["mpicc", "-c", "listing1.c"]}
    (folder / "compile_commands.json").write_text(json.dumps([entry, other], indent=1))


# ---- what nearfield keeps, and what it made


def _write_state(folder: Path) -> None:
    """Answers in the cache folder, a journal of simulated records, the costs of messages, and a reproduction."""
    from nearfield.plan.cost_source import costs_file_text, measured_model
    from nearfield.profile import load

    row = {"scenario": "pingpong", "metric": "half_round_trip", "unit": "ns", "source": "sim", "distance": "shared-l3",
           "value": 100.0, "n": 1, "stable": True, "size_bytes": 8, "state": "reused", "pair": "0-1"}  # fmt: skip
    lines = [json.dumps(["0123456789abcdef", [{**row, "size_bytes": size}]]) + "\n" for size in (8, 64, 4096)]
    (folder / "simulated.jsonl").write_text("".join(lines))
    (folder / "costs").write_text(costs_file_text(measured_model(load(DATA / "epyc-vm-quiet"))))


def _read_journal(folder: Path) -> None:
    from nearfield.base.errors import UsageError
    from nearfield.base.journal import Journal
    from nearfield.measure.sim.store import RecordStore

    with Journal(folder / "simulated.jsonl", "").open_locked(UsageError("busy")) as journal:
        RecordStore(journal).records_of_other_cases([])


def _read_costs(folder: Path) -> None:
    """Reads costs as the halo library does."""
    from nearfield.plan.cost_source import parse_model

    parse_model((folder / "costs").read_bytes().decode("utf-8", "replace"), "costs")


def _disk_cache(folder: Path) -> None:
    from nearfield.base import disk_cache

    os.environ["NEARFIELD_CACHE"] = str(folder)
    disk_cache.store_value("namespace", "key", {"is": [1, 2, 3]}, [folder / "x"])
    (entry,) = (folder / "values").iterdir()
    entry.rename(folder / "entry.json")


def _read_entry(folder: Path) -> None:
    from nearfield.base import disk_cache

    before = os.environ.get("NEARFIELD_CACHE")
    os.environ["NEARFIELD_CACHE"] = str(folder)
    try:
        shutil.rmtree(folder / "values", ignore_errors=True)
        (folder / "values").mkdir()
        (folder / "entry.json").rename(disk_cache._entry_file("namespace", json.dumps("key")))
        disk_cache.get_or_compute("namespace", "key", lambda: 1, [])
    except FileNotFoundError:  # the file is missing
        pass
    finally:
        os.environ.pop("NEARFIELD_CACHE") if before is None else os.environ.update(NEARFIELD_CACHE=before)


def _reproduction(folder: Path) -> None:
    words = ["reproduce", "S4.1", "--quick", "-o", str(folder / "r"), "--jobs", "1"]
    _run_checked([sys.executable, "-m", "nearfield", *words], dict(os.environ))


# ---- variables of the environment, one a line


def _variables(folder: Path) -> None:
    _rules(folder)
    (folder / "environment").write_text(
        f"NEARFIELD_HEAP=on=1,from=4096,stream=65536-2097152+8388608-,far_stream=never,help=32768-\n"
        f"NEARFIELD_RULES={folder}/rules.toml\nNEARFIELD_CACHE={folder}/cache\nNEARFIELD_MPIS=/opt/mpi:/usr\n"
        f"NEARFIELD_CC=gcc\nHOME={folder}\nXDG_CACHE_HOME={folder}/xdg\nTMPDIR=/tmp\nCOLUMNS=80\nTERM=xterm\n"
    )


def _use_variables(folder: Path) -> None:
    """Starts a program and verbs under these variables; the heap's library reads its own."""
    from nearfield.base import shared_heap

    lines = (folder / "environment").read_bytes().replace(b"\0", b"").splitlines()
    given = {name: value for name, equals, value in (line.partition(b"=") for line in lines) if equals and name}
    given = {name: value[:100_000] for name, value in given.items() if re.fullmatch(rb"\w+", name)}
    environment = {**os.environb, **given, b"NEARFIELD_CACHE": given.get(b"NEARFIELD_CACHE", bytes(folder / "cache"))}
    heap = {b"LD_PRELOAD": bytes(shared_heap.heap_library_path())}
    verb = [sys.executable, "-m", "nearfield", "run", "-v", "--force", "--mpi", "openmpi-5", "--", "true"]
    for command, more in ((["true"], heap), (verb, {})):
        done = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, errors="replace",
                              cwd=folder, timeout=60)  # fmt: skip
        assert 0 <= done.returncode < 7 and "Traceback" not in done.stderr, (command, done.returncode, done.stderr)


_NO_PIPES = tuple(place for place in PLACES if place != "fifo")  # of traces: a pipe is a stream, which is waited for

READERS = {
    reader.name: reader
    for reader in (
        Reader(
            "machine",
            _copy(ROOT / "machines/leo3.toml", ROOT / "machines/power5-redstorm.toml", DATA / "traces/threads.view"),
            {"leo3.toml": "toml", "power5-redstorm.toml": "toml"},
            [
                ["machine", "check", "{}/leo3.toml"],
                ["machine", "show", "{}/leo3.toml"],
                ["machine", "show", "{}/power5-redstorm.toml"],
                ["machine", "diff", "{}/leo3.toml", "{}/power5-redstorm.toml"],
                ["plan", "64x64x64", "-n", "4", "--on", "{}/leo3.toml"],
                ["plan", "64x64x64", "-n", "64", "--on", "{}/power5-redstorm.toml"],
                ["simulate", "trace", "{}/threads.view", "--on", "{}/power5-redstorm.toml"],
            ],
        ),
        Reader(
            "times",
            _times,
            {"times.csv": "text"},
            [["machine", "validate", "leo3", "--against", "{}/times.csv"]],
        ),
        Reader("machine-of-profile", _profiles, {"p/machine.toml": "toml"}, _OF_PROFILES),
        Reader("run", _profiles, {"p/run.toml": "toml"}, _OF_PROFILES),
        Reader("records", _profiles, {"p/records.parquet": "parquet"}, _OF_PROFILES, mend=_mend_checksum),
        Reader("topology-of-profile", _profiles, {"p/topology.xml": "xml"}, _OF_PROFILES),
        Reader(
            "topology",
            _copy(DATA / "epyc-vm-quiet/topology.xml", *sorted((ROOT / "tests/topologies").glob("*.xml"))),
            {"topology.xml": "xml", "hybrid.xml": "xml", "virtual-epyc.xml": "xml"},
            [
                ["topology", f"{{}}/{name}.xml", *more]
                for name in ("topology", "hybrid", "virtual-epyc")
                for more in ([], ["--json"])
            ],
        ),
        Reader(
            "rules",
            _rules,
            {"rules.toml": "toml"},
            [
                ["export", "--rules", "{}/rules.toml"],
                ["export", "--rules", "{}", "--for", "openmpi", "--format", "conf"],
                ["export", "--rules", "{}/rules.toml", "--format", "module"],
                ["rules", "check", "{}/rules.toml", "--library"],
                ["rules", "fetch", "{}/rules.toml", "--force", "-o", "{}/fetched.toml"],
                ["run", "--rules", "{}/rules.toml", "--force", "-v", "--mpi", "openmpi-5", "--", "true"],
                ["report", "{}/p", "--rules", "{}/rules.toml", "--json"],
                ["report", "{}/p", "--rules", "{}/rules.toml", "-o", "{}/out.html"],
            ],
        ),
        Reader("trials", write_trials, {"t.toml.trials": "json"}, [read_trials]),
        Reader("launch-log", write_launch_log, {"rules.toml.launches": "json"}, [read_launch_log]),
        Reader("hostfile", _hostfile, {"hosts": "text"}, [_read_hostfile]),
        Reader(
            "address-traces",
            _address_traces,
            _TRACE_FILES,
            [
                ["simulate", "trace", "{file}"],
                ["simulate", "trace", "{file}", "--json", "--limit", "200"],
                ["simulate", "trace", "{file}", "--instructions", "--skip", "10"],
            ],
            places=_NO_PIPES,
        ),
        Reader(
            "observed-traces",
            _observe_program,
            {"t/trace.toml": "toml", "t/places.parquet": "parquet", "t/rank-0.nfs": "bytes", "t/rank-1.nfs": "bytes"},
            _OF_TRACES,
        ),
        Reader("heap-reports", _heap_reports, {"11.heap": "text", "12.heap": "text"}, [_explain]),
        Reader(
            "launches",
            write_launches,
            {"pair-0-1.0.0.jsonl": "json", "pair-0-1.0.1.jsonl": "json"},
            [read_launches],
            places=_NO_PIPES,  # in a folder into which only nearfield writes
        ),
        Reader("requests", write_launches, {"p.launches/request.json": "json"}, [read_request]),
        Reader(
            "compile-commands",
            _sources,
            {"compile_commands.json": "json"},
            [
                ["rewrite", "{}/whole.c", "--compile-commands", "{}"],
                ["rewrite", "{}/whole.c", "--compile-commands", "{}/compile_commands.json", "--json"],
            ],
        ),
        Reader(
            "sources",
            _sources,
            {"rewrite_stencil.c": "c", "rewrite_rows.c": "c", "listing1.c": "c"},
            [["rewrite", "{file}"], ["rewrite", "{file}", "--all", "--json"]],
        ),
        Reader("claims", _copy(ROOT / "papers/S3/claims.toml"), {"claims.toml": "toml"}, [_with_claims]),
        Reader("journals", _write_state, {"simulated.jsonl": "json"}, [_read_journal]),
        Reader("costs", _write_state, {"costs": "text"}, [_read_costs], places=_NO_PIPES),
        Reader("disk-cache", _disk_cache, {"entry.json": "json"}, [_read_entry], places=("folder", "missing", "fifo")),
        Reader(
            "reproductions",
            _reproduction,
            {"r/reproduction.json": "json"},
            [["report", "{}/r"], ["report", "{}/r", "--json"]],
        ),
        Reader("variables", _variables, {"environment": "text"}, [_use_variables], places=("device",)),
    )
}


# ---- a reader that fails in every way, by which it is tested that failures are noticed


@dataclass(frozen=True)
class _Failing(Reader):
    """Fails in its ways one after the other."""

    def damage(self, folder: Path, number: int) -> tuple[Path, Use]:
        return folder / "file", self.uses[number % len(self.uses)]


def _raise(folder: Path) -> None:
    raise ValueError(folder)


_FAILURES: list[Use] = [
    _raise,
    lambda folder: os.kill(os.getpid(), signal.SIGSEGV),
    lambda folder: time.sleep(60),
    lambda folder: (folder / ".left").touch(),
]
FAILING = _Failing("failing", lambda folder: (folder / "file").touch(), {"file": "text"}, _FAILURES)
ALL = {**READERS, FAILING.name: FAILING}
