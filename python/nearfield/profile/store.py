"""Saves and loads a profile: a folder that is either complete or absent.

`save` writes a new folder and swaps it with the old one by renaming, so that a full disk, a crash or Ctrl-C leaves the
old profile unchanged. If two programs save to the same path at the same time, the last one wins."""

from __future__ import annotations

import errno
import hashlib
import inspect
import io
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import read_user_file
from nearfield.base.frames import pl
from nearfield.base.toml import SCHEMA_VERSION, dump_toml, parse_toml
from nearfield.base.units import format_bytes
from nearfield.profile.records import check_records
from nearfield.profile.schema import Machine, Run

MACHINE_FILE, TOPOLOGY_FILE, RECORDS_FILE, RUN_FILE = "machine.toml", "topology.xml", "records.parquet", "run.toml"
PROFILE_FILES = (MACHINE_FILE, TOPOLOGY_FILE, RECORDS_FILE, RUN_FILE)
DEFAULT_PROFILE_NAME = "nearfield-profile"
_OUTPUT_OPTIONS_PATTERN = (
    # Pattern of options that name the output, quoted as by shlex.
    r" (--resume|--overwrite|(--out|-o)[ =]('[^']*'|\S)+)"
)
_SCHEMA_VERSION_KEY = "nearfield_schema_version"


@dataclass(frozen=True, repr=False, eq=False)
class Profile:
    """The results for one machine and one MPI. docs/reference/profile.md describes `records`."""

    path: Path
    machine: Machine
    run: Run
    records: pl.DataFrame
    topology_xml: str

    @property
    def completed_by(self) -> str:
        """Returns the command that resumes this interrupted run."""
        program, _, arguments = self.run.command.partition(" ")
        if program == "nearfield" and arguments.startswith("simulate"):
            return f"{own_command.own_executable()} {arguments}"
        return own_command.command_line("probe", "--resume", "--out", self.path)

    @property
    def measured_by(self) -> str:
        """Returns the command that measures this profile again from the beginning and replaces it."""
        arguments = re.sub(_OUTPUT_OPTIONS_PATTERN, "", self.run.command).partition(" ")[2]
        options = shlex.join(["--overwrite", "--out", str(self.path.resolve())])
        return f"{own_command.own_executable()} {arguments} {options}"

    def __repr__(self) -> str:
        state = "" if self.run.complete else ", incomplete"
        return (
            f"Profile('{self.path}': {self.machine.name}, {self.run.mpi.name}, "
            f"{self.records.height} records, {self.run.tier}{state})"
        )


def load(path: str | Path) -> Profile:
    """Reads and checks a profile. Raises ProfileError with the invalid file, the error and a remedy."""
    folder = Path(path)
    try:
        _require_profile(folder)
    except OSError as error:
        raise ProfileError(f"cannot read '{folder}': {error.strerror}") from error
    machine = parse_toml(Machine, _read_profile_file(folder / MACHINE_FILE), folder / MACHINE_FILE)
    run = parse_toml(Run, _read_profile_file(folder / RUN_FILE), folder / RUN_FILE)
    records = _parse_records(_read_profile_file(folder / RECORDS_FILE), folder / RECORDS_FILE, run.records_sha256)
    topology_xml = _read_profile_file(folder / TOPOLOGY_FILE).decode("utf-8", errors="replace")
    if "<topology" not in topology_xml:
        raise ProfileError(f"{folder / TOPOLOGY_FILE}: this is not a topology that hwloc wrote", _MEASURE_AGAIN_REMEDY)
    return Profile(folder, machine, run, records, topology_xml)


