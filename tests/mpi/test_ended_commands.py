"""However a verb that starts a user's ranks is ended, do its ranks end, and are no files of theirs left?"""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runner import list_processes
from test_observe_mpi import compiled, wrapper
from tuning import NEARFIELD, rules_for, write

from nearfield import mpi
from nearfield.mpi import Installation, launch_command
from nearfield.observe.trace import STREAM_HEADER_BYTES

pytestmark = [pytest.mark.turn(1), pytest.mark.families]
VERBS = {
    "compare": ["compare", "--force"],
    "explain": ["run", "--explain", "--force"],
    "forecast": ["forecast"],
    "observe": ["observe"],
}
TERM, HUP, INT, KILL = signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL
OTHER = Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")
LONG_S = 60.0  # for what takes a second where nothing else runs


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.FORECAST_TARGET)
    mpi.build_target(inst, mpi.PROFILING_LAYER_TARGET)


def until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < end, f"not so after {LONG_S:.0f} s: {what}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("verb", "number"),
    [
        *(("compare", number) for number in (TERM, HUP, INT, KILL)),
        ("explain", TERM), ("forecast", HUP), ("forecast", INT), ("observe", TERM),
    ],
)  # fmt: skip
def test_ranks_end_with_their_verb(
    installation: Installation, programs: Path, tmp_path: Path, verb: str, number: signal.Signals
) -> None:
    """While its ranks exchange messages for good: after a signal to nearfield alone, as from a batch system, are they
    gone, with all session folders?"""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "endless.c", programs)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    argv, env = launch_command(installation, [str(program), str(tmp_path)], 2)
    words = [*VERBS[verb], *_files(verb, tmp_path), "--", *argv]
    started = subprocess.Popen(
        [*NEARFIELD, *words], env={**env, "TMPDIR": str(scratch)}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ranks() -> list[int]:
        return [process.pid for process in list_processes() if process.words[:2] == [str(program), str(tmp_path)]]

    until("both ranks run", lambda: len(list(tmp_path.glob("rank-*"))) == 2)
    started.send_signal(number)
    code = started.wait(LONG_S)
    if verb == "compare":  # of the others it is the launcher's own, which may be 0 in MPICH
        assert code == (-number if number == KILL else 128 + number)
    until("no rank is left", lambda: not ranks())
    until("no file is left", lambda: not list(scratch.iterdir()))


def test_a_signal_keeps_what_was_observed(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """If a signal ends the observation of a program whose regular calls take few bytes: is there a trace of both ranks
    with the calls until then?"""
    compiler = wrapper(installation, "c")
    assert compiler
    program = compiled(installation, compiler, "endless.c", programs)
    argv, env = launch_command(installation, [str(program), str(tmp_path), "2000"], 2)
    out = tmp_path / "out"
    started = subprocess.Popen(
        [*NEARFIELD, "observe", "--out", str(out), "--", *argv], env=env, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def recorded() -> bool:
        return len([file for file in out.glob("rank-*.nfs") if file.stat().st_size > STREAM_HEADER_BYTES]) == 2

    until("both ranks have written calls", recorded)
    started.send_signal(INT)
    started.wait(LONG_S)
    shown = subprocess.run([*NEARFIELD, "observe", "show", str(out), "--json"], capture_output=True, check=True)
    for rank in json.loads(shown.stdout)["ranks"]:
        assert sum(call["calls"] for call in rank["calls"] if call["name"] == "MPI_Sendrecv") > 10
    simulated = subprocess.run([*NEARFIELD, "simulate", "run", str(out)], capture_output=True, text=True)
    assert simulated.returncode == 4 and "ends where SIGINT ended the program" in simulated.stderr


def _files(verb: str, folder: Path) -> list[str]:
    """Returns the options that name files; rules that set a variable, whatever MPI it is of."""
    if verb in ("compare", "explain"):
        return ["--rules", str(write(folder, rules_for(OTHER, "ob1 / sm", {"eager_limit": 32768})))]
    return ["--out", str(folder / "out")] if verb == "observe" else []
