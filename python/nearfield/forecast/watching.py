"""Runs a job of `nearfield run` under the profiling layer: prints the maximum speed-up at the end, or appends a line to
a log. No error of the layer may harm the job."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from nearfield.apply import explain
from nearfield.base.errors import NearfieldError
from nearfield.forecast.message_times import MeasuredMessageTimes
from nearfield.forecast.recording import Recording, prepare_recording
from nearfield.forecast.run import RecordedRun
from nearfield.forecast.saying import ceiling_sentence, run_summary
from nearfield.forecast.sources import find_message_times
from nearfield.mpi.run_child import run_as_child
from nearfield.rules.paths import default_rules_path


def run_watched(
    argv: Sequence[str], environment: Mapping[str, str], *, mpi_name: str | None = None, rules: Path | None = None,
    log: str = "", should_explain_copies: bool = False, should_print_ceiling: bool = False,
) -> int:  # fmt: skip
    """Runs a command under the profiling layer and returns its exit code. `should_explain_copies`: prints how its
    messages were copied. `should_print_ceiling`: prints the maximum speed-up before that. `log`: the file to which a
    line is appended, if any."""
    recorded_runs: list[RecordedRun] = []
    with recording_if_possible(argv, environment, mpi_name) as recording:

        def at_end() -> None:
            if recording:
                recorded_runs.append(recording.read_run(find_prices_or_none(rules)))
            if should_print_ceiling and recorded_runs:
                print_message(_ceiling_or_reason(recorded_runs[0]))

        child_environment, scratch = (
            (recording.environment, recording.scratch_folders) if recording else (environment, ())
        )
        if should_explain_copies:
            code = explain.run_and_explain(argv, child_environment, at_end, scratch)
        else:
            code = run_as_child(argv, child_environment, scratch)
            at_end()
    if log:
        _append_to_log(log, argv, rules or default_rules_path(), recorded_runs[0] if recorded_runs else None, code)
    return code


@contextmanager
def recording_if_possible(
    argv: Sequence[str], environment: Mapping[str, str], mpi_name: str | None
) -> Iterator[Recording | None]:
    """Does the same as `prepare_recording`, but if the profiling layer cannot be used, prints the reason and yields
    None."""
    context = prepare_recording(argv, environment, mpi_name=mpi_name, progress=print_message)
    try:
        record = context.__enter__()
    except (NearfieldError, OSError) as error:
        reason = error.message if isinstance(error, NearfieldError) else str(error)
        print_message(f"how much of this run is MPI is not known: {reason}")
        yield None
        return
    try:
        yield record
    finally:
        context.__exit__(None, None, None)


def print_message(line: str) -> None:
    """Prints a line for the user on standard error."""
    print(f"nearfield: {line}", file=sys.stderr)


def _ceiling_or_reason(run: RecordedRun) -> str:
    """Returns the sentence on the maximum speed-up, or on why it is unknown."""
    return (
        ceiling_sentence(run, is_under_rules=True)
        or f"cannot tell how much of this run is MPI: {'; '.join(run.inconclusive_reasons())}"
    )


def find_prices_or_none(rules: Path | None) -> MeasuredMessageTimes | None:
    """Returns the message times from the given rules file, or from the rules of the current folder; None if none can be
    read."""
    try:
        return find_message_times(rules if rules and rules.is_file() else None, None)
    except NearfieldError:
        return None


def _append_to_log(log: str, argv: Sequence[str], rules: Path, run: RecordedRun | None, code: int) -> None:
    """Appends the job's line to the log with a single write, since many jobs may share the file."""
    line = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": os.uname().nodename,
        "command": shlex.join(argv),
        "rules": str(rules.absolute()),
        "exit_code": code,
        **(run_summary(run) if run else {"decided": False}),
    }
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
    except OSError as error:
        print_message(f"no line was added to {log}: {error.strerror}")
