"""Checks performance counters by reading them: hardware events (cycles, cache misses) and software events (page
faults)."""

from __future__ import annotations

import errno
import os
import resource

from nearfield.base.files import read_small_file
from nearfield.doctor import kernel
from nearfield.doctor.check import Check

HARDWARE_EVENT_NUMBERS = {"cycles": kernel.PERF_CYCLES, "cache-misses": kernel.PERF_CACHE_MISSES}

# errno of perf_event_open -> (reason, remedy)
VIRTUAL_PMU_REMEDY = "In a virtual machine: enable a virtual PMU."
REASON_AND_REMEDY_BY_ERRNO = {
    errno.ENOENT: ("the kernel has no driver for these counters", VIRTUAL_PMU_REMEDY),
    errno.EOPNOTSUPP: ("this processor does not offer them", VIRTUAL_PMU_REMEDY),
    errno.ENOSYS: ("the kernel has no perf_event_open", "Use a kernel with CONFIG_PERF_EVENTS."),
    errno.EACCES: ("not permitted", "As root: sysctl kernel.perf_event_paranoid=2."),
    errno.EPERM: (
        "not permitted",
        "As root: sysctl kernel.perf_event_paranoid=2. "
        "In a container: --cap-add PERFMON and a seccomp profile that allows perf_event_open.",
    ),
}
SILENT_COUNTER_REASON = ("they can be opened, but stay at zero", VIRTUAL_PMU_REMEDY)


def hardware_counters() -> Check:
    """Checks whether the counters of cycles and cache misses can be opened and advance."""
    refusals = {name: why for name, config in HARDWARE_EVENT_NUMBERS.items() if (why := _find_refusal_reason(config))}
    paranoid = f"perf_event_paranoid {read_small_file('/proc/sys/kernel/perf_event_paranoid') or 'unknown'}"
    if not refusals:
        means = "profiles carry cycles and cache misses beside the times"
        return Check("hardware counters", "ok", f"{', '.join(HARDWARE_EVENT_NUMBERS)}; {paranoid}", means)
    found = "; ".join(f"no {event}: {cause}" for event, (cause, _) in refusals.items())
    if len({cause for cause, _ in refusals.values()}) == 1:
        found = f"no {', '.join(refusals)}: {next(iter(refusals.values()))[0]}"
    return Check(
        "hardware counters",
        "limited" if len(refusals) < len(HARDWARE_EVENT_NUMBERS) else "missing",
        f"{found}; {paranoid}",
        "these counts are null in profiles; buffer states are verified by timing alone",
        " ".join(dict.fromkeys(remedy for _, remedy in refusals.values())),
    )


def _find_refusal_reason(config: int) -> tuple[str, str] | None:
    """Returns (reason, remedy) if this hardware event cannot be counted; None if it can."""
    try:
        with kernel.open_perf_event(kernel.PERF_TYPE_HARDWARE, config) as fd:
            sum(bytearray(os.urandom(1 << 20)))  # larger than the inner caches, to cause cache misses
            return None if kernel.read_perf_count(fd) > 0 else SILENT_COUNTER_REASON
    except OSError as error:
        unexpected = (error.strerror or str(error), "Ask the administrator what forbids perf_event_open.")
        return REASON_AND_REMEDY_BY_ERRNO.get(error.errno or 0, unexpected)


def software_events() -> Check:
    """Checks whether page faults are counted by getrusage and by perf_event_open."""
    name, size_bytes = "software events", 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    with kernel.map_aligned_memory(size_bytes, is_shared=False) as address:
        kernel.touch_pages(address, size_bytes)
    if resource.getrusage(resource.RUSAGE_SELF).ru_minflt <= before:
        remedy = "A sandbox such as gVisor hides them; measure outside of it."
        return Check(name, "missing", "getrusage counts no page faults", "fault counts are null", remedy)
    by_perf = "perf_event too" if _perf_counts_faults() else "perf_event not permitted"
    found = f"page faults and context switches by getrusage; {by_perf}"
    return Check(name, "ok", found, "profiles carry page faults and context switches of every case")


def _perf_counts_faults() -> bool:
    try:
        with (
            kernel.open_perf_event(kernel.PERF_TYPE_SOFTWARE, kernel.PERF_PAGE_FAULTS) as fd,
            kernel.map_aligned_memory(1 << 16, is_shared=False) as address,
        ):
            kernel.touch_pages(address, 1 << 16)
            return kernel.read_perf_count(fd) > 0
    except OSError:
        return False
