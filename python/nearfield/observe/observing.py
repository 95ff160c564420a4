"""Runs a program under observation: its ranks write their streams into a trace."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import nearfield
from nearfield import itself, mpi
from nearfield._native import stream
from nearfield.base.files import writing
from nearfield.errors import MeasurementError, MpiError, UsageError
from nearfield.observe import hooks, trace
from nearfield.observe.arithmetic import flops_of, flops_of_hooks
from nearfield.observe.places import in_utf8, lines_of
from nearfield.observe.region import region_of
from nearfield.observe.trace import Trace, TraceFile
from nearfield.observe.valgrind import under_valgrind
from nearfield.tune.apply import installation_of
from nearfield.tune.child import run_as_child
from nearfield.tune.recognise import of_launcher, recognise

FOLDER, REGION = "NEARFIELD_OBSERVE", "NEARFIELD_OBSERVE_REGION"  # read by src/observe
ASK, CLOCK = "NEARFIELD_OBSERVE_ASK", "NEARFIELD_OBSERVE_CLOCK"
_FORWARD = "OMPI_MCA_mca_base_env_list"  # variables that Open MPI's mpirun takes to other nodes
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Observed:
    """The trace of a program that has run."""

    trace: Trace
    problem: str = ""  # why the trace is not whole; empty if it is


@dataclass(frozen=True)
class Prepared:
    """A command that can be started under observation."""

    about: TraceFile
    words: list[str]
    libraries: list[Path]  # to preload
    region: str

    def environment(self, where: str, *, asks: bool = False, clock: bool = False) -> dict[str, str]:
        """Returns the command's environment. `where` its streams go: a folder, or the address of a simulation, which
        decides what MPI leaves to time if it `asks`, and with `clock` MPI_Wtime as well."""
        before = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
        added = {
            "LD_PRELOAD": " ".join([*map(str, self.libraries), *before]),
            FOLDER: where,
            **({REGION: self.region} if self.region else {}),
            **({ASK: "1"} if asks else {}),
            **({CLOCK: "1"} if clock else {}),
        }
        forwarded = ";".join([*filter(None, [os.environ.get(_FORWARD)]), *added])
        return {**os.environ, **added, _FORWARD: forwarded}


def prepare(
    argv: Sequence[str], *, region: str = "", valgrind: bool = False, mpi_name: str | None = None,
    progress: Progress = lambda line: None,
) -> Prepared:  # fmt: skip
    """Finds the command's MPI and builds what is preloaded into it. `valgrind`: the program has no hooks, and Valgrind
    records its accesses. Raises UsageError or MpiError."""
    inst = _mpi_of(argv, mpi_name)
    cut = region_of(argv, region) if region else ""
    preloaded = [hooks.library(), *([mpi.program(inst, mpi.LAYER, progress)] if inst else [])]
    about = TraceFile(
        nearfield=nearfield.__version__, created=datetime.now(timezone.utc), command=in_utf8(shlex.join(argv)),
        mpi=inst.name if inst else "", region=region, recorder="valgrind" if valgrind else "hooks",
    )  # fmt: skip
    return Prepared(about, under_valgrind(argv, progress) if valgrind else list(argv), preloaded, cut)


def observe(
    argv: Sequence[str], folder: Path, *, region: str = "", valgrind: bool = False, force: bool = False,
    mpi_name: str | None = None, progress: Progress = lambda line: None,
) -> Observed:  # fmt: skip
    """Runs the command and returns its trace; the options are those of prepare(), whose errors it raises. What happens
    to the program is told by `problem` and the trace's exit code."""
    ready = prepare(argv, region=region, valgrind=valgrind, mpi_name=mpi_name, progress=progress)
    about = ready.about
    trace.new_folder(folder, about, force)
    begun = time.monotonic()
    about.exit_code = run_as_child(ready.words, ready.environment(str(folder.resolve())))
    about.seconds = time.monotonic() - begun
    problem = finish(folder, about, progress)
    return Observed(Trace(folder), problem)


