"""Runs of a program that tell what it took: bench/resources.c."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nearfield.base.errors import MeasurementError
from support.launches import compile_c

LIMIT_S = 300.0


class Used(NamedTuple):
    """What one run took: wall-clock time, processor time, page faults, peak resident memory, and what it printed."""

    seconds: float
    cpu_seconds: float
    faults: int
    peak_kib: int
    printed: str


def run_measured(
    command: Sequence[str], environment: Mapping[str, str], scratch: Path, stdin: Path = Path(os.devnull)
) -> Used:
    """Runs a command to its end with these variables added. `scratch` is its working folder. MeasurementError if it
    fails or does not end."""
    runner, took = scratch / "resources", scratch / "took"
    if not runner.exists():
        compile_c(Path(__file__).parents[1] / "resources.c", runner, ["cc"])
    settings = [f"{name}={value}" for name, value in environment.items()]
    shown = " ".join(["env", *settings, *command])
    with stdin.open() as file:
        try:
            done = subprocess.run(
                [str(runner), str(took), *settings, "--", *command],
                stdin=file, capture_output=True, text=True, timeout=LIMIT_S, cwd=scratch,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"does not end within {LIMIT_S:.0f} s: {shown}") from error
    if done.returncode != 0:
        raise MeasurementError(f"could not be started: {shown}", done.stderr[-300:])
    seconds, cpu_seconds, faults, kib, status = took.read_text().split()
    if status != "0":
        raise MeasurementError(f"ends with {status}: {shown}", (done.stderr or done.stdout)[-300:])
    return Used(float(seconds), float(cpu_seconds), int(faults), int(kib), done.stdout + done.stderr)
