"""Checks what this machine provides for measurements, and names remedies."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.base.errors import NearfieldError
from nearfield.doctor import copying, counters, host, memory, processor, shared_heap
from nearfield.doctor.check import Check

__all__ = ["CHECKS", "Check", "examine"]

# All checks in display order. A check changes nothing and takes at most a second or two.
CHECKS: tuple[Callable[[], Check], ...] = (
    host.mpi_installations,
    host.cxx_compiler,
    processor.cores,
    processor.cpu_quota,
    processor.smt,
    processor.load,
    processor.frequency,
    processor.clock,
    processor.numa_balancing,
    counters.hardware_counters,
    counters.software_events,
    copying.single_copy,
    copying.copy_devices,
    shared_heap.shared_heap,
    memory.private_huge_pages,
    memory.shared_huge_pages,
    memory.hugetlb_pages,
    memory.dev_shm,
    memory.ended_jobs,
    memory.locked_memory,
    host.virtualisation,
)


def examine(checks: tuple[Callable[[], Check], ...] = CHECKS) -> list[Check]:
    """Runs every check. Returns the results. If a check raises an error, its result contains the error."""
    return [_run(check) for check in checks]


def _run(check: Callable[[], Check]) -> Check:
    name = check.__name__.replace("_", " ")
    means = "this could not be found out"
    try:
        return check()
    except NearfieldError as error:
        return Check(name, "missing", error.message, means, error.remedy)
    except OSError as error:
        return Check(name, "missing", str(error), means, "The kernel or a sandbox refuses; run it outside.")
