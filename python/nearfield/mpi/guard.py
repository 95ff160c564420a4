"""A process that outlives nearfield: if nearfield is killed during a launch, it ends the ranks and removes their files,
and if it is killed during a build, it ends the compilers. Nothing else would end them: ranks and compilers do
not know nearfield, and some launchers start ranks in sessions of their own.

It is started by path, without the package, because it must not disturb the measurement: it sleeps until its
standard input is closed, which happens when nearfield ends, unless nearfield has ended the guard before. Each line of
the input is a JSON object; together they give `path` (sys.path) and the arguments of `clean_up_after_death`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any


class Guard:
    """A context around a launch or a build. `update` passes further facts to the guard. If an exception leaves the
    context, the guard first searches for processes that must be ended, since a signal may arrive after the launcher
    has started and before its process id is recorded."""

    def __init__(self, **facts: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for nearfield
            text=True,
            errors="replace",
        )
        self.update(path=sys.path, **facts)

    def update(self, **facts: Any) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(facts) + "\n")
            self._process.stdin.flush()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._process.kill()
        self._process.communicate()


def main() -> None:
    """Ends the marked processes once the process that started them has ended."""
    facts: dict[str, Any] = {}
    with suppress(json.JSONDecodeError):  # an incomplete last line
        for line in sys.stdin:
            facts |= json.loads(line)
    if facts:
        sys.path[:] = facts["path"]
        from nearfield.mpi.process import clean_up_after_death

        del facts["path"]
        clean_up_after_death(**facts)


if __name__ == "__main__":
    main()
