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
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi.detect_command import (
    DetectedMpi,
    detect_mpi,
    installation_of_detected_mpi,
    is_linked_with_hooks,
    mpi_of_launcher,
    program_index,
)
from nearfield.mpi.run_child import run_as_child
from nearfield.observe import hooks, trace
from nearfield.observe.ending import EndedBySignal, EndSignalRecorder, signal_name, signals_as_errors
from nearfield.observe.flops import flops_at_hooks, flops_at_locations
from nearfield.observe.region import format_region
from nearfield.observe.source_lines import find_source_lines, to_utf8
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
    end_signal: int = 0  # number of the signal that ended nearfield and the program; 0: none


@dataclass(frozen=True)
class PreparedCommand:
    """A command that can be started under observation: its command line and the libraries to preload."""

    trace_metadata: TraceFile
    argv: list[str]
    preloaded_libraries: list[Path]  # for LD_PRELOAD
    region: str

    def environment(
        self, destination: str, *, uses_live_queries: bool = False, controls_clock: bool = False
    ) -> dict[str, str]:
        """Returns the environment of the observed command. `destination` is where its streams go: a folder, or the
        address of a running simulation. With `uses_live_queries`, the simulation decides nondeterministic MPI outcomes;
        with `controls_clock`, also the values of MPI_Wtime."""
        added = {
            FOLDER_VARIABLE: destination,
            **({REGION_VARIABLE: self.region} if self.region else {}),
            **({LIVE_QUERIES_VARIABLE: "1"} if uses_live_queries else {}),
            **({CLOCK_VARIABLE: "1"} if controls_clock else {}),
        }
        return environment_with_preload(os.environ, self.preloaded_libraries, added, self.argv)


def environment_with_preload(
    environment: Mapping[str, str], libraries: Iterable[Path], added_variables: Mapping[str, str], argv: Sequence[str]
) -> dict[str, str]:
    """Returns `environment` with the libraries first in LD_PRELOAD and with the `added_variables`. Unless the command
    line forwards variables itself, the result also forwards them to other nodes."""
    earlier_libraries = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    added_variables = {"LD_PRELOAD": " ".join([*map(str, libraries), *earlier_libraries]), **added_variables}
    result = {**environment, **added_variables}
    return result | all_nodes.open_mpi_forwarding_variable(argv, result)


def prepare_command(
    argv: Sequence[str], *, region: str = "", valgrind: bool = False, mpi_name: str | None = None,
    progress: ReportLine = ignore_progress,
) -> PreparedCommand:  # fmt: skip
    """Determines the command's MPI, and builds the libraries to preload. With `valgrind`, the program needs no hooks,
    because Valgrind records its accesses. Raises UsageError or MpiError."""
    inst = _find_mpi_of_command(argv, mpi_name)
    region_setting = format_region(argv, region) if region else ""
    preloaded_libraries = [
        hooks.hook_library(),
        *([mpi.build_target(inst, mpi.PROFILING_LAYER_TARGET, progress)] if inst else []),
    ]
    metadata = TraceFile(
        nearfield=nearfield.__version__, created=datetime.now(timezone.utc), command=to_utf8(shlex.join(argv)),
        mpi=inst.name if inst else "", region=region, recorder="valgrind" if valgrind else "hooks",
    )  # fmt: skip
    command = command_under_valgrind(argv, progress) if valgrind else list(argv)
    return PreparedCommand(metadata, command, preloaded_libraries, region_setting)


