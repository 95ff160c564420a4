"""Decides whether a launch can judge statements: it must be complete, and measured on a quiet machine."""

from __future__ import annotations

from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE, unstable_share

MAX_LOAD_PER_CORE = 1.5  # load average per core; the previous launch may contribute up to 1


def disturbance_reason(launch: Profile) -> str:
    """Returns why a launch cannot judge statements; '' if it can. A launch cannot if part of it was stopped or failed,
    if the load average at its start exceeded MAX_LOAD_PER_CORE, if other work used its cores during more than
    BUSY_SHARE of the repetitions, or if more than MAX_UNSTABLE of its times are unstable."""
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
    """Returns that the load average exceeded MAX_LOAD_PER_CORE, as text; '' if it did not, or is unknown."""
    if load_1m is None or not cores or load_1m <= MAX_LOAD_PER_CORE * cores:
        return ""
    return f"the machine is busy: its load was {load_1m:.1f} on {counted(cores, 'core')} at the start"