def save(
    path: str | Path,
    *,
    machine: Machine,
    topology_xml: str,
    run: Run,
    records: pl.DataFrame,
    overwrite: bool = False,
) -> Profile:
    """Writes a profile atomically, and returns the profile as `load` would.

    With `overwrite`, replaces the four files of an existing profile; other files in its folder stay. Raises
    ProfileError if the folder has other contents, if a record is invalid (records.check_records), or if the folder
    cannot be written; the existing profile is then unchanged."""
    folder = ensure_writable(path, overwrite=overwrite)
    records = check_records(records)
    table = _format_records(records)
    run = run.model_copy(update={"records_sha256": hashlib.sha256(table).hexdigest()})
    contents = {
        MACHINE_FILE: dump_toml(machine, "The machine that this profile was measured on."),
        TOPOLOGY_FILE: topology_xml.encode(),
        RECORDS_FILE: table,
        RUN_FILE: dump_toml(run, "Origin of the records of this profile."),
    }
    with _explain_write_errors(folder), _temporary_sibling(folder, "new") as new:
        for name, content in contents.items():
            _write_new_file(new / name, content)
        if folder.exists():
            _link_other_files(folder, new)
        _replace_folder(new, folder)
    return Profile(Path(path), machine, run, records, topology_xml)


def ensure_writable(
    path: str | Path, *, overwrite: bool = False, remedy: str = "Give another name, or --overwrite it."
) -> Path:
    """Returns the folder behind `path` with symbolic links resolved. Raises ProfileError if `save` could not write
    there now, so that the user learns of the error before a long measurement. `remedy` is the advice in the error
    message if a profile exists there. Creates missing parent folders only."""
    folder = Path(path).resolve()
    with _explain_write_errors(folder):
        _require_overwritable(folder, path, overwrite, remedy)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_sibling(folder, "new") as new:
            _write_new_file(new / MACHINE_FILE, bytes(4096))
    return folder


def find_profile(path: str | Path | None = None) -> Path:
    """Returns `path` if given; otherwise ./nearfield-profile; otherwise the only profile in the current folder. Raises
    UsageError if there is none, or several."""
    if path is not None:
        return Path(path)
    if Path(DEFAULT_PROFILE_NAME).is_dir():
        return Path(DEFAULT_PROFILE_NAME)
    folders = sorted(p.parent for p in Path().glob(f"*/{RECORDS_FILE}") if (p.parent / RUN_FILE).exists())
    if not folders:
        raise UsageError(
            "there is no profile in this folder",
            f"Name one, or measure one: {own_command.command_line('probe', '--quick')}",
        )
    if len(folders) > 1:
        raise UsageError(f"there are several profiles here: {', '.join(map(str, folders))}", "Name one of them.")
    return folders[0]


# ---- reading a profile

_MEASURE_AGAIN_REMEDY = f"Restore the folder from a copy, or measure it again with: {own_command.command_line('probe')}"


def _require_profile(folder: Path) -> None:
    if not folder.exists():
        raise ProfileError(
            f"there is no profile '{folder}'", f"Measure one: {own_command.command_line('probe', '--out', folder)}"
        )
    if not folder.is_dir():
        raise ProfileError(f"'{folder}' is a file, and a profile is a folder", "Give the folder that holds run.toml.")
    missing = [name for name in PROFILE_FILES if not (folder / name).exists()]
    if len(missing) == len(PROFILE_FILES):
        raise ProfileError(
            f"'{folder}' is not a profile: it has no {', '.join(PROFILE_FILES)}", "Give a profile's folder."
        )
    if missing:
        raise ProfileError(
            f"the profile '{folder}' is not whole: {', '.join(missing)} is missing", _MEASURE_AGAIN_REMEDY
        )


def _read_profile_file(path: Path) -> bytes:
    try:
        return read_user_file(path)
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}") from error