def observe(
    argv: Sequence[str], folder: Path, *, region: str = "", valgrind: bool = False, force: bool = False,
    mpi_name: str | None = None, progress: ReportLine = ignore_progress,
) -> ObservedRun:  # fmt: skip
    """Runs the command and returns its trace. The options are those of prepare_command, whose errors are raised, too.
    The trace's exit code and `problem` describe how the program ended. If nothing was recorded, removes the folder and
    raises EndedBySignal after a signal, otherwise MeasurementError with the program's exit code. Raises UsageError
    before building anything if the folder cannot be used."""
    trace.require_usable_folder(folder, force)
    with signals_as_errors("before the program was started"):
        prepared = prepare_command(argv, region=region, valgrind=valgrind, mpi_name=mpi_name, progress=progress)
    metadata = prepared.trace_metadata
    trace.create_trace_folder(folder, metadata, force)
    start_time, signal_recorder = time.monotonic(), EndSignalRecorder()
    environment = prepared.environment(str(folder.resolve()))
    metadata.exit_code = run_as_child(
        prepared.argv, environment, on_signal=signal_recorder.record_signal, mark=signal_recorder.process_mark
    )
    signal_recorder.kill_remaining_processes()
    metadata.seconds = time.monotonic() - start_time
    # Exit code 0 means that the program succeeded in spite of the signal.
    end_signal = signal_recorder.first_signal if metadata.exit_code else 0
    if end_signal and not _has_records(folder):
        shutil.rmtree(folder)
        raise EndedBySignal(end_signal, "before the program had recorded anything")
    with signals_as_errors(f"while the trace was completed; {folder} has the streams, but not the lines of source"):
        try:
            problem = complete_trace(folder, metadata, progress, end_signal, signal_recorder.first_signal)
        except MeasurementError as error:
            shutil.rmtree(folder)  # otherwise `show` would find it as the newest trace
            error.exit_code = metadata.exit_code or error.exit_code
            raise
    recorded_trace = Trace(folder)
    recorded_trace.metadata = metadata  # trace.toml lacks the end if the disk is full
    return ObservedRun(recorded_trace, problem, signal_recorder.first_signal if metadata.ended_by else 0)


def default_trace_folder(argv: Sequence[str]) -> Path:
    """Returns the default folder of a trace, named after the program, or after the script that an interpreter runs."""
    at = program_index(argv)
    script = next((word for word in argv[at + 1 : at + 2] if word.endswith(".py")), argv[at])
    return Path(f"{Path(script).name.removesuffix('.py')}.trace")


def _has_records(folder: Path) -> bool:
    """Returns whether any stream in the folder is longer than its header."""
    files = [*trace.stream_files(folder).values(), *trace.unnamed_streams(folder)]
    return any(file.stat().st_size > trace.STREAM_HEADER_BYTES for file in files)


def _find_mpi_of_command(argv: Sequence[str], mpi_name: str | None) -> mpi.Installation | None:
    """Returns the MPI installation of the command; None if the command has neither a launcher nor an MPI library."""
    command = shutil.which(argv[0])
    if not command:
        raise UsageError(f"there is no command '{argv[0]}'")
    try:
        detected = detect_mpi(argv, mpi_name)
    except MpiError:
        may_start_another = any(shutil.which(word) for word in argv[1:]) and not is_linked_with_hooks(Path(command))
        if mpi_name or mpi_of_launcher(argv) or may_start_another:
            raise
        return None
    return require_buildable(detected)


def require_buildable(detected_mpi: DetectedMpi) -> mpi.Installation:
    """Returns the installation of the detected MPI. Raises MpiError if its compiler wrapper is missing on this host."""
    inst = installation_of_detected_mpi(detected_mpi)
    if not inst:
        raise MpiError(
            f"{detected_mpi.detected_from} is of {detected_mpi.family} {detected_mpi.version}, for which there is no "
            "compiler here",
            "the profiling layer is built with the MPI's own wrapper, mpicxx; install it",
        )
    return inst


def complete_trace(
    folder: Path,
    metadata: TraceFile,
    progress: ReportLine = ignore_progress,
    end_signal: int = 0,
    received_signal: int = 0,
) -> str:
    """Completes the trace of a command that has ended: counts accesses, finds source lines, writes trace.toml.
    `end_signal` is the signal that ended the command, and `received_signal` a signal that was sent to the command while
    it ran; 0: none. If a stream is truncated, `received_signal` is taken as the signal that ended the program, even if
    the launcher exits with 0, as Hydra 4.0.2 does. Returns why the trace is incomplete; '' if complete. Raises
    MeasurementError if no process recorded anything."""
    streams = _name_streams(folder)
    metadata.ended_by = signal_name(end_signal) if end_signal else ""
    metadata.ranks = len(streams)
    metadata.stream_bytes = sum(file.stat().st_size for file in streams.values())
    if not streams:
        trace.write_trace_file(folder, metadata)
        raise MeasurementError(
            f"no process of this command recorded anything ({_describe_exit(metadata)})",
            _remedy_without_records(metadata),
        )
    problem = f"{metadata.ended_by} ended the program" if end_signal else ""
    locations: set[tuple[str, int]] = set()
    progress(f"finding the source lines of {len(streams)} streams")
    for _, file in sorted(streams.items()):
        accesses, broken_reason = _add_locations_of_stream(file, locations)
        metadata.accesses += accesses
        if broken_reason and received_signal and not metadata.ended_by:
            metadata.ended_by = signal_name(received_signal)
            problem = f"{metadata.ended_by} ended the program"
        problem = problem or broken_reason
    if metadata.exit_code:
        problem = problem or f"the command ended with code {metadata.exit_code}"
    metadata.complete = not problem
    try:
        _write_locations(folder, locations, metadata.recorder)
        trace.write_trace_file(folder, metadata)
    except ProfileError as error:  # trace.toml says since the beginning that the trace is not whole
        metadata.complete = False
        return problem or error.message
    return problem


