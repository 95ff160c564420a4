"""Finds what jobs left behind that were killed: files in /dev/shm, and session folders in the folders for temporary
files. Everything is judged by the files that a live job has open or mapped (file_use.py)."""

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

from nearfield.base.owned_folder import OWNER
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.file_use import Use, claim, visible_users
from nearfield.mpi.shm import SHM

MIN_AGE_S = 300.0  # what was changed later may belong to a job that is starting
MAX_FILES = 512  # of a folder; all of them are open while it is judged
# Files of which a live job has at least one open: Open MPI's launcher maps its topology and PMIx's data. A session
# folder without any of these may belong to a job that lives.
SIGNS_OF_LIFE = ("hwloc.sm", "pmix-gds-shmem*", "*shared-segment-*", "smdataseg-*", "smlockseg-*", "dstore_sm.lock")
_OWN_FOLDER = re.compile(r"nearfield-[\w-]+")

Verdict = Literal["stale", "in use", "young", "cannot tell", "not yours"]


@dataclass(frozen=True)
class Leftover:
    """A file or folder of a job, and whether it is stale."""

    path: Path
    made_by: str
    owner: int  # user id
    size_bytes: int  # allocated
    age_s: float  # since its last change
    verdict: Verdict
    reason: str


def find_leftovers(
    folders: Iterable[Path] | None = None, shm: Path | None = None, *, remove: bool = False
) -> list[Leftover]:
    """Returns the files and folders of MPI jobs and of nearfield in /dev/shm and in the folders for temporary files,
    live or stale. With `remove`, removes what is stale: nobody can begin to use it between the judgement and the
    removal. What could not be removed is "in use" then."""
    found = list(_candidates(temporary_folders() if folders is None else folders, shm or SHM))
    users = visible_users() if found else {}
    return [_judge(one, users, remove) for one in found]


def temporary_folders() -> list[Path]:
    """Returns the folders in which launchers make their session folders: /tmp, and that of TMPDIR."""
    return sorted({Path("/tmp").resolve(), Path(tempfile.gettempdir()).resolve()})


@dataclass(frozen=True)
class _Candidate:
    path: Path
    made_by: str
    pid: int = 0  # of the launcher, if the name has it


def _candidates(folders: Iterable[Path], shm: Path) -> Iterator[_Candidate]:
    families = FAMILIES.values()
    for path in _entries(shm):
        if makers := [one.summary for one in families if any(fnmatch(path.name, name) for name in one.shm_names)]:
            yield _Candidate(path, makers[0] if len(makers) == 1 else path.name.partition("_")[0].upper())
    names = [(re.compile(name), family.summary) for family in families for name in family.temporary_names]
    for folder in folders:
        for path in _entries(folder):
            if path.is_dir() and _OWN_FOLDER.fullmatch(path.name):
                yield _Candidate(path, "nearfield")
                continue
            for unit in [path, *(_entries(path) if re.fullmatch(r"ompi\.\S+\.\d+", path.name) else [])]:
                for name, maker in names:
                    if found := name.fullmatch(str(unit.relative_to(folder))):
                        yield _Candidate(unit, maker, int(found.groupdict().get("pid") or 0))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.is_symlink())
    except OSError:
        return []


# ---- one file or folder


def _judge(one: _Candidate, users: dict[str, int], remove: bool) -> Leftover:
    owner, size_bytes, age_s = -1, 0, 0.0
    try:
        owner = one.path.lstat().st_uid
        if owner != os.geteuid():
            about = [one.path.lstat()]
            verdict: Verdict = "not yours"
            reason = "it belongs to another user"
        else:
            parts = [one.path, *_tree(one.path)] if one.path.is_dir() else [one.path]
            about = [part.lstat() for part in parts]
            verdict, reason = _verdict(one, parts, about, users, remove)
        size_bytes, age_s = 512 * sum(part.st_blocks for part in about), _age_s(about)
    except OSError as error:
        verdict, reason = "cannot tell", f"it cannot be read: {error.strerror}"
    return Leftover(one.path, one.made_by, owner, size_bytes, age_s, verdict, reason)


def _age_s(about: Iterable[os.stat_result]) -> float:
    """Returns the time since the last change of any of these files."""
    return max(0.0, time.time() - max(part.st_mtime for part in about))


def _verdict(
    one: _Candidate, parts: list[Path], about: list[os.stat_result], users: dict[str, int], remove: bool
) -> tuple[Verdict, str]:
    """Returns the verdict on a file or folder of this user, and the reason. `parts` are the path itself and all that is
    below it. With `remove`, removes what is stale."""
    files = [part for part, status in zip(parts, about, strict=True) if stat.S_ISREG(status.st_mode)]
    if any(status.st_uid != os.geteuid() for status in about):
        return "cannot tell", "it has files of another user"
    if len(files) > MAX_FILES:
        return "cannot tell", f"it has more than {MAX_FILES} files"
    is_folder = stat.S_ISDIR(about[0].st_mode)
    if not (is_folder or files):
        return "cannot tell", "it is neither a file nor a folder"
    with ExitStack() as stack:
        claims = [stack.enter_context(claim(file)) for file in files]
        if used := [file.path for file in claims if file.use is Use.IN_USE]:
            return "in use", _user_text(one.path, used[0], users)
        if unknown := [file for file in claims if file.use is Use.UNKNOWN]:
            return "cannot tell", unknown[0].reason
        if is_folder and not _has_sign_of_life(one, files):
            return "cannot tell", "it has no file that a live job would have open"
        if why := _live_pid_reason(one.pid, min(status.st_mtime for status in about)):
            return "cannot tell", why
        if _age_s(about) < MIN_AGE_S:
            return "young", f"no process uses it, but it was changed less than {MIN_AGE_S / 60:.0f} min ago"
        if remove and not (_remove_folder(one.path) if is_folder else claims[0].remove()):
            return "in use", "it changed while it was to be removed"
    what = f"any of its {len(files)} files" if is_folder else "it"
    return "stale", f"no process of any namespace or user has {what} open or mapped{_ended_text(one.pid)}"


def _has_sign_of_life(one: _Candidate, files: Iterable[Path]) -> bool:
    """Returns whether a folder has a file that a live job would have open."""
    if _OWN_FOLDER.fullmatch(one.path.name):
        return one.path / OWNER in files
    return any(fnmatch(file.name, name) for file in files for name in SIGNS_OF_LIFE)


def _tree(folder: Path) -> list[Path]:
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


def _user_text(path: Path, used: Path, users: dict[str, int]) -> str:
    what = "it" if used == path else used.name
    if pid := users.get(str(used)):
        with suppress(OSError):
            return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()}) has {what} open or mapped"
    return f"a process that is not visible here has {what} open or mapped"


# ---- the process that a name gives


def _exists(pid: int) -> bool:
    """Returns whether a process with this id exists in this PID namespace. hidepid does not hide it from kill()."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _live_pid_reason(pid: int, begun: float) -> str:
    """Returns why the process that a name gives may still live; empty if it has ended, or if its id was given to a
    process that started after the folder was made (at the time `begun`)."""
    if not pid or not _exists(pid):
        return ""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        boot = next(ln for ln in Path("/proc/stat").read_text(encoding="utf-8").splitlines() if ln.startswith("btime"))
    except (OSError, StopIteration):
        return f"there is a process {pid}, of which nothing can be read"
    started = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return "" if started > begun + 1 else f"process {pid}, which its name gives, lives"


def _ended_text(pid: int) -> str:
    return f"; process {pid} of its name has ended" if pid and not _exists(pid) else ""
