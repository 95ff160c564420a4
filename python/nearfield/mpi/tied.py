"""Runs compilers and build tools so that none of them outlives this process.

All processes that the command starts inherit a mark in their environment. If an exception such as KeyboardInterrupt
leaves the context, this process terminates all marked processes; if this process is killed, its guard does.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nearfield.mpi.guard import GuardProcess
from nearfield.mpi.marked_processes import MARK_VARIABLE, end_launch


@contextmanager
def start_tied_process(
    command: Sequence[str], env: Mapping[str, str], output: IO[str] | None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a command and yields its process. Both of its output streams go to `output`, or, if that is None, to those
    of this process. Raises OSError if the command cannot be started. Processes that outlive a successful command, such
    as the server of a compiler cache, are not terminated."""
    mark = uuid.uuid4().hex
    with GuardProcess(mark=mark) as guard:
        process = subprocess.Popen(
            command,
            env={**env, MARK_VARIABLE: mark},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        guard.update(launcher=process.pid)
        try:
            yield process
        except BaseException:
            end_launch(mark, process)
            raise


def run_tied_command(command: Sequence[str], cwd: Path, log: Path) -> int:
    """Runs a command, appends its output to the file `log`, and returns its exit code."""
    with (
        log.open("a", encoding="utf-8") as output,
        start_tied_process(command, {**os.environ, "LC_ALL": "C"}, output, cwd) as process,
    ):
        return process.wait()