def _name_streams(folder: Path) -> dict[int, Path]:
    """Returns rank -> stream file. Removes the streams of processes that are not ranks. If no stream has a rank, as
    after a kill of a program without MPI, names the streams in order."""
    streams = trace.stream_files(folder)
    for number, file in enumerate(sorted(trace.unnamed_streams(folder))):
        if streams:
            file.unlink()  # of a helper process of the MPI, or of a rank that did not reach MPI_Init
        else:
            file.rename(folder / f"rank-{number}.nfs")
    return trace.stream_files(folder)


def _describe_exit(metadata: TraceFile) -> str:
    return f"it ended with code {metadata.exit_code}" if metadata.exit_code else "it ended well"


def _remedy_without_records(metadata: TraceFile) -> str:
    """Returns the remedy for a command that recorded nothing."""
    if metadata.exit_code:
        return f"To see the error, run: {metadata.command}"
    link_remedy = "Link the program dynamically, and start it by its own MPI."
    if metadata.recorder == "valgrind":
        return link_remedy
    return f"Compile it with {own_command.command_line('cc')}, cxx or fc, or record it with --valgrind. {link_remedy}"


def _add_locations_of_stream(file: Path, locations: set[tuple[str, int]]) -> tuple[int, str]:
    """Adds the code locations of a stream to `locations`. Returns the number of its accesses, and why the stream is
    broken; '' if it is not."""
    broken_reason = ""
    try:
        with trace.broken_streams_as_errors():
            reader = stream.Reader(str(file))
            locations.update(locations_of(reader))
    except trace.BrokenTraceError as error:
        broken_reason = error.message
    if not broken_reason:
        return sum(chunk.accesses for chunk in reader.chunks), ""
    try:
        reader = stream.Reader(str(file))
    except stream.BrokenStream:
        return 0, broken_reason
    locations.update(_locations_of_truncated_stream(reader))
    return sum(chunk.accesses for chunk in reader.chunks), broken_reason


def _locations_of_truncated_stream(reader: stream.Reader) -> set[tuple[str, int]]:
    """Returns the code locations in the readable part of a truncated stream, whose list of locations at its end is
    missing."""
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
    while event := reader.event():
        yield event
        reader.pass_accesses()


def _write_locations(folder: Path, locations: set[tuple[str, int]], recorder: str) -> None:
    """Writes places.parquet: the source line of each code location, and the floating-point operations per access.
    Raises ProfileError if it cannot be written."""
    line_by_location = sorted(find_source_lines(locations).items())
    flops = flops_at_locations(locations) if recorder == "valgrind" else _flops_at_hooked_locations(locations)
    columns = {
        "object": [os.fsencode(path) for (path, _), _ in line_by_location],
        "offset": [offset for (_, offset), _ in line_by_location],
        "file": [line.file for _, line in line_by_location],
        "line": [line.number for _, line in line_by_location],
        "function": [line.function for _, line in line_by_location],
        "flops": [flops.get(place, 0.0) for place, _ in line_by_location],
    }
    content = BytesIO()
    pl.DataFrame(columns, schema=trace.PLACE_COLUMNS).write_parquet(content)
    remedy = "Give another folder with --out, on a disk with room."
    atomic_write(folder / trace.PLACES_FILE, content.getvalue(), remedy)


def _flops_at_hooked_locations(locations: set[tuple[str, int]]) -> dict[tuple[str, int], float]:
    by_object = {path: flops_at_hooks(path) for path in {path for path, _ in locations}}
    return {(path, offset): by_object[path].get(offset, 0.0) for path, offset in locations}
