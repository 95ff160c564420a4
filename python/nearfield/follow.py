"""Follows the output of a command that takes long, so that whoever waits hears of it at least every few seconds.

Run as a program, `follow.py LOG COMMAND...` runs a command of set-up: it says in short lines what pip and the compilers
do, and keeps all that they write in the file LOG. It needs nothing but Python, since the Makefile sets nearfield up
with it.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

MAX_SILENCE_S = 8.0  # after this number of seconds without a line something is said
REPORT_INTERVAL_S = 5.0  # between two lines about how far set-up is
POLL_INTERVAL_S = 1.0  # between two looks whether something is to be said
SHOWN_LOG_LINES = 30  # of a log, shown if set-up fails


def lines_or_silence(stream: Iterable[str], silent_s: float = MAX_SILENCE_S) -> Iterator[str | None]:
    """Yields each line of the stream as soon as it is there, and None when none came for `silent_s`. Ends with
    the stream."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=silent_s)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


# Patterns of the lines that pip, CMake and Ninja write -> what they are doing.
_ACTIVITIES = (
    (r"^\s*\[(\d+)/(\d+)\]", "compiling {} of {}"),
    (r"^\s*Collecting ([\w.-]+)", "looking for {}"),
    (r"^\s*Downloading (?:\S*/)?([\w.]+-[\w.]+)\S* \(([^)]*)\)", "downloading {} ({})"),
    (r"^\s*Installing build dependencies", "installing what the build needs"),
    (r"^\s*Installing collected packages: (.{1,40})", "installing {} ..."),
    (r"^\s*(?:Building|Preparing)\b.*\b(?:editable|metadata)", "preparing the build"),
    (r"^-- (?:The|Detecting|Check)", "CMake looks at the compiler"),
)


def activity_of_line(line: str) -> str:
    """Returns what a line of pip, CMake or Ninja says that is being done; empty if it says nothing of the kind."""
    found = ((re.search(pattern, line), text) for pattern, text in _ACTIVITIES)
    return next((text.format(*match.groups()) for match, text in found if match), "")


def run_setup(
    command: list[str], log: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> int:
    """Runs the command, says every few seconds what it does, and returns its exit code. If that is not 0, it says the
    last lines that the command wrote."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begun = reported_at = clock()
    now = reported = "starting"
    with (
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
        ) as process,
    ):  # fmt: skip
        assert process.stdout
        for line in lines_or_silence(process.stdout, POLL_INTERVAL_S):
            if line is not None:
                log_file.write(line + "\n")
                now = activity_of_line(line) or now
            if clock() - reported_at >= (REPORT_INTERVAL_S if now != reported else MAX_SILENCE_S):
                say(f"  {now} ({clock() - begun:.0f} s)")
                reported, reported_at = now, clock()
    if process.returncode:
        last = log.read_text(encoding="utf-8").splitlines()[-SHOWN_LOG_LINES:]
        say(
            "\n".join([*last, f"error: set-up failed with exit code {process.returncode}; all that was written: {log}"])
        )
    return process.returncode


if __name__ == "__main__":
    try:
        sys.exit(run_setup(sys.argv[2:], Path(sys.argv[1]), lambda text: print(text, flush=True)))
    except KeyboardInterrupt:
        sys.exit(130)
