"""Finds what killed jobs left behind: files in /dev/shm, and session folders in the folders for temporary files.
Everything is judged by the files that a live job has open or mapped (file_use.py)."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from nearfield.base.owned_folder import OWNER_FILE_NAME
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.file_use import FileUse, claim_file, find_process_by_open_file
from nearfield.mpi.shm import SHM_FOLDER

MIN_STALE_AGE_S = 300.0  # files changed more recently may belong to a job that is starting
# maximum number of files in a session folder; all of them are open while the folder is judged
MAX_FILES_PER_FOLDER = 512
# A live job has at least one of these files open: Open MPI's launcher maps its topology and PMIx's data. A session
# folder without any of these may belong to a job that lives.
FILES_OF_LIVE_JOBS = (
    "hwloc.sm",
    "pmix-gds-shmem*",
    "*shared-segment-*",
    "smdataseg-*",
    "smlockseg-*",
    "dstore_sm.lock",
)
_OWN_FOLDER = re.compile(r"nearfield-[\w-]+")

LeftoverVerdict = Literal["stale", "in use", "young", "cannot tell", "not yours"]


@dataclass(frozen=True)
class Leftover:
    """A file or folder of a job, and whether it is stale."""

    path: Path
    made_by: str
    owner: int  # user id
    size_bytes: int  # allocated
    age_s: float  # since its last change
    verdict: LeftoverVerdict
    reason: str


def find_leftovers(
    folders: Iterable[Path] | None = None, shm: Path | None = None, *, remove: bool = False
) -> list[Leftover]:
    """Returns the files and folders of MPI jobs and of nearfield in /dev/shm and in the folders for temporary files,
    live or stale. With `remove`, removes the stale ones; no process can open them between the check and the removal. An
    entry that could not be removed gets the verdict "in use"."""
    found = list(_candidates(temporary_folders() if folders is None else folders, shm or SHM_FOLDER))
    users = find_process_by_open_file() if found else {}
    return [_judge_candidate(one, users, remove) for one in found]


def temporary_folders() -> list[Path]:
    """Returns the folders in which launchers make their session folders: /tmp, and that of TMPDIR."""
    return sorted({Path("/tmp").resolve(), Path(tempfile.gettempdir()).resolve()})


@dataclass(frozen=True)
class _LeftoverCandidate:
    path: Path
    made_by: str
    pid: int = 0  # of the launcher, if the name has it


def _candidates(folders: Iterable[Path], shm: Path) -> Iterator[_LeftoverCandidate]:
    families = FAMILIES.values()
    for path in _list_entries(shm):
        if makers := [one.summary for one in families if any(fnmatch(path.name, name) for name in one.shm_patterns)]:
            yield _LeftoverCandidate(path, makers[0] if len(makers) == 1 else path.name.partition("_")[0].upper())
    names = [(re.compile(name), family.summary) for family in families for name in family.temporary_patterns]
    for folder in folders:
        for path in _list_entries(folder):
            if path.is_dir() and _OWN_FOLDER.fullmatch(path.name):
                yield _LeftoverCandidate(path, "nearfield")
                continue
            for unit in [path, *(_list_entries(path) if re.fullmatch(r"ompi\.\S+\.\d+", path.name) else [])]:
                for name, maker in names:
                    if found := name.fullmatch(str(unit.relative_to(folder))):
                        yield _LeftoverCandidate(unit, maker, int(found.groupdict().get("pid") or 0))


def _list_entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.is_symlink())
    except OSError:
        return []


# ---- one file or folder


def _judge_candidate(candidate: _LeftoverCandidate, process_by_file: dict[str, int], removes_stale: bool) -> Leftover:
    owner, size_bytes, age_s = -1, 0, 0.0
    try:
        owner = candidate.path.lstat().st_uid
        if owner != os.geteuid():
            about = [candidate.path.lstat()]
            verdict: LeftoverVerdict = "not yours"
            reason = "it belongs to another user"
        else:
            parts = [candidate.path, *_list_tree(candidate.path)] if candidate.path.is_dir() else [candidate.path]
            about = [part.lstat() for part in parts]
            verdict, reason = _verdict(candidate, parts, about, process_by_file, removes_stale)
        size_bytes, age_s = 512 * sum(part.st_blocks for part in about), _age_s(about)
    except OSError as error:
        verdict, reason = "cannot tell", f"it cannot be read: {error.strerror}"
    return Leftover(candidate.path, candidate.made_by, owner, size_bytes, age_s, verdict, reason)


def _age_s(file_stats: Iterable[os.stat_result]) -> float:
    """Returns the time since the last change of any of these files."""
    return max(0.0, time.time() - max(part.st_mtime for part in file_stats))


def _verdict(
    candidate: _LeftoverCandidate,
    parts: list[Path],
    file_stats: list[os.stat_result],
    process_by_file: dict[str, int],
    removes_stale: bool,
) -> tuple[LeftoverVerdict, str]:
    """Returns the verdict on a file or folder of this user, and the reason. `parts` are the path itself and everything
    that is below it. With `removes_stale`, removes what is stale."""
    files = [part for part, status in zip(parts, file_stats, strict=True) if stat.S_ISREG(status.st_mode)]
    if any(status.st_uid != os.geteuid() for status in file_stats):
        return "cannot tell", "it has files of another user"
    if len(files) > MAX_FILES_PER_FOLDER:
        return "cannot tell", f"it has more than {MAX_FILES_PER_FOLDER} files"
    is_folder = stat.S_ISDIR(file_stats[0].st_mode)
    if not (is_folder or files):
        return "cannot tell", "it is neither a file nor a folder"
    with ExitStack() as stack:
        claims = [stack.enter_context(claim_file(file)) for file in files]
        if used := [file.path for file in claims if file.use is FileUse.IN_USE]:
            return "in use", _describe_user_process(candidate.path, used[0], process_by_file)
        if unknown := [file for file in claims if file.use is FileUse.UNKNOWN]:
            return "cannot tell", unknown[0].reason
        if is_folder and not _has_sign_of_life(candidate, files):
            return "cannot tell", "it has no file that a live job would have open"
        if why := _live_pid_reason(candidate.pid, min(status.st_mtime for status in file_stats)):
            return "cannot tell", why
        if _age_s(file_stats) < MIN_STALE_AGE_S:
            return "young", f"no process uses it, but it was changed less than {MIN_STALE_AGE_S / 60:.0f} min ago"
        if removes_stale and not (_remove_folder(candidate.path) if is_folder else claims[0].remove()):
            return "in use", "it changed while it was to be removed"
    what = f"any of its {len(files)} files" if is_folder else "it"
    return (
        "stale",
        f"no process of any namespace or user has {what} open or mapped{_describe_ended_process(candidate.pid)}",
    )


def _has_sign_of_life(candidate: _LeftoverCandidate, files: Iterable[Path]) -> bool:
    """Returns whether a folder has a file that a live job would have open."""
    if _OWN_FOLDER.fullmatch(candidate.path.name):
        return candidate.path / OWNER_FILE_NAME in files
    return any(fnmatch(file.name, name) for file in files for name in FILES_OF_LIVE_JOBS)


def _list_tree(folder: Path) -> list[Path]:
    """Returns everything below a folder. Raises OSError if a part of it cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    return [
        Path(root, name)
        for root, folders, files in os.walk(folder, onerror=fail, followlinks=False)
        for name in (*folders, *files)
    ]


