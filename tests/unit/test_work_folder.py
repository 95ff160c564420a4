"""Is the folder of an unfinished probe nobody else's, and is what lies there believed only where it can be?"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.base.journal import Journal
from nearfield.measure.checkpoint import CheckpointFolder
from nearfield.measure.request import Request
from nearfield.measure.sim.store import RecordStore
from nearfield.reproduce.session import open_record_store

REQUEST = Request(tier="quick", sizes=(8, 64), scenarios=("floor",), mpi="openmpi", command="nearfield probe")


def test_the_request_is_read_again(tmp_path: Path) -> None:
    work = CheckpointFolder(tmp_path / "p")
    with work.lock_with_request(REQUEST, is_new=True):
        work.write_spent_seconds({"total": 2.5})
    assert (work.read_request(), work.read_spent_seconds()) == (REQUEST, {"total": 2.5})


@pytest.mark.parametrize(
    "request_text",
    ["", "[1]", "\0", '{"tier": 5}', '{"tier": "slow"}', '{"sizes": ["8"]}', '{"sizes": [0]}', '{"created": "soon"}',
     '{"budget_s": {}}', '{"scenarios": "floor"}', '{"scenarios": [[]]}', '{"mpi": 1}'],
)  # fmt: skip
def test_a_damaged_request_is_an_error_that_says_so(tmp_path: Path, request_text: str) -> None:
    work = CheckpointFolder(tmp_path / "p")
    work.folder.mkdir(mode=0o700)
    (work.folder / "request.json").write_text(request_text)
    with pytest.raises(NearfieldError):
        work.read_request()


@pytest.mark.parametrize("spent", ["[]", '{"total": []}', '{"total": -1}', '{"total": NaN}', "{"])
def test_damaged_seconds_are_none(tmp_path: Path, spent: str) -> None:
    work = CheckpointFolder(tmp_path / "p")
    work.folder.mkdir(mode=0o700)
    (work.folder / "spent.json").write_text(spent)
    assert work.read_spent_seconds() == {}


@pytest.mark.parametrize("damage", ["17", "[1, 2]", '["mark", 3]', '["mark", [["time", "ns", "", "9"]]]', '["ma', "\0"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_damaged_cases_are_skipped(tmp_path: Path, damage: str, end: str) -> None:
    """Do the cases before and after damage count, also where a crash cut the last line and more is appended?"""
    row = {"scenario": "load", "metric": "time", "unit": "ns", "source": "sim", "distance": None, "side": None,
           "value": 9.0, "low": 9.0, "high": 9.0, "n": 1, "stable": True, "note": None, "size_bytes": 8}  # fmt: skip
    good, later = (json.dumps(["mark", [{**row, "size_bytes": size}]]) for size in (8, 16))
    journal = tmp_path / "simulated.jsonl"
    journal.write_text(f"{good}\n{damage}{end}")
    for expected in ([row], [row, {**row, "size_bytes": 16}]):
        with Journal(journal, "").open_locked(UsageError("busy")) as opened:
            assert RecordStore(opened).records_of_other_cases([]) == expected
            opened.append_line(later.encode())
    assert journal.read_text() == f"{good}\n{damage}\n{later}\n{later}\n"


def test_a_journal_is_open_once(tmp_path: Path) -> None:
    """Is a second reproduction into a folder refused while the first one is at work?"""
    out = tmp_path / "out"
    with open_record_store(out), pytest.raises(UsageError, match="another reproduction"), open_record_store(out):
        pass
    with open_record_store(out):
        pass


def test_a_folder_of_ours_is_for_nobody_else(tmp_path: Path) -> None:
    """While measuring; and may whoever reads the profile read its samples, too?"""
    work = CheckpointFolder(tmp_path / "p")
    with work.lock_with_request(REQUEST, is_new=True):
        assert work.folder.stat().st_mode & 0o777 == 0o700
        (work.folder / "a.jsonl").touch()
        (tmp_path / "p").mkdir()
        work.remove_or_move_samples(tmp_path / "p" / "samples")
    assert [file.name for file in (tmp_path / "p" / "samples").iterdir()] == ["a.jsonl"]
    assert (tmp_path / "p" / "samples").stat().st_mode == (tmp_path / "p").stat().st_mode


@pytest.mark.parametrize("trap", ["open to all", "a link", "of another user"])
def test_what_somebody_else_has_prepared_is_refused(tmp_path: Path, trap: str) -> None:
    """Where others may write, is a folder that lies in wait left as it is, and its request not read?"""
    work, target = CheckpointFolder(tmp_path / "p"), tmp_path / "target"
    target.mkdir(mode=0o700)
    if trap == "a link":
        work.folder.symlink_to(target)
    else:
        work.folder.mkdir(mode=0o700)
        (work.folder / "request.json").write_text("{}")
    if trap == "open to all":
        work.folder.chmod(0o777)
    if trap == "of another user":
        if os.geteuid() != 0:
            pytest.skip("giving a folder away needs root")
        os.chown(work.folder, 12345, 12345)
    with pytest.raises(ProfileError, match="only you may write"):
        work.read_request()
    with pytest.raises(ProfileError, match="only you may write"), work.lock_with_request(REQUEST, is_new=True):
        pass
    assert not list(target.iterdir())


def test_a_folder_that_goes_while_measuring_is_an_error(tmp_path: Path) -> None:
    work = CheckpointFolder(tmp_path / "p")
    with (
        pytest.raises(ProfileError, match="was removed while the probe wrote"),
        work.lock_with_request(REQUEST, is_new=True),
    ):
        shutil.rmtree(work.folder)
        (work.folder / "a.jsonl").read_text()


def test_a_folder_is_held_once_and_by_no_link(tmp_path: Path) -> None:
    """Is a folder that is held refused to another, and a lock that is a link to elsewhere refused to all?"""
    work = CheckpointFolder(tmp_path / "p")
    with work.lock_with_request(REQUEST, is_new=True):
        lock = work.folder / "lock"
        assert lock.stat().st_mode & 0o777 == 0o600
        script = f"from filelock import FileLock; FileLock({str(lock)!r}).acquire(timeout=0)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert "Timeout" in done.stderr
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProfileError), work.lock_with_request(REQUEST, is_new=True):
        pass
    assert not (tmp_path / "elsewhere").exists()
