"""Runs compilers and build tools so that none of them outlives this process.

Every process that the command starts inherits a mark in its environment. If an exception such as Ctrl-C leaves the
context, this process ends all of them; if this process itself is killed, its guard does.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nearfield.mpi.guard import Guard
from nearfield.mpi.process import MARK, end_all


@contextmanager
def start_tied(
    command: Sequence[str], env: Mapping[str, str], output: IO[str] | None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a command that writes both of its streams to `output`, or to those of this process if that is None, and
    yields its process. Raises OSError if it cannot be started. A command that succeeds may leave processes behind, such
    as the server of a compiler cache."""
    mark = uuid.uuid4().hex
    with Guard(mark=mark) as guard:
        process = subprocess.Popen(
            command,
            env={**env, MARK: mark},
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
            end_all(mark, process)
            raise


def run_tied(command: Sequence[str], cwd: Path, log: Path) -> int:
    """Runs a command to its end, appends what it writes to the file `log`, and returns its exit code."""
    with (
        log.open("a", encoding="utf-8") as output,
        start_tied(command, {**os.environ, "LC_ALL": "C"}, output, cwd) as process,
    ):
        return process.wait()
