"""Is a value in the disk cache exactly as long as the files that it depends on stay as they are?"""

import os
from pathlib import Path

import pytest

from nearfield.base import disk_cache
from nearfield.base.errors import UsageError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "file"
    file.write_text("1")
    return file


def test_a_value_is_stored(file: Path) -> None:
    disk_cache.store_value("namespace", ["key", 1], {"a": [1]}, [file])
    assert disk_cache.get_value("namespace", ["key", 1]) == {"a": [1]}
    assert disk_cache.get_value("namespace", ["key", 2]) is None
    assert disk_cache.get_value("other", ["key", 1]) is None


@pytest.mark.parametrize("change", ["content", "time", "absence", "another"])
def test_a_changed_file_drops_the_value(file: Path, change: str) -> None:
    """Is a value dropped whether its file was written, touched, removed or replaced?"""
    disk_cache.store_value("namespace", "key", "value", [file])
    if change == "content":
        file.write_text("22")
    if change == "time":
        os.utime(file, ns=(1, 1))
    if change == "absence":
        file.unlink()
    if change == "another":
        other = file.with_name("other")
        other.write_text("2")
        os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
        other.replace(file)
    assert disk_cache.get_value("namespace", "key") is None


def test_a_damaged_entry_is_no_value(file: Path, tmp_path: Path) -> None:
    disk_cache.store_value("namespace", "key", "value", [file])
    (entry,) = (tmp_path / "cache/values").iterdir()
    for damage in ("", "[]", "{}", entry.read_text()[:20], '{"key": "\\"question\\"", "files": 3}'):
        entry.write_text(damage)
        assert disk_cache.get_value("namespace", "key") is None


def test_a_folder_that_cannot_be_written_is_no_harm(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFIELD_CACHE", str(file / "below a file"))
    disk_cache.store_value("namespace", "key", "value", [file])
    assert disk_cache.get_value("namespace", "key") is None


def test_the_oldest_entries_are_removed(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "MAX_ENTRIES", 3)
    for number in range(10):
        disk_cache.store_value("namespace", number, f"answer {number}")
    assert len(list((tmp_path / "cache/values").iterdir())) <= 6
    assert disk_cache.get_value("namespace", 9) == "answer 9"


def test_no_home_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does a user without HOME, whom the system does not know, read what to set?"""
    for name in ("NEARFIELD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(UsageError, match="set HOME, or NEARFIELD_CACHE"):
        disk_cache.cache_root()
