"""The steps of `nearfield demo`: detects their progress, runs each as a process, and describes its result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from types import FrameType

import typer

from nearfield.base import own_command
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, NearfieldError
from nearfield.base.units import counted
from nearfield.follow import lines_or_silence
from nearfield.ui.terminal import err

_FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StepProgress(Enum):
    """The progress that earlier runs of `nearfield demo` made with a step."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    COMPLETE = "complete"


def probe_progress(out: Path) -> StepProgress:
    """Returns the progress of the profile in the folder `out`."""
    from nearfield.measure.checkpoint import CheckpointFolder
    from nearfield.profile import load

    if (CheckpointFolder(out.resolve()).folder / "request.json").exists():
        return StepProgress.UNFINISHED
    try:
        return StepProgress.COMPLETE if load(out).run.complete else StepProgress.ABSENT
    except NearfieldError:
        return StepProgress.ABSENT


def tune_progress(out: Path) -> StepProgress:
    """Returns the progress of the rules in the profile's folder `out`."""
    from nearfield.tune.trial_log_file import TRIAL_LOG_SUFFIX

    rules = out / "rules.toml"
    if rules.with_name(rules.name + TRIAL_LOG_SUFFIX).exists():
        return StepProgress.UNFINISHED
    return StepProgress.COMPLETE if rules.exists() else StepProgress.ABSENT


def run_step(name: str, arguments: list[str]) -> int:
    """Runs a nearfield verb as a process. Returns its exit code. Forwards SIGINT and SIGTERM to the verb, waits until
    it has saved its data, and then exits."""
    from nearfield.mpi.tied import start_tied_process

    signals: list[int] = []
    err.print(f"[bold]{name}[/bold]")
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "nearfield", *arguments]
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, errors="replace") as lines,
        os.fdopen(writer, "w") as output,
        start_tied_process(command, env, None if err.is_terminal else output) as process,
    ):
        output.close()
        old = {number: signal.signal(number, _make_signal_forwarder(process, signals)) for number in _FORWARDED_SIGNALS}
        try:
            _print_lines(name, lines)
            code = process.wait()
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
    if signals:
        err.print(f"stopped; to continue: {own_command.command_line('demo', *sys.argv[2:])}", markup=False)
        raise typer.Exit(128 + signals[0])
    return code


def _make_signal_forwarder(
    process: subprocess.Popen[bytes], signals: list[int]
) -> Callable[[int, FrameType | None], None]:
    def pass_on(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if process.poll() is None:
            process.send_signal(number)

    return pass_on


def _print_lines(name: str, lines: Iterable[str]) -> None:
    """Prints the output lines of a step, and a line at intervals while the step is silent."""
    begun = time.monotonic()
    for line in lines_or_silence(lines):
        text = f"{name}: still running after {time.monotonic() - begun:.0f} s" if line is None else line
        err.print(text, markup=False)


def describe_profile(out: Path) -> str:
    """Returns a text on what was measured, and how much of it is stable."""
    from nearfield.profile import load
    from nearfield.profile.stability import MAX_UNSTABLE_SHARE, measured_times, unstable_share

    try:
        profile = load(out)
    except NearfieldError as error:
        return f"nothing: {error.message}"
    measured = f"{counted(profile.records.height, 'number')} of {profile.run.mpi.family} {profile.run.mpi.version}"
    lines = [measured]
    if measured_times(profile).height:
        unstable = unstable_share(profile)
        lines[0] += f", {1 - unstable:.0%} of its times stable"
        if unstable > MAX_UNSTABLE_SHARE:
            lines.append("so much moved meanwhile that hardly any number can be relied on")
    if failed := sum(launch.state == "failed" for launch in profile.run.launch):
        lines.append(f"{counted(failed, 'launch', 'launches')} failed, so some numbers are missing")
    return "; ".join(lines)


def describe_rules(rules: Path, code: int) -> str:
    """Returns a text on the result of the tune; `code` is its exit code."""
    from nearfield.rules.schema import load_rules

    if code == NOT_DECIDED_EXIT_CODE:
        return "not decided: the measurements do not carry a conclusion"
    try:
        found = load_rules(rules)
    except NearfieldError as error:
        return f"nothing: {error.message}"
    gains = [f"{rule.distance} {rule.gain.value:.2f}x" for rule in found.rule if rule.parameters and rule.gain]
    if gains:
        return f"messages become faster: {', '.join(gains)} ({rules})"
    return f"no settings that are significantly better than the MPI's own ({rules})"
