"""Is every damaged file, of every kind that nearfield reads, taken or refused in words, without a crash or a hang?

A few files with fixed seeds; tests/fuzz_readers.py damages as many as one likes. Readers that start programs or parse C
are left to it, since each file takes them long.
"""

import shutil
from pathlib import Path

import pytest
import reader_worker
from mutations import PLACES, put_in_place
from reader import DATA
from reader_worker import fuzz
from readers import FAILING, READERS

from nearfield import load
from nearfield.base.errors import ProfileError

SLOW = (
    "machine",
    "topology",
    "topology-of-profile",
    "observed-traces",
    "compile-commands",
    "sources",
    "reproductions",
    "variables",
)


@pytest.mark.parametrize("name", [name for name in READERS if name not in SLOW])
def test_damaged_files_are_taken_or_refused(name: str, tmp_path: Path) -> None:
    tally = fuzz(name, range(12), tmp_path / name)
    assert not tally.bad, [(one.number, one.outcome, one.details) for one in tally.bad]
    assert tally.counts.total() == 12


def test_failures_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does the tool see exceptions, crashes, hangs and what is left behind, and does it keep their files?"""
    monkeypatch.setattr(reader_worker, "LIMIT_S", 3)
    found = fuzz(FAILING.name, range(4), tmp_path / "f", tmp_path / "kept").bad
    assert [one.outcome for one in found] == ["uncaught", "crash", "hang", "litter"]
    assert {folder.name for folder in (tmp_path / "kept").iterdir()} == {f"failing-{number}" for number in range(4)}


@pytest.mark.parametrize("kind", PLACES)
def test_what_stands_in_the_place_of_records_is_refused(kind: str, tmp_path: Path) -> None:
    """Is a profile refused, and nothing waited for, whatever stands where its records should be?"""
    shutil.copytree(DATA / "epyc-vm-quiet", tmp_path / "p")
    put_in_place(kind, tmp_path / "p" / "records.parquet")
    with pytest.raises(ProfileError):
        load(tmp_path / "p")
