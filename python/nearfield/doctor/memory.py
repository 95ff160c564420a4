"""Checks memory: huge pages of each kind, by using them; free space in /dev/shm; and the limit of locked memory."""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from nearfield.base.files import bracketed_choice, read_small_file
from nearfield.base.units import counted
from nearfield.doctor import kernel
from nearfield.doctor.check import Check

THP = Path("/sys/kernel/mm/transparent_hugepage")
SHM = Path("/dev/shm")
# name patterns of the MPIs' files in /dev/shm
MPI_FILE_PATTERNS = ("sm_segment.*", "vader_segment.*", "mpich_shm*", "Intel_MPI*", "mv2_*", "psm*_shm*")
MIB = 1 << 20
ENOUGH_SHM_BYTES = 256 * MIB
ENOUGH_LOCKED_BYTES = 64 * MIB


def huge_page_bytes() -> int:
    """Returns the size in bytes of a transparent huge page: 2 MiB on x86."""
    return int(read_small_file(THP / "hpage_pmd_size") or 2 * MIB)


def private_huge_pages() -> Check:
    """Checks whether private memory gets a huge page after MADV_HUGEPAGE."""
    name, setting = "huge pages, private", bracketed_choice(THP / "enabled") or "absent"
    size = huge_page_bytes()
    with kernel.aligned_mapping(size, shared=False) as address:
        with suppress(OSError):  # a kernel without huge pages refuses; the mapped pages are checked instead
            kernel.madvise(address, size, kernel.MADV_HUGEPAGE)
        kernel.touch_pages(address, size)
        got = kernel.huge_bytes_mapped(address) > 0
    found = f"enabled {setting}: on request {'yes' if got else 'no'}"
    if got:
        return Check(name, "ok", found, "pages: private-huge is measured")
    remedy = "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled."
    return Check(name, "missing", found, "pages: private-huge is null; only small pages are measured", remedy)


def shared_huge_pages() -> Check:
    """Checks whether memory shared between ranks can use huge pages, by MADV_HUGEPAGE before the first touch or by
    MADV_COLLAPSE after it."""
    name, setting = "huge pages, shared", bracketed_choice(THP / "shmem_enabled") or "absent"
    on_request, collapsed = shared_huge_page_result(kernel.MADV_HUGEPAGE), shared_huge_page_result(kernel.MADV_COLLAPSE)
    found = f"shmem_enabled {setting}: on request {on_request}; MADV_COLLAPSE {collapsed}; Linux {platform.release()}"
    if "yes" in (on_request, collapsed):
        return Check(name, "ok", found, "pages: window-huge is measured")
    remedy = (
        "Linux 6.1 or newer has MADV_COLLAPSE, which needs no root. "
        "Before: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled as root."
    )
    return Check(name, "missing", found, "pages: window-huge is null; shared windows use small pages", remedy)


def shared_huge_page_result(advice: int) -> str:
    """Returns "yes" if a memfd mapping gets huge pages with this madvise advice, or "no" with the reason. MADV_HUGEPAGE
    precedes the first touch; MADV_COLLAPSE follows it."""
    size = huge_page_bytes()
    with kernel.aligned_mapping(size, shared=True) as address:
        try:
            if advice == kernel.MADV_COLLAPSE:
                kernel.touch_pages(address, size)
            kernel.madvise(address, size, advice)
            kernel.touch_pages(address, size)
        except OSError as error:
            return f"no ({error.strerror})"
        return "yes" if kernel.huge_bytes_mapped(address) >= size else "no"


def hugetlb_pages() -> Check:
    """Checks whether the administrator has reserved hugetlb pages."""
    name, pools = "huge pages, reserved", []
    for pool in sorted(Path("/sys/kernel/mm/hugepages").glob("hugepages-*")):
        size_kib = int(re.sub(r"\D", "", pool.name))
        pools.append(
            (
                size_kib,
                int(read_small_file(pool / "free_hugepages") or 0),
                int(read_small_file(pool / "nr_hugepages") or 0),
            )
        )
    if not pools:
        return Check(name, "ok", "the kernel has no hugetlb", "nothing here needs them")
    reserved = [f"{free} of {total} pages of {size // 1024} MiB free" for size, free, total in pools if total]
    found = ", ".join(reserved) or "none reserved"
    return Check(name, "ok", found, "nothing here needs them; an MPI that is told to can use them")


