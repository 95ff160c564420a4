"""Checks memory: huge pages of each kind, by using them, and the limit of locked memory."""

from __future__ import annotations

import platform
import re
import resource
from contextlib import suppress
from pathlib import Path

from nearfield.base.files import read_bracketed_choice, read_small_file
from nearfield.doctor import kernel
from nearfield.doctor.check import Check

THP_FOLDER = Path("/sys/kernel/mm/transparent_hugepage")
MIB = 1 << 20
MIN_LOCKED_LIMIT_BYTES = 64 * MIB


def read_huge_page_bytes() -> int:
    """Returns the size in bytes of a transparent huge page: 2 MiB on x86."""
    return int(read_small_file(THP_FOLDER / "hpage_pmd_size") or 2 * MIB)


def private_huge_pages() -> Check:
    """Checks whether private memory gets a huge page after MADV_HUGEPAGE."""
    name, setting = "huge pages, private", read_bracketed_choice(THP_FOLDER / "enabled") or "absent"
    size = read_huge_page_bytes()
    with kernel.map_aligned_memory(size, is_shared=False) as address:
        with suppress(OSError):  # a kernel without huge pages refuses; the mapped pages are checked instead
            kernel.madvise(address, size, kernel.MADV_HUGEPAGE)
        kernel.touch_pages(address, size)
        got = kernel.huge_page_bytes_mapped_at(address) > 0
    found = f"enabled {setting}: on request {'yes' if got else 'no'}"
    if got:
        return Check(name, "ok", found, "pages: private-huge is measured")
    remedy = "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled."
    return Check(name, "missing", found, "pages: private-huge is null; only small pages are measured", remedy)


def shared_huge_pages() -> Check:
    """Checks whether memory shared between ranks can use huge pages, by MADV_HUGEPAGE before the first touch or by
    MADV_COLLAPSE after it."""
    name, setting = "huge pages, shared", read_bracketed_choice(THP_FOLDER / "shmem_enabled") or "absent"
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
    size = read_huge_page_bytes()
    with kernel.map_aligned_memory(size, is_shared=True) as address:
        try:
            if advice == kernel.MADV_COLLAPSE:
                kernel.touch_pages(address, size)
            kernel.madvise(address, size, advice)
            kernel.touch_pages(address, size)
        except OSError as error:
            return f"no ({error.strerror})"
        return "yes" if kernel.huge_page_bytes_mapped_at(address) >= size else "no"


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
    return Check(name, "ok", found, "nothing here needs them; an MPI can be set to use them")


def locked_memory() -> Check:
    """Checks whether RLIMIT_MEMLOCK suffices for an RDMA network adapter."""
    name, limit = "locked memory", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    found = "unlimited" if limit == resource.RLIM_INFINITY else f"at most {limit // 1024} KiB"
    if limit == resource.RLIM_INFINITY or limit >= MIN_LOCKED_LIMIT_BYTES:
        return Check(name, "ok", found, "RDMA networks can register buffers")
    if not any(Path("/sys/class/infiniband").glob("*")):
        return Check(name, "ok", f"{found}; no RDMA adapter", "no limit on messages inside this node")
    return Check(name, "limited", found, "an RDMA network may fail or fall back to TCP", "ulimit -l unlimited.")
