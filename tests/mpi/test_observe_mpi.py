"""Does the profiling layer write down what programs do with MPI, and leave them as they are?

tests/programs/observed_calls.c and observed_fortran.F90 call the functions that the layer records, and check and print
what the calls did. The streams of all ranks must obey laws that hold for any program.
"""

import os
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from build_lock import build_lock
from mpi_program import PROGRAMS

from nearfield import _native, mpi
from nearfield._native import stream
from nearfield.mpi import FinishedLaunch, Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.observe.observing import iterate_events

HOOKS = Path(_native.__file__).with_name("libnearfield_observe.so")
LAYER = "libnearfield_observe_mpi.so"
CORES = len(os.sched_getaffinity(0))
Event = tuple[str, dict[str, Any]]


# ---- programs and streams


def wrapper(inst: Installation, language: str) -> Path | None:
    """Returns the MPI's compiler wrapper for C or Fortran, if it has one that works here."""
    names = {"c": ("mpicc", "gcc"), "fortran": ("mpifort", "gfortran")}[language]
    name = re.sub(r"mpi(cxx|c\+\+|CC)", names[0], inst.compiler.name)
    found = inst.compiler.with_name(name)
    if not found.exists() and language == "fortran":
        found = inst.compiler.with_name("mpif90")
    return found if found.exists() and shutil.which(names[1]) else None


def compiled(inst: Installation, compiler: Path, source: str, folder: Path, *flags: str) -> Path:
    """Returns a program of tests/programs, made by a compiler wrapper unless it is there."""
    program = folder / "-".join([inst.name.replace("/", "-"), Path(source).stem, *flags])
    command = [str(compiler), *flags, "-O1", "-w", str(PROGRAMS / source), "-o", str(program)]
    env = {**os.environ, **inst.env, **compiler_environment(inst)}
    with build_lock(program) as is_missing:
        if is_missing:
            subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    return program


def calls(inst: Installation, programs: Path) -> Path:
    compiler = wrapper(inst, "c")
    assert compiler, f"{inst.name} has no mpicc"
    return compiled(inst, compiler, "observed_calls.c", programs)


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, LAYER)
    calls(inst, programs)


def run(inst: Installation, program: Path, ranks: int, *words: str, **env: str) -> FinishedLaunch:
    command = [str(program), *words]
    return mpi.run(inst, command, ranks, oversubscribe=ranks > CORES, timeout_s=100, env=env)


def observed(inst: Installation, program: Path, ranks: int, folder: Path, *words: str) -> FinishedLaunch:
    preloaded = f"{HOOKS}:{mpi.build_target(inst, LAYER)}"
    return run(inst, program, ranks, *words, LD_PRELOAD=preloaded, NEARFIELD_OBSERVE=str(folder))


@dataclass
class Rank:
    """The stream of a rank, and what its numbers mean."""

    number: int
    events: list[Event]
    texts: dict[int, str] = field(default_factory=dict)
    communicators: dict[int, dict[str, Any]] = field(default_factory=dict)
    layouts: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind, event in self.events:
            if kind == "text":
                self.texts[event["text"]] = event["is"]
            if kind == "communicator":
                self.communicators[event["communicator"]] = event
            if kind == "layout":
                self.layouts[event["layout"]] = event

    def all(self, *kinds: str) -> list[Event]:
        return [(kind, event) for kind, event in self.events if kind in kinds]

    def refused(self) -> set[str]:
        return {self.texts[event["what"]] for _, event in self.all("refused")}

    def world(self, communicator: int, peer: int) -> int:
        event = self.communicators[communicator]
        return int((event["remote"] or event["world"])[peer])

    def bytes(self, data: dict[str, Any]) -> int:
        return int(data["count"] * self.layouts[data["layout"]]["size_bytes"])


def streams(folder: Path) -> list[Rank]:
    files = sorted(folder.iterdir(), key=lambda file: int(file.stem.split("-")[1]))
    ranks = []
    for number, file in enumerate(files):
        assert file.name == f"rank-{number}.nfs"
        found = [(kind, event) for kind, event in iterate_events(stream.Reader(str(file))) if kind != "sites"]
        ranks.append(Rank(number, found))
    return ranks


# ---- laws


def check_frame(rank: Rank, ranks: int) -> None:
    """RankInfo is the first event and End the last, and what happens lies between `enter` and `leave`."""
    first, last = rank.events[0], rank.events[-1]
    assert first[0] == "rank_is" and (first[1]["rank"], first[1]["ranks"]) == (rank.number, ranks)
    assert last[0] == "end"
    inside = False
    for kind, _ in rank.events[1:-1]:
        if kind in ("enter", "leave"):
            assert inside == (kind == "leave")
            inside = kind == "enter"
        elif kind not in ("text", "object", "call_site"):
            assert inside, kind
    assert not inside