def dev_shm() -> Check:
    """Checks the free space in /dev/shm, where ranks share memory."""
    name, path = "/dev/shm", "/dev/shm"
    mounts = [line.split() for line in (read_small_file("/proc/self/mounts") or "").splitlines()]
    mount = next((m for m in reversed(mounts) if m[1] == path), None)  # later mounts hide earlier ones
    if not os.access(path, os.W_OK):
        found = f"{path} is {'not writable' if Path(path).exists() else 'absent'}"
        return Check(name, "missing", found, "MPI falls back to slow paths, or does not start", "Mount a tmpfs there.")
    space = os.statvfs(path)
    free, size = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
    options = f"{mount[2]}, {mount[3]}" if mount else "not a mount of its own"
    found = f"{free // MIB} of {size // MIB} MiB free ({options})"
    if free >= ENOUGH_SHM_BYTES:
        return Check(name, "ok", found, "room for the memory that ranks share")
    remedy = "Remove what killed runs left there; in a container: --shm-size=1g."
    return Check(name, "limited", found, "large messages or many ranks may fail with a bus error", remedy)


def ended_jobs() -> Check:
    """Checks for files of killed jobs in /dev/shm, which occupy memory until they are removed."""
    name = "ended jobs"
    left = find_leftover_files(SHM)
    if not left:
        return Check(name, "ok", f"they left nothing in {SHM}", "no memory is taken by jobs that have ended")
    allocated = sum(blocks for _, blocks in left)
    found = f"they left {counted(len(left), 'file')} in {SHM}, {allocated // MIB} MiB"
    patterns = sorted({next(p for p in MPI_FILE_PATTERNS if fnmatch(file.name, p)) for file, _ in left})
    remedy = f"While no MPI job of yours runs: rm {' '.join(f'{SHM}/{pattern}' for pattern in patterns)}"
    return Check(name, "limited", found, "their memory is not free, and a full /dev/shm ends jobs", remedy)


def find_leftover_files(folder: Path) -> list[tuple[Path, int]]:
    """Returns (file, allocated bytes) for files of MPI libraries in the folder that belong to this user, and that no
    process of this user has mapped or open. Skips files younger than a minute, since their job may just be starting."""
    files = {}
    for file in folder.glob("*"):
        with suppress(OSError):
            about = file.lstat()
            is_old = time.time() - about.st_mtime > 60
            if (
                about.st_uid == os.getuid()
                and is_old
                and any(fnmatch(file.name, pattern) for pattern in MPI_FILE_PATTERNS)
            ):
                files[file] = about.st_blocks * 512
    if files:
        used = _used_files()
        files = {file: allocated for file, allocated in files.items() if str(file) not in used}
    return sorted(files.items())


def _used_files() -> set[str]:
    """Returns the paths of files that processes of this user have mapped or open."""
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines = (process / "maps").read_text(errors="replace").splitlines()
            used |= {line.split(None, 5)[5] for line in lines if line.count("/")}
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    used.add(str(descriptor.readlink()))
    return used


def locked_memory() -> Check:
    """Checks whether RLIMIT_MEMLOCK suffices for an RDMA network adapter."""
    name, limit = "locked memory", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    found = "unlimited" if limit == resource.RLIM_INFINITY else f"at most {limit // 1024} KiB"
    if limit == resource.RLIM_INFINITY or limit >= ENOUGH_LOCKED_BYTES:
        return Check(name, "ok", found, "RDMA networks can register buffers")
    if not any(Path("/sys/class/infiniband").glob("*")):
        return Check(name, "ok", f"{found}; no RDMA adapter", "no limit on messages inside this node")
    return Check(name, "limited", found, "an RDMA network may fail or fall back to TCP", "ulimit -l unlimited.")
