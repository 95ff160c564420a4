"""Checks what a container, or a batch system, takes from its processes: namespaces, memory, NUMA policies."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nearfield.base.files import read_small_file
from nearfield.doctor import kernel
from nearfield.doctor.check import Check

INITIAL_NAMESPACE_INODES = {"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC}  # their inodes, which the kernel never changes
CAP_SYS_PTRACE = 1 << 19
MIN_MEMORY_BYTES_PER_CORE = 1 << 30  # bytes of memory per core below which a limit is reported
MIB = 1 << 20

# Script of a child process that makes a user namespace, or exits with the reason why it may not.
_UNSHARER_SCRIPT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(os.strerror(ctypes.get_errno()) if libc.unshare(0x10000000) else 0)
"""


def cgroup_folders(controller: str) -> Iterator[Path]:
    """Yields the folders of this process's cgroup and of its ancestors that limit something, for cgroup v2 and v1."""
    for line in (read_small_file("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = Path("/sys/fs/cgroup", controller if controllers else "")
        group = mount / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))


def describe_permissions() -> str:
    """Returns whether a system call filter is on, and whether this process may trace others, as human-readable text."""
    fields = dict(line.split(":", 1) for line in (read_small_file("/proc/self/status") or "").splitlines())
    is_filtered = fields.get("Seccomp", "0").strip() == "2"
    may_trace = int(fields.get("CapEff", "0").strip(), 16) & CAP_SYS_PTRACE
    filtered = "a system call filter is on" if is_filtered else "no system call filter"
    return f"{filtered}, {'with' if may_trace else 'without'} CAP_SYS_PTRACE"


def namespaces() -> Check:
    """Checks whether this process is in a user or PID namespace of a container, and whether it could make one."""
    own = [
        name for name, inode in INITIAL_NAMESPACE_INODES.items() if Path(f"/proc/self/ns/{name}").stat().st_ino != inode
    ]
    done = subprocess.run(
        [sys.executable, "-c", _UNSHARER_SCRIPT],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=30,
        check=False,
    )
    new = "can be made" if done.returncode == 0 else f"cannot be made ({done.stderr.strip() or 'refused'})"
    where = f"in {' and '.join(own)} namespaces of a container" if own else "in the initial ones"
    found = f"{where}; new user namespaces (rootless containers) {new}"
    if not own:
        return Check("namespaces", "ok", found, "ranks of this node can see one another")
    means = "ranks that are in containers of their own cannot read or map one another's memory"
    return Check("namespaces", "limited", found, means, "Start mpirun inside one container for each node.")


def memory_limit() -> Check:
    """Checks whether a cgroup limits the memory, to which what ranks share in /dev/shm counts as well."""
    name, limit = "memory limit", min(_read_memory_limits(), default=None)
    lines = (line.split() for line in (read_small_file("/proc/meminfo") or "").splitlines())
    whole = next((1024 * int(words[1]) for words in lines if words[0] == "MemTotal:"), 0)
    if limit is None or (whole and limit >= whole):
        return Check(name, "ok", f"none; {whole // MIB} MiB", "ranks may use the memory of the node")
    cores = len(os.sched_getaffinity(0))
    found = f"{limit // MIB} of {whole // MIB} MiB, for {cores} processors"
    if limit >= cores * MIN_MEMORY_BYTES_PER_CORE:
        return Check(name, "ok", found, "the kernel ends ranks (signal 9) that use more, /dev/shm included")
    means = "the kernel ends ranks (signal 9) that use more, and their files in /dev/shm count as well"
    remedy = "Raise the limit: --memory in Docker, resources.limits.memory in Kubernetes, --mem in Slurm."
    return Check(name, "limited", found, means, remedy)


def _read_memory_limits() -> list[int]:
    """Returns the limits of this process's cgroup and its ancestors. Version 1 has a number near 2^63 for none."""
    texts = [
        read_small_file(folder / file)
        for folder in cgroup_folders("memory")
        for file in ("memory.max", "memory.limit_in_bytes")
    ]
    return [int(text) for text in texts if text and text.isdigit()]


def numa_policy() -> Check:
    """Checks whether memory may be bound to NUMA nodes, which filters of containers forbid."""
    name, nodes = "NUMA policy", len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    try:
        kernel.get_mempolicy()
    except OSError as error:
        found = f"get_mempolicy: {error.strerror}; NUMA nodes: {nodes}"
        if nodes < 2 or error.errno != errno.EPERM:
            return Check(name, "ok", found, "with one NUMA node, nothing is lost")
        means = "memory cannot be bound to the NUMA node of a rank, and MPIs report this ('failed to bind memory')"
        return Check(name, "limited", found, means, "In a container: --cap-add SYS_NICE.")
    return Check(name, "ok", f"mbind may be used; NUMA nodes: {nodes}", "memory can be bound to the node of a rank")