def _remove_folder(path: Path) -> bool:
    """Removes a folder. Returns whether it did. Follows no symbolic links."""
    with suppress(OSError):
        shutil.rmtree(path)
    return not path.exists()


def _describe_user_process(path: Path, used_file: Path, process_by_file: dict[str, int]) -> str:
    what = "it" if used_file == path else used_file.name
    if pid := process_by_file.get(str(used_file)):
        with suppress(OSError):
            return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()}) has {what} open or mapped"
    return f"a process that is not visible here has {what} open or mapped"


# ---- the process that a name gives


def _process_exists(pid: int) -> bool:
    """Returns whether a process with this id exists in this PID namespace. hidepid does not hide it from kill()."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _live_pid_reason(pid: int, folder_time_s: float) -> str:
    """Returns the reason why the process named in a folder's name may still be alive; empty if it has ended, or if its
    process id now belongs to a process that started after the folder was created (at `folder_time_s`)."""
    if not pid or not _process_exists(pid):
        return ""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        boot = next(ln for ln in Path("/proc/stat").read_text(encoding="utf-8").splitlines() if ln.startswith("btime"))
    except (OSError, StopIteration):
        return f"there is a process {pid}, which cannot be inspected"
    started = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return "" if started > folder_time_s + 1 else f"process {pid}, which is in its name, is alive"


def _describe_ended_process(pid: int) -> str:
    return f"; process {pid} of its name has ended" if pid and not _process_exists(pid) else ""
