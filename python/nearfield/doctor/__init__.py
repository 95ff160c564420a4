"""Checks what this machine provides for measurements, and names remedies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nearfield.base.errors import NearfieldError
from nearfield.doctor import confinement, copying, counters, host, memory, processor, shared_files, shared_heap
from nearfield.doctor.check import Check
from nearfield.doctor.messages import quotes_of_check

__all__ = ["CHECKS", "Check", "examine", "run_check"]

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
    memory.locked_memory,
    shared_files.dev_shm,
    shared_files.ended_jobs,
    shared_files.temporary_folder,
    confinement.memory_limit,
    confinement.numa_policy,
    confinement.namespaces,
    host.virtualisation,
)


def examine(checks: tuple[Callable[[], Check], ...] = CHECKS) -> list[Check]:
    """Runs every check. Returns the results; those that are not ok include the messages that MPIs print on such
    machines. If a check raises an error, its result contains the error."""
    found = [(check, _run(check)) for check in checks]
    return [
        one if one.status == "ok" else replace(one, messages=quotes_of_check(check.__name__)) for check, one in found
    ]


def run_check(name: str) -> Check:
    """Runs the check whose function has this name."""
    return _run(next(check for check in CHECKS if check.__name__ == name))


def _run(check: Callable[[], Check]) -> Check:
    name = check.__name__.replace("_", " ")
    means = "this could not be found out"
    try:
        return check()
    except NearfieldError as error:
        return Check(name, "missing", error.message, means, error.remedy)
    except OSError as error:
        return Check(name, "missing", str(error), means, "The kernel or a sandbox refuses; run it outside.")
