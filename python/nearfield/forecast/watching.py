"""Runs a job of `nearfield run` under the thin layer: says the ceiling at its end, or leaves a line in a log. Nothing
that goes wrong here may harm the job."""

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
from nearfield.forecast.prices import Prices
from nearfield.forecast.recording import Recording, recording
from nearfield.forecast.run import Run
from nearfield.forecast.saying import ceiling_sentence, summary
from nearfield.forecast.sources import prices_for
from nearfield.mpi.run_child import run_as_child
from nearfield.rules.paths import default_rules


def run_watched(
    argv: Sequence[str], environment: Mapping[str, str], *, mpi_name: str | None = None, rules: Path | None = None,
    log: str = "", explains: bool = False, says: bool = False,
) -> int:  # fmt: skip
    """Runs the command and returns its exit code. `explains`: says how its messages were copied. `says`: prints the
    ceiling before. `log`: the file to which a line is added, if any."""
    ended: list[Run] = []
    with if_possible(argv, environment, mpi_name) as record:

        def at_end() -> None:
            if record:
                ended.append(record.run(prices_if_any(rules)))
            if says and ended:
                tell(_sentence(ended[0]))

        started_with, scratch = (record.environment, record.scratch) if record else (environment, ())
        if explains:
            code = explain.run(argv, started_with, at_end, scratch)
        else:
            code = run_as_child(argv, started_with, scratch)
            at_end()
    if log:
        _append(log, argv, rules or default_rules(), ended[0] if ended else None, code)
    return code


@contextmanager
def if_possible(
    argv: Sequence[str], environment: Mapping[str, str], mpi_name: str | None
) -> Iterator[Recording | None]:
    """A context like `recording`, which yields None after a line with the reason where the layer cannot be used."""
    context = recording(argv, environment, mpi_name=mpi_name, progress=tell)
    try:
        record = context.__enter__()
    except (NearfieldError, OSError) as error:
        reason = error.message if isinstance(error, NearfieldError) else str(error)
        tell(f"how much of this run is MPI is not known: {reason}")
        yield None
        return
    try:
        yield record
    finally:
        context.__exit__(None, None, None)


def tell(line: str) -> None:
    """Prints a line for the person on standard error."""
    print(f"nearfield: {line}", file=sys.stderr)


def _sentence(run: Run) -> str:
    return (
        ceiling_sentence(run, under_rules=True)
        or f"cannot tell how much of this run is MPI: {'; '.join(run.undecided())}"
    )


def prices_if_any(rules: Path | None) -> Prices | None:
    """Returns the prices of these rules, or of those that lie here; None if there are none that can be read."""
    try:
        return prices_for(rules if rules and rules.is_file() else None, None)
    except NearfieldError:
        return None


def _append(log: str, argv: Sequence[str], rules: Path, run: Run | None, code: int) -> None:
    """Adds the job's line by one write, since many jobs may share the file."""
    line = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": os.uname().nodename,
        "command": shlex.join(argv),
        "rules": str(rules.absolute()),
        "exit_code": code,
        **(summary(run) if run else {"decided": False}),
    }
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
    except OSError as error:
        tell(f"no line was added to {log}: {error.strerror}")
