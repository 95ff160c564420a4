"""A guard process that outlives nearfield. If nearfield is killed during a launch, the guard terminates the ranks and
removes their files; during a build, it terminates the compilers. Nothing else would terminate them, because some
launchers start ranks in sessions of their own.

The guard is started by path, without importing the package, because it must not disturb the measurement. It sleeps
until its standard input is closed, which happens when nearfield dies; a successful launch kills the guard first. Each
input line is a JSON object; together they contain `path` (sys.path) and the arguments of `clean_up_after_death`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any


class GuardProcess:
    """Context manager that runs a guard process during a launch or a build. `update` sends further arguments to the
    guard. If an exception leaves the context, the guard searches for marked processes once more, because a signal may
    arrive after the launcher has started and before its process id is recorded."""

    def __init__(self, **facts: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches only nearfield
            text=True,
            errors="replace",
        )
        self.update(path=sys.path, **facts)

    def update(self, **facts: Any) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(facts) + "\n")
            self._process.stdin.flush()

    def __enter__(self) -> GuardProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._process.kill()
        self._process.communicate()


def main() -> None:
    """Reads arguments until nearfield closes the pipe or dies, then terminates the marked processes."""
    facts: dict[str, Any] = {}
    with suppress(json.JSONDecodeError):  # nearfield was killed while it wrote the last line
        for line in sys.stdin:
            facts |= json.loads(line)
    if facts:
        sys.path[:] = facts["path"]
        from nearfield.mpi.marked_processes import clean_up_after_death

        del facts["path"]
        clean_up_after_death(**facts)


if __name__ == "__main__":
    main()
