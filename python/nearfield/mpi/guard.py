"""A process that outlives nearfield: if nearfield is killed during a launch, it ends the ranks and removes their files,
and if it is killed during a build, it ends the compilers. Nothing else would: ranks and compilers know nothing of
nearfield, and some launchers start ranks in sessions of their own.

It is started by path, without the package, because it should cost the machine nothing while ranks measure: it waits
for the end of its standard input, which is nearfield's own end unless nearfield has ended the guard before. Each line
there is a JSON object; together they give `path`, which is sys.path, and the arguments of `clean_up_after_death`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any


class Guard:
    """A context around a launch or a build. `tell` adds to what the guard knows. If an exception leaves it, the
    guard first looks for processes that must be ended, since a signal may come just after the launcher started and
    before anybody knows of it."""

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
        self.tell(path=sys.path, **facts)

    def tell(self, **facts: Any) -> None:
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
    """Ends the marked processes when the process that started them is gone."""
    facts: dict[str, Any] = {}
    with suppress(json.JSONDecodeError):  # a line that was cut short
        for line in sys.stdin:
            facts |= json.loads(line)
    if facts:
        sys.path[:] = facts["path"]
        from nearfield.mpi.process import clean_up_after_death

        del facts["path"]
        clean_up_after_death(**facts)


if __name__ == "__main__":
    main()
