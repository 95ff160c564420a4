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
from nearfield.forecast.prices import MessagePrices
from nearfield.forecast.recording import Recording, prepare_recording
from nearfield.forecast.run import RecordedRun
from nearfield.forecast.saying import ceiling_sentence, run_summary
from nearfield.forecast.sources import prices_for
from nearfield.mpi.run_child import run_as_child
from nearfield.rules.paths import default_rules


def run_watched(
    argv: Sequence[str], environment: Mapping[str, str], *, mpi_name: str | None = None, rules: Path | None = None,
    log: str = "", explains: bool = False, says: bool = False,
) -> int:  # fmt: skip
    """Runs a command under the profiling layer and returns its exit code. `explains`: prints how its messages were
    copied. `says`: prints the maximum speed-up before that. `log`: the file to which a line is appended, if any."""
    ended: list[RecordedRun] = []
    with recording_if_possible(argv, environment, mpi_name) as record:

        def at_end() -> None:
            if record:
                ended.append(record.read_run(prices_if_any(rules)))
            if says and ended:
                print_line(_ceiling_or_reason(ended[0]))

        started_with, scratch = (record.environment, record.scratch) if record else (environment, ())
        if explains:
            code = explain.run_and_explain(argv, started_with, at_end, scratch)
        else:
            code = run_as_child(argv, started_with, scratch)
            at_end()
    if log:
        _append_to_log(log, argv, rules or default_rules(), ended[0] if ended else None, code)
    return code


@contextmanager
def recording_if_possible(
    argv: Sequence[str], environment: Mapping[str, str], mpi_name: str | None
) -> Iterator[Recording | None]:
    """A context manager like `prepare_recording`. If the profiling layer cannot be used, prints the reason and yields
    None."""
    context = prepare_recording(argv, environment, mpi_name=mpi_name, progress=print_line)
    try:
        record = context.__enter__()
    except (NearfieldError, OSError) as error:
        reason = error.message if isinstance(error, NearfieldError) else str(error)
        print_line(f"how much of this run is MPI is not known: {reason}")
        yield None
        return
    try:
        yield record
    finally:
        context.__exit__(None, None, None)


def print_line(line: str) -> None:
    """Prints a line for the user on standard error."""
    print(f"nearfield: {line}", file=sys.stderr)


def _ceiling_or_reason(run: RecordedRun) -> str:
    """Returns the sentence on the maximum speed-up, or on why it is unknown."""
    return (
        ceiling_sentence(run, under_rules=True)
        or f"cannot tell how much of this run is MPI: {'; '.join(run.inconclusive_reasons())}"
    )


def prices_if_any(rules: Path | None) -> MessagePrices | None:
    """Returns the message times from the given rules file, or from the rules of the current folder; None if none can be
    read."""
    try:
        return prices_for(rules if rules and rules.is_file() else None, None)
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
        print_line(f"no line was added to {log}: {error.strerror}")
