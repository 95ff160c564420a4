"""Do the processes of an MPI job simulate an observed program as one process does, under every MPI that mpi4py can load
here?"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from test_halo_python import mpi4py_on
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.base.errors import UsageError
from nearfield.cli import app
from nearfield.mpi import FinishedLaunch, Installation
from nearfield.profile import load

pytestmark = pytest.mark.turn(1)

OPTIONS = ("--policy", "payload-l3", "--nodes", "4", "--json")


def alone(trace: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "run", str(trace), *OPTIONS, *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def on_shards(inst: Installation, count: int, trace: Path, *options: str) -> tuple[FinishedLaunch, str]:
    """Returns how the job ended, and all that it printed."""
    argv = [sys.executable, "-m", "nearfield", "simulate", "run", str(trace), *OPTIONS, *options, "--mpi"]
    lines: list[str] = []

    def note(name: str, line: str) -> None:
        if name == "stdout":
            lines.append(f"{line}\n")

    done = mpi.run(inst, argv, count, oversubscribe=True, timeout_s=100, on_line=note, env=mpi4py_on(inst))
    return done, "".join(lines)


@pytest.mark.families
def test_the_number_of_shards_is_not_seen(installation: Installation, ring: Path, tmp_path: Path) -> None:
    """Is all that is printed, and the schedules, the same to the last byte on one, two and three shards, with threads,
    and with a run for each policy and speed; and does the first one alone print and save?"""
    variants: list[tuple[int, tuple[str, ...]]] = [
        (1, ()),
        (2, ("--threads", "2", "--goal", str(tmp_path / "app.goal"), "--timeline", str(tmp_path / "app.json"))),
        (3, ("--independent-runs", "--region", "pcontrol")),
    ]
    for count, options in variants:
        saved = ("-o", str(tmp_path / "profile")) if count == 3 else ()
        done, printed = on_shards(installation, count, ring, *options, *saved)
        assert done.exit_code == 0, done.stderr
        written = [file.read_bytes() for file in sorted(tmp_path.glob("app.*"))]
        assert printed == alone(ring, *options)
        assert written == [file.read_bytes() for file in sorted(tmp_path.glob("app.*"))]
    assert len(written) == 2
    assert load(tmp_path / "profile").records.height > 0


def test_an_error_of_one_shard_is_reported_once(ring: Path, tmp_path: Path) -> None:
    """Is a stream that is cut, on the last shard, what ends all? Are regions and nodes that are not there reported as
    one process reports them?"""
    inst = mpi.find_usable_mpis()[0]
    cut = tmp_path / "cut"
    shutil.copytree(ring, cut)
    stream = cut / "rank-3.nfs"
    stream.write_bytes(stream.read_bytes()[:500])
    mistakes: list[tuple[Path, tuple[str, ...], int, str]] = [
        (cut, (), 4, "rank-3.nfs: byte"),
        (ring, ("--region", "nowhere"), 2, "no region 'nowhere'"),
        (ring, ("--nodes", "2"), 2, "3 processes cannot share 2 nodes"),
    ]
    for trace, options, code, words in mistakes:
        done, printed = on_shards(inst, 3, trace, *options)
        assert (done.exit_code, printed) == (code, "")
        assert done.stderr.count("error: ") == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_without_mpi4py(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does --mpi say what to install?"""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    done: Any = CliRunner().invoke(app, ["simulate", "run", str(ring), "--mpi"])
    assert isinstance(done.exception, UsageError) and "pip install mpi4py" in done.exception.remedy
