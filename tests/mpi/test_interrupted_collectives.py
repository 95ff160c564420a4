"""Does an interrupted tune of collectives go on after the launches that were finished?"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.tune.launch_log import LAUNCH_LOG_SUFFIX, NATIVE_LAUNCH_LOG_SUFFIX

LIMIT_S = 90
TUNE = [sys.executable, "-m", "nearfield", "tune", "--collectives", "--sizes", "8", "--budget", "600"]


class Tune:
    """A tune of collectives whose output goes into a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.output = folder / "output"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [*TUNE, "-o", str(folder / "rules.toml"), *options], stdout=file, stderr=file
            )

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def interrupt(self) -> str:
        """Presses Ctrl-C. Returns all that was said."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(LIMIT_S) == 130, self.said()
        return self.said()

    def said(self) -> str:
        return " ".join(self.output.read_text(errors="replace").split())

    def __enter__(self) -> "Tune":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(LIMIT_S)


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        pytest.param([], LAUNCH_LOG_SUFFIX, id="own", marks=pytest.mark.turn(0)),
        pytest.param(["--native"], NATIVE_LAUNCH_LOG_SUFFIX, id="native", marks=pytest.mark.turn(1)),
    ],
)
def test_it_goes_on_after_finished_launches(tmp_path: Path, options: list[str], suffix: str) -> None:
    """After Ctrl-C, are finished launches in the file that the message names; does the same command use them, with
    --resume and without; and does --overwrite discard them?"""
    log = tmp_path / f"rules.toml{suffix}"
    options = [*options, "--mpi", mpi.choose_mpi(None).name]
    with Tune(tmp_path, *options) as tune:
        tune.until(lambda: log.exists() and log.read_bytes().endswith(b"\n"))
        assert "the same command" in tune.interrupt()
    for more in ([], ["--resume"]):
        launches = len(log.read_text().splitlines())
        with Tune(tmp_path, *options, *more) as tune:
            tune.until(lambda tune=tune, launches=launches: f"continues after {launches} launch" in tune.said())
    with Tune(tmp_path, *options, "--overwrite") as tune:
        tune.until(lambda tune=tune: "operations and lengths" in tune.said() or "algorithms of its own" in tune.said())
        assert "continues after" not in tune.said()


@pytest.mark.parametrize("options", [[], ["--native"]], ids=["own", "native"])
def test_nothing_to_resume_is_an_error(tmp_path: Path, options: list[str]) -> None:
    """Is --resume without an interrupted tune an error that says so, and leaves no file?"""
    done = subprocess.run(
        [*TUNE, "--resume", "-o", str(tmp_path / "rules.toml"), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 2 and "there is nothing to resume" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
