"""Checks the folders in which ranks and launchers share files: /dev/shm, and that for temporary files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from nearfield.base import own_command
from nearfield.base.files import read_small_file
from nearfield.base.units import counted
from nearfield.doctor.check import Check
from nearfield.mpi.file_use import file_system_of_device
from nearfield.mpi.leftovers import find_leftovers

SHM_FOLDER = Path("/dev/shm")
MIB = 1 << 20
RECOMMENDED_SHM_BYTES = 256 * MIB
SEGMENT_BYTES_PER_RANK = 16 * MIB  # segment size of Open MPI 5 for each rank; Open MPI 4: 4 MiB, MPICH: about 2 MiB
MIN_FREE_TEMPORARY_BYTES = 64 * MIB
MAX_SOCKET_PATH_LENGTH = 107
NETWORK_FILE_SYSTEMS = (
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "cifs",
    "smb",
    "ceph",
    "panfs",
    "afs",
    "orangefs",
    "fuse.sshfs",
)
_LARGER_SHM_REMEDY = (
    "in a container: --shm-size=1g, or an emptyDir with medium Memory; as root: mount -o remount,size=... /dev/shm"
)


def dev_shm() -> Check:
    """Checks the free space in /dev/shm, where ranks share memory, against the number of ranks of this node."""
    name, path = "/dev/shm", str(SHM_FOLDER)
    mounts = [line.split() for line in (read_small_file("/proc/self/mounts") or "").splitlines()]
    mount = next((m for m in reversed(mounts) if m[1] == path), None)  # later mounts hide earlier ones
    if not os.access(path, os.W_OK):
        found = f"{path} is {'not writable' if SHM_FOLDER.exists() else 'absent'}"
        return Check(name, "missing", found, "MPI falls back to slow paths, or does not start", "Mount a tmpfs there.")
    space = os.statvfs(path)
    free, size = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
    options = f"{mount[2]}, {mount[3]}" if mount else "not a mount of its own"
    ranks = len(os.sched_getaffinity(0))
    found = f"{free // MIB} of {size // MIB} MiB free for {counted(ranks, 'rank')} ({options})"
    if free >= max(RECOMMENDED_SHM_BYTES, ranks * SEGMENT_BYTES_PER_RANK):
        return Check(name, "ok", found, "room for the memory that ranks share")
    means = (
        f"Open MPI 5 needs {SEGMENT_BYTES_PER_RANK // MIB} MiB for each rank and then does without shared memory; "
        f"others may "
        "end with a bus error"
    )
    return Check(name, "limited", found, means, f"Remove the files that killed jobs left there; {_LARGER_SHM_REMEDY}.")


def ended_jobs() -> Check:
    """Checks for files of killed jobs in /dev/shm and session folders, which occupy memory until they are removed."""
    name = "ended jobs"
    left = [one for one in find_leftovers() if one.verdict == "stale"]
    if not left:
        return Check(name, "ok", "they left nothing", "no memory is taken by jobs that have ended")
    in_memory = sum(one.size_bytes for one in left if one.path.parent == SHM_FOLDER)
    found = (
        f"they left {counted(len(left), 'file or folder', 'files and folders')}, {in_memory // MIB} MiB in {SHM_FOLDER}"
    )
    remedy = f"List and remove them: {own_command.command_line('doctor', '--sweep')}, then with --remove."
    return Check(name, "limited", found, "their memory is not free, and a full /dev/shm ends jobs", remedy)


def temporary_folder() -> Check:
    """Checks whether launchers can make their session folder: the folder for temporary files is local, writable, short
    enough for the paths of sockets, and not full."""
    name = "temporary folder"
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        means = "launchers cannot make their session folder"
        return Check(name, "missing", str(error.strerror or error), means, "Set TMPDIR to a folder that you may write.")
    space = os.statvfs(folder)
    free, kind = (
        space.f_bavail * space.f_frsize,
        file_system_of_device(Path(folder).stat().st_dev) or "unknown file system",
    )
    found = f"{folder}, {kind}, {free // MIB} MiB free"
    session = f"/ompi.{os.uname().nodename}.{os.getuid()}/pid.4194304/pmix-4194304"
    if kind.startswith(NETWORK_FILE_SYSTEMS):
        means = "files there, by which ranks share memory, are accessed over the network"
        return Check(name, "limited", found, means, "Set TMPDIR to a local disk.")
    if free < MIN_FREE_TEMPORARY_BYTES:
        means = "launchers may fail to make their session folder"
        return Check(name, "limited", found, means, "Free some space there, or set TMPDIR to another local disk.")
    if len(os.fsencode(folder + session)) > MAX_SOCKET_PATH_LENGTH:
        means = "paths of sockets in it are too long for Open MPI 2 and 3, which do not start"
        return Check(name, "limited", found, means, "Set TMPDIR to a short path, such as /tmp.")
    return Check(name, "ok", found, "launchers can make their session folders")
