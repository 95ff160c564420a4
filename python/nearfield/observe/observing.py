"""Runs a program under observation: its ranks write their streams into a trace folder."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import nearfield
from nearfield import mpi
from nearfield._native import stream
from nearfield.base import all_nodes, own_command
from nearfield.base.errors import MeasurementError, MpiError, ProfileError, UsageError
from nearfield.base.files import atomic_write
from nearfield.base.frames import pl
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi.detect_command import (
    DetectedMpi,
    detect_mpi,
    has_hooks,
    installation_of,
    mpi_of_launcher,
    program_index,
)
from nearfield.mpi.run_child import run_as_child
from nearfield.observe import hooks, trace
from nearfield.observe.ending import EndedBySignal, EndSignal, signal_name, signals_as_errors
from nearfield.observe.flops import flops_at_locations, flops_of_hooks
from nearfield.observe.region import region_of
from nearfield.observe.source_lines import lines_of, to_utf8
from nearfield.observe.trace import Trace, TraceFile
from nearfield.observe.valgrind import command_under_valgrind

# Environment variables that src/preload/observe reads.
FOLDER_VARIABLE, REGION_VARIABLE = "NEARFIELD_OBSERVE", "NEARFIELD_OBSERVE_REGION"
LIVE_QUERIES_VARIABLE, CLOCK_VARIABLE = "NEARFIELD_OBSERVE_ASK", "NEARFIELD_OBSERVE_CLOCK"


@dataclass(frozen=True)
class ObservedRun:
    """The trace of a program run, and how the run ended."""

    trace: Trace
    problem: str = ""  # why the trace is incomplete; empty if it is complete
    ended_by: int = 0  # number of the signal that ended nearfield and the program; 0: none


@dataclass(frozen=True)
class PreparedCommand:
    """A command that can be started under observation: its words and the libraries to preload."""

    about: TraceFile
    words: list[str]
    libraries: list[Path]  # for LD_PRELOAD
    region: str

    def environment(self, where: str, *, live_queries: bool = False, clock: bool = False) -> dict[str, str]:
        """Returns the environment of the observed command. `where` is the destination of its streams: a folder, or the
        address of a running simulation. With `live_queries`, the simulation decides nondeterministic MPI outcomes; with
        `clock`, also the values of MPI_Wtime."""
        added = {
            FOLDER_VARIABLE: where,
            **({REGION_VARIABLE: self.region} if self.region else {}),
            **({LIVE_QUERIES_VARIABLE: "1"} if live_queries else {}),
            **({CLOCK_VARIABLE: "1"} if clock else {}),
        }
        return environment_with_preload(os.environ, self.libraries, added, self.words)


def environment_with_preload(
    environment: Mapping[str, str], libraries: Iterable[Path], added: Mapping[str, str], argv: Sequence[str]
) -> dict[str, str]:
    """Returns `environment` with the libraries first in LD_PRELOAD and with the `added` variables. Unless the command
    line forwards variables itself, the result also forwards them to other nodes."""
    before = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    added = {"LD_PRELOAD": " ".join([*map(str, libraries), *before]), **added}
    made = {**environment, **added}
    return made | all_nodes.open_mpi_forwarding_variable(argv, made)


def prepare_command(
    argv: Sequence[str], *, region: str = "", valgrind: bool = False, mpi_name: str | None = None,
    progress: ReportLine = ignore,
) -> PreparedCommand:  # fmt: skip
    """Determines the command's MPI, and builds the libraries to preload. With `valgrind`, the program needs no hooks,
    because Valgrind records its accesses. Raises UsageError or MpiError."""
    inst = _mpi_of(argv, mpi_name)
    cut = region_of(argv, region) if region else ""
    preloaded = [hooks.hook_library(), *([mpi.program(inst, mpi.LAYER, progress)] if inst else [])]
    about = TraceFile(
        nearfield=nearfield.__version__, created=datetime.now(timezone.utc), command=to_utf8(shlex.join(argv)),
        mpi=inst.name if inst else "", region=region, recorder="valgrind" if valgrind else "hooks",
    )  # fmt: skip
    return PreparedCommand(about, command_under_valgrind(argv, progress) if valgrind else list(argv), preloaded, cut)


def observe(
    argv: Sequence[str], folder: Path, *, region: str = "", valgrind: bool = False, force: bool = False,
    mpi_name: str | None = None, progress: ReportLine = ignore,
) -> ObservedRun:  # fmt: skip
    """Runs the command and returns its trace. The options are those of prepare_command, whose errors are raised, too.
    The trace's exit code and `problem` describe how the program ended. If nothing was recorded, removes the folder and
    raises EndedBySignal after a signal, otherwise MeasurementError with the program's exit code. Raises UsageError
    before building anything if the folder cannot be used."""
    trace.require_usable_folder(folder, force)
    with signals_as_errors("before the program was started"):
        ready = prepare_command(argv, region=region, valgrind=valgrind, mpi_name=mpi_name, progress=progress)
    about = ready.about
    trace.create_trace_folder(folder, about, force)
    begun, ending = time.monotonic(), EndSignal()
    environment = ready.environment(str(folder.resolve()))
    about.exit_code = run_as_child(ready.words, environment, on_signal=ending.record, mark=ending.mark)
    ending.end_remaining()
    about.seconds = time.monotonic() - begun
    ended_by = ending.signal if about.exit_code else 0  # exit code 0: the program succeeded in spite of the signal
    if ended_by and not _has_records(folder):
        shutil.rmtree(folder)
        raise EndedBySignal(ended_by, "before the program had recorded anything")
    with signals_as_errors(f"while the trace was completed; {folder} has the streams, but not the lines of source"):
        try:
            problem = complete_trace(folder, about, progress, ended_by, ending.signal)
        except MeasurementError as error:
            shutil.rmtree(folder)  # otherwise `show` would find it as the newest trace
            error.exit_code = about.exit_code or error.exit_code
            raise
    found = Trace(folder)
    found.about = about  # trace.toml lacks the end if the disk is full
    return ObservedRun(found, problem, ending.signal if about.ended_by else 0)


def default_trace_folder(argv: Sequence[str]) -> Path:
    """Returns the default folder of a trace, named after the program, or after the script that an interpreter runs."""
    at = program_index(argv)
    script = next((word for word in argv[at + 1 : at + 2] if word.endswith(".py")), argv[at])
    return Path(f"{Path(script).name.removesuffix('.py')}.trace")


def _has_records(folder: Path) -> bool:
    """Returns whether any stream in the folder is longer than its header."""
    files = [*trace.stream_files(folder).values(), *trace.unnamed_streams(folder)]
    return any(file.stat().st_size > trace.STREAM_HEADER_BYTES for file in files)


def _mpi_of(argv: Sequence[str], mpi_name: str | None) -> mpi.Installation | None:
    """Returns the MPI installation of the command; None if the command has neither a launcher nor an MPI library."""
    command = shutil.which(argv[0])
    if not command:
        raise UsageError(f"there is no command '{argv[0]}'")
    try:
        found = detect_mpi(argv, mpi_name)
    except MpiError:
        may_start_another = any(shutil.which(word) for word in argv[1:]) and not has_hooks(Path(command))
        if mpi_name or mpi_of_launcher(argv) or may_start_another:
            raise
        return None
    return require_buildable(found)


def require_buildable(found: DetectedMpi) -> mpi.Installation:
    """Returns the installation of the detected MPI. Raises MpiError if its compiler wrapper is missing on this host."""
    inst = installation_of(found)
    if not inst:
        raise MpiError(
            f"{found.by} is of {found.family} {found.version}, for which there is no compiler here",
            "the profiling layer is built with the MPI's own wrapper, mpicxx; install it",
        )
    return inst


def complete_trace(
    folder: Path, about: TraceFile, progress: ReportLine = ignore, ended_by: int = 0, received: int = 0
) -> str:
    """Completes the trace of a command that has ended: counts accesses, finds source lines, writes trace.toml.
    `ended_by` is the signal that ended the command; 0: none. `received` is a signal that the command received. If a
    stream is truncated, this signal ended the program, too, whatever the launcher's exit code; that of Hydra 4.0.2 is
    0. Returns why the trace is incomplete; '' if complete. Raises MeasurementError if no process recorded anything."""
    streams = _named_streams(folder)
    about.ended_by = signal_name(ended_by) if ended_by else ""
    about.ranks = len(streams)
    about.stream_bytes = sum(file.stat().st_size for file in streams.values())
    if not streams:
        trace.write_about(folder, about)
        raise MeasurementError(
            f"no process of this command recorded anything ({_describe_exit(about)})", _remedy_without_records(about)
        )
    problem = f"{about.ended_by} ended the program" if ended_by else ""
    places: set[tuple[str, int]] = set()
    progress(f"finding the source lines of {len(streams)} streams")
    for _, file in sorted(streams.items()):
        accesses, broken = _read_locations(file, places)
        about.accesses += accesses
        if broken and received and not about.ended_by:
            about.ended_by = signal_name(received)
            problem = f"{about.ended_by} ended the program"
        problem = problem or broken
    if about.exit_code:
        problem = problem or f"the command ended with code {about.exit_code}"
    about.complete = not problem
    try:
        _write_locations(folder, places, about.recorder)
        trace.write_about(folder, about)
    except ProfileError as error:  # trace.toml says since the beginning that the trace is not whole
        about.complete = False
        return problem or error.message
    return problem


def _named_streams(folder: Path) -> dict[int, Path]:
    """Returns rank -> stream file. Removes the streams of processes that are no ranks. Names the streams of a program
    without MPI that was killed."""
    streams = trace.stream_files(folder)
    for number, file in enumerate(sorted(trace.unnamed_streams(folder))):
        if streams:
            file.unlink()  # of a helper process of the MPI, or of a rank that did not reach MPI_Init
        else:
            file.rename(folder / f"rank-{number}.nfs")
    return trace.stream_files(folder)


def _describe_exit(about: TraceFile) -> str:
    return f"it ended with code {about.exit_code}" if about.exit_code else "it ended well"


def _remedy_without_records(about: TraceFile) -> str:
    """Returns the remedy for a command that recorded nothing."""
    if about.exit_code:
        return f"See it by hand: {about.command}"
    linked = "Link the program dynamically, and start it by its own MPI."
    if about.recorder == "valgrind":
        return linked
    return f"Compile it with {own_command.line('cc')}, cxx or fc, or record it with --valgrind. {linked}"


def _read_locations(file: Path, places: set[tuple[str, int]]) -> tuple[int, str]:
    """Adds the code locations of a stream to `places`. Returns the number of its accesses, and why the stream is
    broken; '' if it is not."""
    broken = ""
    try:
        with trace.broken_streams():
            reader = stream.Reader(str(file))
            places.update(locations_of(reader))
    except trace.BrokenTraceError as error:
        broken = error.message
    if not broken:
        return sum(chunk.accesses for chunk in reader.chunks), ""
    try:
        reader = stream.Reader(str(file))
    except stream.BrokenStream:
        return 0, broken
    places.update(_locations_until_the_end(reader))
    return sum(chunk.accesses for chunk in reader.chunks), broken


def _locations_until_the_end(reader: stream.Reader) -> set[tuple[str, int]]:
    """Returns the code locations of a truncated stream, as far as it can be read. The location list at the end of the
    stream is missing."""
    paths: dict[int, str] = {}
    pairs: list[tuple[int, int]] = []
    with suppress(stream.BrokenStream):
        for name, fields in iterate_events(reader):
            if name == "object":
                paths[fields["object"]] = fields["path"]
            elif name == "call_site":
                numbers = [fields["object"], fields["offset"], *fields["callers"]]
                pairs += zip(numbers[0::2], numbers[1::2], strict=True)
    pairs += [(site.object, site.offset) for site in reader.sites]
    return {(paths[number], offset) for number, offset in pairs if number in paths}


def locations_of(reader: stream.Reader) -> Iterator[tuple[str, int]]:
    """Yields the code locations of the accesses and MPI calls of a complete stream, from the list at its end. Raises
    BrokenStream."""
    reader.skip_to_last_chunk()
    for name, fields in iterate_events(reader):
        if name == "sites":
            paths, pairs = fields["objects"], fields["places"]
            yield from ((paths[pairs[i]], pairs[i + 1]) for i in range(0, len(pairs), 2))


def iterate_events(reader: stream.Reader) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the events of a stream as (name, fields), and skips the accesses between them."""
    reader.pass_accesses()
    while found := reader.event():
        yield found
        reader.pass_accesses()


def _write_locations(folder: Path, places: set[tuple[str, int]], recorder: str) -> None:
    """Writes places.parquet: the source line of each code location, and the floating-point operations per access.
    Raises ProfileError if it cannot be written."""
    found = sorted(lines_of(places).items())
    flops = flops_at_locations(places) if recorder == "valgrind" else _flops_at_hooked_places(places)
    columns = {
        "object": [os.fsencode(path) for (path, _), _ in found],
        "offset": [offset for (_, offset), _ in found],
        "file": [line.file for _, line in found],
        "line": [line.number for _, line in found],
        "function": [line.function for _, line in found],
        "flops": [flops.get(place, 0.0) for place, _ in found],
    }
    content = BytesIO()
    pl.DataFrame(columns, schema=trace.PLACE_COLUMNS).write_parquet(content)
    remedy = "Give another folder with --out, on a disk with room."
    atomic_write(folder / trace.PLACES_FILE, content.getvalue(), remedy)


def _flops_at_hooked_places(places: set[tuple[str, int]]) -> dict[tuple[str, int], float]:
    by_object = {path: flops_of_hooks(path) for path in {path for path, _ in places}}
    return {(path, offset): by_object[path].get(offset, 0.0) for path, offset in places}