def _mpi_of(argv: Sequence[str], mpi_name: str | None) -> mpi.Installation | None:
    """Returns the MPI of the command; None if it has neither a launcher nor a library of one."""
    if not shutil.which(argv[0]):
        raise UsageError(f"there is no command '{argv[0]}'")
    try:
        found = recognise(argv, mpi_name)
    except MpiError:
        if mpi_name or of_launcher(argv) or len(argv) > 1 and any(shutil.which(word) for word in argv[1:]):
            raise
        return None
    inst = installation_of(found)
    if not inst:
        raise MpiError(
            f"{found.by} is of {found.family} {found.version}, for which there is no compiler here",
            "the profiling layer is built with the MPI's own wrapper, mpicxx; install it",
        )
    return inst


def finish(folder: Path, about: TraceFile, progress: Progress = lambda line: None) -> str:
    """Completes the trace of a command that has ended. Returns why it is not whole. Raises MeasurementError if no
    process recorded anything."""
    streams = trace.stream_files(folder)
    for number, file in enumerate(sorted(trace.unnamed_streams(folder))):
        if streams:
            file.unlink()  # of a helper of the MPI's, or of a rank that did not get to MPI_Init
        else:
            file.rename(folder / f"rank-{number}.nfs")  # of a program without MPI that was killed
    streams = trace.stream_files(folder)
    about.ranks = len(streams)
    about.stream_bytes = sum(file.stat().st_size for file in streams.values())
    if not streams:
        trace.write(folder, about)
        raise MeasurementError(
            "no process of this command recorded anything",
            f"compile it with {itself.command('cc')}, cxx or fc, or record it with --valgrind; "
            "link it dynamically, and start it by its own MPI",
        )
    problem = ""
    places: set[tuple[str, int]] = set()
    progress(f"reading the places of {len(streams)} streams")
    for _, file in sorted(streams.items()):
        try:
            with trace.broken_streams():
                reader = stream.Reader(str(file))
                places.update(places_of(reader))
                about.accesses += sum(chunk.accesses for chunk in reader.chunks)
        except trace.BrokenTraceError as error:
            problem = problem or error.message
    if about.exit_code:
        problem = problem or f"the command ended with code {about.exit_code}"
    about.complete = not problem
    _write_places(folder, places, about.recorder)
    trace.write(folder, about)
    return problem


def places_of(reader: stream.Reader) -> Iterator[tuple[str, int]]:
    """Yields the places from which a stream's program accessed memory or called MPI. Raises BrokenStream."""
    reader.to_last_chunk()
    for name, fields in events(reader):
        if name == "sites":
            paths, pairs = fields["objects"], fields["places"]
            yield from ((paths[pairs[i]], pairs[i + 1]) for i in range(0, len(pairs), 2))


def events(reader: stream.Reader) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the events of a stream, and passes over the accesses between them."""
    reader.pass_accesses()
    while found := reader.event():
        yield found
        reader.pass_accesses()


def _write_places(folder: Path, places: set[tuple[str, int]], recorder: str) -> None:
    import polars as pl  # its threads would take the signal that the program has ended from run_as_child

    found = sorted(lines_of(places).items())
    flops = flops_of(places) if recorder == "valgrind" else _flops_of_hooks(places)
    columns = {
        "object": [os.fsencode(path) for (path, _), _ in found],
        "offset": [offset for (_, offset), _ in found],
        "file": [line.file for _, line in found],
        "line": [line.number for _, line in found],
        "function": [line.function for _, line in found],
        "flops": [flops.get(place, 0.0) for place, _ in found],
    }
    where = folder / trace.PLACES
    with writing(where, "Give another folder with --out, on a disk with room."), where.open("wb") as file:
        pl.DataFrame(columns, schema=trace.PLACE_COLUMNS).write_parquet(file)


def _flops_of_hooks(places: set[tuple[str, int]]) -> dict[tuple[str, int], float]:
    by_object = {path: flops_of_hooks(path) for path in {path for path, _ in places}}
    return {(path, offset): by_object[path].get(offset, 0.0) for path, offset in places}
