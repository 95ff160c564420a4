"""System calls for the checks, by ctypes. Every failure raises OSError with its errno."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.syscall.restype = ctypes.c_long

MADV_HUGEPAGE = 14
MADV_COLLAPSE = 25  # available since Linux 6.1
MAP_FIXED = 0x10

# Architecture -> number of the system call perf_event_open(2), for which libc has no function.
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE = 0, 1
PERF_CYCLES, PERF_CACHE_MISSES = 0, 3
PERF_PAGE_FAULTS = 2
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6


def _check_result(result: int | None) -> int:
    if result is None or result == -1 or result == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def get_mempolicy() -> None:
    """Calls get_mempolicy(2). Raises OSError if the kernel refuses, and does nothing if the number of the system call
    is unknown on this architecture."""
    if number := {"x86_64": 239, "aarch64": 236}.get(platform.machine()):
        nothing, zero = ctypes.c_void_p(None), ctypes.c_ulong(0)
        _check_result(_libc.syscall(ctypes.c_long(number), nothing, nothing, zero, nothing, zero))


@contextmanager
def open_perf_event(kind: int, config: int) -> Iterator[int]:
    """Yields the file descriptor of a performance counter for this thread in user mode, which counts from now on; read
    it by `read_perf_count`."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(0, f"perf_event_open is not known on {platform.machine()}")
    # struct perf_event_attr, version 0: type, size, config, sample period and type, format, flags
    flags = _EXCLUDE_KERNEL_AND_HYPERVISOR
    attributes = struct.pack("=IIQQQQQIIQ", kind, 64, config, 0, 0, 0, flags, 0, 0, 0)
    this_thread, any_cpu, no_group, close_on_exec = (ctypes.c_long(n) for n in (0, -1, -1, 8))
    call = ctypes.c_long(number)
    fd = _check_result(_libc.syscall(call, attributes, this_thread, any_cpu, no_group, close_on_exec))
    try:
        yield fd
    finally:
        os.close(fd)


def read_perf_count(fd: int) -> int:
    """Returns the count of an open performance event."""
    count: int = struct.unpack("=Q", os.read(fd, 8))[0]
    return count


@contextmanager
def map_aligned_memory(size_bytes: int, *, is_shared: bool) -> Iterator[int]:
    """Yields the address of an untouched mapping that is aligned to its own size. A shared mapping is of a memfd."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    kind = mmap.MAP_SHARED if is_shared else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # Reserves twice the size with PROT_NONE, to replace an aligned part of it by the mapping.
    reserved = _check_result(_libc.mmap(None, 2 * size_bytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0))
    fd = -1
    try:
        if is_shared:
            fd = os.memfd_create("nearfield-doctor")
            os.ftruncate(fd, size_bytes)
        aligned = (reserved + size_bytes - 1) // size_bytes * size_bytes
        yield _check_result(_libc.mmap(aligned, size_bytes, protection, kind | MAP_FIXED, fd, 0))
    finally:
        _libc.munmap(reserved, 2 * size_bytes)
        if fd >= 0:
            os.close(fd)


def madvise(address: int, size_bytes: int, advice: int) -> None:
    """Calls madvise. Raises OSError on failure."""
    _check_result(_libc.madvise(address, size_bytes, advice))


def touch_pages(address: int, size_bytes: int) -> None:
    """Writes to every byte of a mapping, so that all its pages are allocated."""
    ctypes.memset(address, 1, size_bytes)


def huge_page_bytes_mapped_at(address: int) -> int:
    """Returns the number of bytes in huge pages of the mapping at `address`, from /proc/self/smaps."""
    total_kib, inside = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(" ")
        if not key.endswith(":"):
            inside = int(key.partition("-")[0], 16) <= address < int(key.partition("-")[2], 16)
        elif inside and key in ("AnonHugePages:", "ShmemPmdMapped:"):
            total_kib += int(rest.split()[0])
    return total_kib * 1024
