"""Checks the cores: number, CPU_FOLDER quota, load of other programs, frequency and clock."""

from __future__ import annotations

import os
from pathlib import Path

from nearfield.base.cpu_load import BUSY_SHARE, measure_cpu_utilization
from nearfield.base.files import read_small_file
from nearfield.base.topology import Topology, format_pu_ranges
from nearfield.doctor.check import Check
from nearfield.doctor.confinement import cgroup_folders

CPU_FOLDER = Path("/sys/devices/system/cpu")
MAX_STEAL_SHARE = 0.02


def cores() -> Check:
    """Checks whether there are enough cores for the ranks of a measurement."""
    name, topology = "cores", Topology.of_this_machine()
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    found = f"{len(topology.cores)} with {len(topology.pus)} of {online} PUs allowed ({format_pu_ranges(topology.pus)})"
    if len(topology.pus) < 2:
        remedy = "Allow this process at least two PUs: taskset, cgroup cpuset, or the job's --cpus-per-task."
        return Check(name, "missing", found, "there is no pair of cores to measure", remedy, blocks=True)
    found += f"; distances {', '.join(topology.distances())}"
    if len(topology.cores) < 4:
        means = f"at most {len(topology.cores)} ranks; the load scenario needs 4 cores and is skipped"
        return Check(name, "limited", found, means, "Use a machine, or a job, with at least 4 cores for it.")
    return Check(name, "ok", found, f"up to {len(topology.cores)} ranks, each on a core of its own")


def cpu_quota() -> Check:
    """Checks whether a cgroup limits the CPU_FOLDER time per period."""
    name, quota = "CPU quota", min(filter(None, map(_read_quota, cgroup_folders("cpu"))), default=None)
    allowed = len(os.sched_getaffinity(0))
    if quota is None:
        return Check(name, "ok", "none", "ranks are not throttled")
    found = f"{quota:g} processors' time for {allowed} allowed"
    if quota >= allowed:
        return Check(name, "ok", found, "ranks are not throttled")
    means = f"more than {int(quota)} polling ranks are stopped for milliseconds at a time"
    remedy = "Raise the limit: --cpus in Docker, resources.limits.cpu in Kubernetes."
    return Check(name, "limited", found, means, remedy)


def _read_quota(folder: Path) -> float | None:
    both = (read_small_file(folder / "cpu.max") or "").split()
    if not both:
        both = [
            read_small_file(folder / "cpu.cfs_quota_us") or "max",
            read_small_file(folder / "cpu.cfs_period_us") or "100000",
        ]
    return None if both[0] in ("max", "-1") else int(both[0]) / int(both[1])


def smt() -> Check:
    """Checks whether cores have several hardware threads, which slow each other down."""
    active, control = read_small_file(CPU_FOLDER / "smt/active"), read_small_file(CPU_FOLDER / "smt/control")
    if active == "1":
        return Check("SMT", "ok", "on", "same-core is a distance; elsewhere a rank has a core to itself")
    return Check("SMT", "ok", f"off ({control or 'unknown to the kernel'})", "there is no same-core distance")


def frequency() -> Check:
    """Checks whether the clock frequency of the cores is constant."""
    name, policies = "frequency", sorted(CPU_FOLDER.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = sorted({read_small_file(path) or "unreadable" for path in policies})
    if not governors:
        means = "frequency changes cannot be observed; they may make records unstable"
        remedy = "In a virtual machine: fix the frequency on the host."
        return Check(name, "missing", "the kernel shows no cpufreq here", means, remedy)
    found = f"governor {', '.join(governors)}; boost {_describe_boost()}"
    if governors == ["performance"]:
        return Check(name, "ok", found, "under load, cores run at their highest frequency")
    means = "the first repetitions may run at a lower frequency; warm-up hides most of it"
    return Check(name, "limited", found, means, "As root: cpupower frequency-set -g performance.")


def _describe_boost() -> str:
    if (turbo_off := read_small_file(CPU_FOLDER / "intel_pstate/no_turbo")) is not None:
        return "off" if turbo_off == "1" else "on"
    return {"0": "off", "1": "on"}.get(read_small_file(CPU_FOLDER / "cpufreq/boost") or "", "unknown")


def load() -> Check:
    """Checks whether other programs use the cores now."""
    shares = measure_cpu_utilization()
    allowed = os.sched_getaffinity(0) & shares.keys()
    busy = [cpu for cpu in allowed if shares[cpu][0] > BUSY_SHARE]
    steal = max((shares[cpu][1] for cpu in allowed), default=0.0)
    found = f"load average {os.getloadavg()[0]:.2f}; busy PUs: {format_pu_ranges(busy) or 'none'}; steal {steal:.0%}"
    if not busy and steal <= MAX_STEAL_SHARE:
        return Check("load", "ok", found, "no other program disturbs a measurement at this moment")
    means = "intervals widen and records become unstable"
    return Check("load", "limited", found, means, "Stop other programs, or measure when the machine is quiet.")


def numa_balancing() -> Check:
    """Checks whether the kernel automatically migrates pages between NUMA nodes."""
    name, nodes = "NUMA balancing", len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    setting = read_small_file("/proc/sys/kernel/numa_balancing")
    if nodes < 2 or setting in (None, "0"):
        found = f"balancing {'off' if setting in (None, '0') else 'on'}, NUMA nodes: {nodes}"
        return Check(name, "ok", found, "pages are not moved after the first touch")
    means = "pages are unmapped and moved while being measured"
    return Check(
        name, "limited", f"{nodes} NUMA nodes, balancing on", means, "As root: sysctl kernel.numa_balancing=0."
    )


def clock() -> Check:
    """Checks whether user code can read a constant-rate clock without a system call."""
    source = read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    flags = next(
        (ln for ln in (read_small_file("/proc/cpuinfo") or "").splitlines() if ln.startswith("flags")), ""
    ).split()
    invariant = {"constant_tsc", "nonstop_tsc"} <= set(flags)
    found = f"clock source {source}" + (f"; {'invariant' if invariant else 'varying'} TSC" if flags else "")
    if invariant or source == "arch_sys_counter" or (not flags and source != "unknown"):
        return Check("clock", "ok", found, "times are read in user mode from a clock of constant speed")
    means = "the clock may change its speed or need a system call; every profile has its cost"
    return Check("clock", "limited", found, means, "In a virtual machine: let it have the invariant TSC.")
