"""Follows the output of a long-running command and reports its progress at least every few seconds.

As a program, `follow.py LOG COMMAND...` runs a set-up command, summarises what pip, CMake and Ninja do in short lines,
and writes the command's complete output to the file LOG. It uses only the standard library, because the Makefile runs
it before nearfield is installed."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

MAX_SILENCE_S = 8.0  # seconds without output after which progress is reported anyway
REPORT_INTERVAL_S = 5.0  # between two progress reports
POLL_INTERVAL_S = 1.0  # between two checks whether a progress report is due
SHOWN_LOG_LINES = 30  # number of the log's last lines that are shown if set-up fails


def lines_or_silence(stream: Iterable[str], silent_s: float = MAX_SILENCE_S) -> Iterator[str | None]:
    """Yields each line of the stream as soon as a reader thread has read it, and None whenever no line arrived for
    `silent_s` seconds. Ends at the end of the stream."""
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


# Pattern of an output line of pip, CMake or Ninja -> the activity to report.
_ACTIVITIES = (
    (r"^\s*\[(\d+)/(\d+)\]", "compiling {} of {}"),
    (r"^\s*Collecting ([\w.-]+)", "looking for {}"),
    (r"^\s*Downloading (?:\S*/)?([\w.]+-[\w.]+)\S* \(([^)]*)\)", "downloading {} ({})"),
    (r"^\s*Installing build dependencies", "installing the build dependencies"),
    (r"^\s*Installing collected packages: (.{1,40})", "installing {} ..."),
    (r"^\s*(?:Building|Preparing)\b.*\b(?:editable|metadata)", "preparing the build"),
    (r"^-- (?:The|Detecting|Check)", "CMake looks at the compiler"),
)


def activity_of_line(line: str) -> str:
    """Returns the activity that an output line of pip, CMake or Ninja announces, as text for people; empty if the line
    announces none."""
    found = ((re.search(pattern, line), text) for pattern, text in _ACTIVITIES)
    return next((text.format(*match.groups()) for match, text in found if match), "")


def run_setup(
    command: list[str], log: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> int:
    """Runs the command, writes its output to `log`, and passes a progress report to `say` every few seconds. Returns
    the command's exit code. If the code is not 0, also reports the last lines of the output."""
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