def check_requests(rank: Rank) -> None:
    """Each request begins once and ends once; what is waited for or looked at is under way. Receives have outcomes."""
    active: dict[int, str] = {}
    outcomes: set[int] = set()
    for kind, event in rank.events:
        if kind in ("send", "receive", "collective") and event["request"]:
            assert event["request"] not in active
            active[event["request"]] = kind
        elif kind == "outcome" and event["request"]:
            assert active[event["request"]] == "receive" and event["request"] not in outcomes
            outcomes.add(event["request"])
        elif kind in ("wait", "looked", "forget"):
            done: list[int] = (
                [event["request"]] if kind == "forget" else event["requests" if kind == "wait" else "done"]
            )
            assert set(event.get("at", done)) <= set(active) and set(done) <= set(event.get("at", done))
            for request in done:
                assert (active.pop(request) == "receive") == (request in outcomes) or kind == "forget"
                outcomes.discard(request)
    assert not active


def check_contexts(ranks: list[Rank]) -> None:
    """A context is the same on all members of a communicator, and of no other."""
    members: dict[int, Counter[int]] = defaultdict(Counter)
    groups: dict[int, set[frozenset[tuple[int, ...]]]] = defaultdict(set)
    for rank in ranks:
        for event in rank.communicators.values():
            members[event["context"]][rank.number] += 1
            groups[event["context"]].add(frozenset({tuple(event["world"]), tuple(event["remote"])}))
            assert rank.number in event["world"]
    for context, (sides, *others) in groups.items():
        assert not others
        assert members[context] == Counter(rank for side in sides for rank in side)


def messages(ranks: list[Rank], kind: str) -> dict[tuple[int, int, int, int], list[int]]:
    """(context, sender, receiver, tag) -> bytes of the messages in order, as senders or receivers tell it."""
    found: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for rank in ranks:
        outcome: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for _, event in rank.all("outcome"):
            outcome[event["request"]].append(event)
        for _, event in rank.all(kind):
            got = (
                outcome[event["request"]].pop(0) if kind == "receive" else {**event, "bytes": rank.bytes(event["data"])}
            )
            if got["peer"] == -2:
                continue
            assert got["bytes"] <= rank.bytes(event["data"])
            assert event["peer"] in (-1, got["peer"]) and event["tag"] in (-1, got["tag"])
            peer = rank.world(event["communicator"], got["peer"])
            sender, receiver = (rank.number, peer) if kind == "send" else (peer, rank.number)
            context = rank.communicators[event["communicator"]]["context"]
            found[context, sender, receiver, got["tag"]].append(got["bytes"])
    return found


def check_collectives(ranks: list[Rank]) -> None:
    """All members of a communicator do the same operations on it in the same order, and what they move agrees."""
    orders: dict[int, set[tuple[tuple[int, int], ...]]] = defaultdict(set)
    for rank in ranks:
        order: dict[int, list[tuple[int, int]]] = {event["context"]: [] for event in rank.communicators.values()}
        for _, event in rank.all("collective"):
            order[rank.communicators[event["communicator"]]["context"]].append((event["kind"], event["root"]))
        for context, operations in order.items():
            orders[context].add(tuple(operations))
    assert all(len(order) == 1 for order in orders.values())


def offsets(runs: list[dict[str, int]]) -> Iterator[int]:
    """Yields the offsets of all bytes of a layout, in its order."""
    for run in runs:
        for block in range(run["count"]):
            start = run["offset_bytes"] + block * run["stride_bytes"]
            yield from range(start, start + run["bytes"])


def check_layouts(rank: Rank, said: str) -> None:
    """Layouts have as many bytes as MPI says, and those that MPI_Pack takes, where the program printed that."""
    for event in rank.layouts.values():
        assert sum(run["count"] * run["bytes"] for run in event["runs"]) == event["size_bytes"]
    packed = dict(re.findall(r"^bytes of (.*?):((?: -?\d+)*)$", said, re.MULTILINE))
    named = {event["name"]: event for event in rank.layouts.values()}
    assert set(packed) <= set(named)
    for name, ints in packed.items():
        wanted = [int(start) + i for start in ints.split() for i in range(4)]
        assert list(offsets(named[name]["runs"])) == wanted, name


def check_laws(ranks: list[Rank], said: str) -> None:
    for rank in ranks:
        check_frame(rank, len(ranks))
        check_requests(rank)
        check_layouts(rank, said)
    check_contexts(ranks)
    check_collectives(ranks)
    assert messages(ranks, "send") == messages(ranks, "receive") != {}


# ---- tests


def lines(done: FinishedLaunch) -> list[str]:
    assert done.has_succeeded, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.families
