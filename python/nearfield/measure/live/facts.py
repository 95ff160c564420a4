"""Queries the host for the parts of a profile that are not measured: hardware, kernel and settings."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

from nearfield.base.files import read_bracketed_choice, read_small_file
from nearfield.base.topology import CacheKind, Topology
from nearfield.profile.schema import Cache, Host, Machine, MachineClock, Memory, Pages


def capture_machine(topology: Topology, ticks_per_ns: float | None) -> Machine:
    """Returns machine.toml for the host, from hwloc's topology and the kernel."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        schema_version=1,
        name=socket.gethostname(),
        cpu_model=topology.cpu_model,
        cores=len(topology.cores),
        pus=len(topology.pus),
        line_bytes=topology.line_bytes,
        cache=_make_cache_tables(topology),
        memory=Memory(total_bytes=memory_bytes, numa_nodes=max(1, len(topology.numa_nodes))),
        pages=_capture_page_settings(),
        clock=MachineClock(tsc_ghz=ticks_per_ns),
    )


def capture_host(topology: Topology) -> Host:
    """Returns name, kernel, CPUs and load of the host, and its settings that may affect timings."""
    return Host(
        name=socket.gethostname(),
        kernel=f"{platform.system()} {platform.release()}",
        cpus=topology.pus,
        governor=read_small_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        load_1m=os.getloadavg()[0],
        virtual=_hypervisor_name(),
    )


def _make_cache_tables(topology: Topology) -> list[Cache]:
    """Returns one table for all caches of equal level, kind and size."""
    tables: dict[tuple[int, CacheKind, int], Cache] = {}
    for cache in topology.caches:
        key = (cache.level, cache.kind, cache.size_bytes)
        if key in tables:
            tables[key].count += 1
        else:
            tables[key] = Cache(
                level=cache.level,
                kind=cache.kind,
                size_bytes=cache.size_bytes,
                ways=cache.ways,
                line_bytes=cache.line_bytes or None,
                shared_by=len(cache.pus),
                count=1,
            )
    return sorted(tables.values(), key=lambda c: (c.level, c.kind))


def _capture_page_settings() -> Pages:
    thp = Path("/sys/kernel/mm/transparent_hugepage")
    huge = read_small_file(thp / "hpage_pmd_size")
    free = read_small_file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    return Pages(
        base_bytes=os.sysconf("SC_PAGE_SIZE"),
        huge_bytes=int(huge) if huge else None,
        transparent=read_bracketed_choice(thp / "enabled"),
        shmem=read_bracketed_choice(thp / "shmem_enabled"),
        hugetlb_free=int(free) if free else None,
    )


def _hypervisor_name() -> str | None:
    """Returns the vendor of the virtual machine; None on bare metal."""
    vendor = read_small_file("/sys/class/dmi/id/sys_vendor")
    return (vendor or "a hypervisor") if " hypervisor" in (read_small_file("/proc/cpuinfo") or "") else None
