"""Decides whether a launch can judge statements: it must be complete, and measured on a quiet machine."""

from __future__ import annotations

from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE, unstable_share

MAX_LOAD_PER_CORE = 1.5  # per core; the launches before this one count, too, as much as the cores at most


def disturbance_reason(launch: Profile) -> str:
    """Returns why a launch cannot judge statements; '' if it can. It cannot if a part of it was stopped or failed, if
    more ran when it began than its cores can run, if other work used its cores during more than BUSY_SHARE of the
    repetitions, or if more than half of its times are unstable."""
    states = [one for one in launch.run.launch if one.state != "complete"]
    if not launch.run.complete or states:
        reason = next((one.reason for one in states if one.reason), None)
        return f"it is incomplete{f' ({reason})' if reason else ''}"
    if busy := overload_reason(launch.run.host.load_1m, len(launch.run.host.cpus)):
        return busy
    disturbed = launch.run.disturbed_share or 0.0
    if disturbed > BUSY_SHARE:
        return f"the machine is busy: something else used its cores during {disturbed:.0%} of the repetitions"
    unstable = unstable_share(launch)
    return f"{unstable:.0%} of its times are unstable" if unstable > MAX_UNSTABLE else ""


def overload_reason(load_1m: float | None, cores: int) -> str:
    """Returns that a machine of this load had more to run than its cores can; '' if it had not, or nobody knows."""
    if load_1m is None or not cores or load_1m <= MAX_LOAD_PER_CORE * cores:
        return ""
    return f"the machine is busy: its load was {load_1m:.1f} on {counted(cores, 'core')} at the start"