def test_streams_obey_laws_and_the_program_does_not_notice(
    installation: Installation, programs: Path, tmp_path: Path
) -> None:
    """With every kind of call, on four ranks: do the streams agree with each other, and is the output as without?"""
    program = calls(installation, programs)
    done = observed(installation, program, 4, tmp_path)
    assert lines(done) == lines(run(installation, program, 4))
    ranks = streams(tmp_path)
    check_laws(ranks, done.stdout)
    for rank in ranks:
        assert rank.refused() == set()
        assert {rank.texts[event["name"]] for _, event in rank.all("enter")} >= {"MPI_Init", "MPI_Imrecv", "MPI_Exscan"}
        assert [event["level"] for _, event in rank.all("region")] == [1, 0]
        assert {event["kind"] for _, event in rank.all("collective")} == set(range(22))
        assert {event["mode"] for _, event in rank.all("send")} == {0, 1, 2, 3}


@pytest.mark.families
@pytest.mark.parametrize("ranks", [1, 2])
def test_streams_of_few_ranks_obey_laws(installation: Installation, programs: Path, tmp_path: Path, ranks: int) -> None:
    """Do the laws hold where a rank is its own neighbour, and where there are two?"""
    done = observed(installation, calls(installation, programs), ranks, tmp_path)
    assert done.has_succeeded, done.stdout + done.stderr
    check_laws(streams(tmp_path), done.stdout)


@pytest.mark.families
def test_what_cannot_be_simulated_is_refused(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Are calls that no event describes, and calls that fail, reported by name, and their errors the program's own?"""
    for words, wanted in {
        "refused": {"MPI_Win_create", "MPI_Cancel"},
        "errors": {"MPI_Recv failed", "MPI_Send failed"},
    }.items():
        folder = tmp_path / words
        folder.mkdir()
        done = observed(installation, calls(installation, programs), 2, folder, words)
        assert done.has_succeeded, done.stdout + done.stderr
        assert [rank.refused() for rank in streams(folder)] == [wanted, wanted]


@pytest.mark.parametrize("binding", ["-DF77", "-DF90", "-DF08"])
def test_fortran_is_recorded_once_and_where_it_calls(
    installation: Installation, programs: Path, tmp_path: Path, binding: str
) -> None:
    """By mpif.h, `use mpi` and `use mpi_f08`: is each call recorded once, with its place in the program itself?"""
    compiler = wrapper(installation, "fortran")
    if not compiler or (installation.family == "intel" and binding != "-DF77"):
        pytest.skip("no modules for this Fortran compiler")
    flags = ["-fallow-argument-mismatch"] if binding == "-DF77" else []
    program = compiled(installation, compiler, "observed_fortran.F90", programs, binding, *flags)
    done = observed(installation, program, 2, tmp_path)
    assert lines(done) == lines(run(installation, program, 2))
    ranks = streams(tmp_path)
    check_laws(ranks, "")
    for rank in ranks:
        assert rank.refused() == set()
        assert [Path(event["path"]).name for _, event in rank.all("object")] == [program.name]
        names = [rank.texts[event["name"]] for _, event in rank.all("enter")]
        assert [name for name in names if name != "MPI_Test"] == [
            "MPI_Init", "MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Sendrecv", "MPI_Isend", "MPI_Probe", "MPI_Recv",
            "MPI_Allreduce", "MPI_Comm_split", "MPI_Gather", "MPI_Bcast", "MPI_Comm_free", "MPI_Barrier",
            "MPI_Finalize",
        ]  # fmt: skip


@pytest.mark.families
def test_without_observation_every_call_goes_straight_on(
    installation: Installation, programs: Path, tmp_path: Path
) -> None:
    """Where the layer is loaded but nothing is observed, does the program run as without the layer?"""
    program = calls(installation, programs)
    assert lines(run(installation, program, 2, LD_PRELOAD=str(mpi.build_target(installation, LAYER))))


def test_shows_nothing_but_mpi_names(installation: Installation) -> None:
    """Does the layer need nothing of libmpi to load, and offer nothing else that could stand before a program's own?"""
    layer = mpi.build_target(installation, LAYER)
    needed = subprocess.run(["readelf", "-d", str(layer)], check=True, capture_output=True, text=True).stdout
    assert "mpi" not in "".join(line for line in needed.splitlines() if "NEEDED" in line)
    shown = subprocess.run(["nm", "-D", str(layer)], check=True, capture_output=True, text=True).stdout.splitlines()
    missing = [line.split()[-1] for line in shown if line.split()[-2] == "U"]
    assert not [name for name in missing if "mpi" in name.lower()]
    offered = {line.split()[-1].split("_")[0] for line in shown if line.split()[-2] not in ("U", "w")}
    assert offered == {"MPI", "PMPI", "mpi"}