def _parse_records(table: bytes, path: Path, sha256: str | None) -> pl.DataFrame:
    """Returns the records of a Parquet file. Verifies the checksum before decoding, because a flipped bit may decode to
    another number."""
    if not (table.startswith(b"PAR1") and table.endswith(b"PAR1")):
        cause = "is empty" if not table else "is cut off" if table.startswith(b"PAR1") else "is not a Parquet file"
        raise ProfileError(f"{path} {cause}", _MEASURE_AGAIN_REMEDY)
    if sha256 is not None and hashlib.sha256(table).hexdigest() != sha256:
        raise ProfileError(
            f"{path} is damaged or from another run: its checksum is not the one in {RUN_FILE}", _MEASURE_AGAIN_REMEDY
        )
    try:
        return check_records(pl.read_parquet(io.BytesIO(table)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ProfileError(f"{path} is damaged: {str(error).splitlines()[0]}", _MEASURE_AGAIN_REMEDY) from error
    except ProfileError as error:
        raise ProfileError(f"{path}: {error.message}", error.remedy or _MEASURE_AGAIN_REMEDY) from error


# ---- writing a profile


def _require_overwritable(folder: Path, path: str | Path, overwrite: bool, remedy: str) -> None:
    if folder.exists() and not folder.is_dir():
        raise ProfileError(f"'{path}' is a file, and a profile is a folder", "Give another name.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not any((folder / name).exists() for name in (MACHINE_FILE, RECORDS_FILE, RUN_FILE)):
        raise ProfileError(f"'{path}' holds something that is not a profile", "Give a name that does not exist yet.")
    if not overwrite:
        raise ProfileError(f"there is a profile in '{path}' already", remedy)


def _format_records(records: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    options: dict[str, Any] = {}
    # The schema version, for programs that read only this file; polars writes metadata since version 1.25.
    if "metadata" in inspect.signature(records.write_parquet).parameters:
        options["metadata"] = {_SCHEMA_VERSION_KEY: str(SCHEMA_VERSION)}
    records.write_parquet(buffer, **options)
    return buffer.getvalue()


def _write_new_file(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _temporary_sibling(folder: Path, role: str) -> Iterator[Path]:
    """Yields a new folder next to `folder`, on the same file system. Removes the new folder at the end if it still
    exists."""
    sibling = folder.parent / f".{folder.name}.{role}-{uuid.uuid4().hex[:8]}"
    sibling.mkdir()
    try:
        yield sibling
    finally:
        shutil.rmtree(sibling, ignore_errors=True)


def _link_other_files(old_folder: Path, new_folder: Path) -> None:
    """Hard-links into the new folder all files of the old folder that are not part of a profile, so that they exist at
    all times."""
    for entry in old_folder.iterdir():
        if entry.name in PROFILE_FILES:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new_folder / entry.name, symlinks=True, copy_function=_hard_link_or_copy)
        else:
            _hard_link_or_copy(entry, new_folder / entry.name)


def _hard_link_or_copy(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # the file system has no hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _replace_folder(new_folder: Path, folder: Path) -> None:
    """Replaces `folder` by `new_folder` with two renames. If the second rename fails or is interrupted by Ctrl-C, the
    first is undone."""
    if not folder.exists():
        new_folder.rename(folder)
        return
    old_folder = new_folder.with_name(new_folder.name.replace(".new-", ".old-"))
    folder.rename(old_folder)
    try:
        new_folder.rename(folder)
    except BaseException:
        old_folder.rename(folder)
        raise
    shutil.rmtree(old_folder, ignore_errors=True)


@contextmanager
def _explain_write_errors(folder: Path) -> Iterator[None]:
    """Converts an OSError in the block to a ProfileError with the folder and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ProfileError(
                f"cannot write the profile {folder}: {os.strerror(error.errno).lower()} ({_free_space_text(folder)})",
                "Make room there, or give another place with --out.",
            ) from error
        cause = error.strerror or str(error)
        raise ProfileError(
            f"cannot write the profile {folder}: {cause}", "Give a place where you may write with --out."
        ) from error


def _free_space_text(folder: Path) -> str:
    """Returns the free space of the file system of `folder` as human-readable text."""
    place = next(p for p in (folder, *folder.parents) if p.is_dir())
    return f"{format_bytes(shutil.disk_usage(place).free, digits=3)} free in {place}"
