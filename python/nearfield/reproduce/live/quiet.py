"""Decides whether the profile of a launch may be used to judge statements: it must be complete, and the machine must
have been quiet."""

from __future__ import annotations

from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.base.units import counted
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE_SHARE, unstable_share

MAX_LOAD_PER_CORE = 1.5  # load average per core; the previous launch may account for up to 1 of it


def disturbance_reason(launch: Profile) -> str:
    """Returns the reason why a launch may not be used to judge statements; '' if it may. The reasons are that part of
    it was stopped or failed, that the load average at its start exceeded MAX_LOAD_PER_CORE, that other processes used
    its cores during more than BUSY_SHARE of the repetitions, and that more than MAX_UNSTABLE_SHARE of its times are
    unstable."""
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
    return f"{unstable:.0%} of its times are unstable" if unstable > MAX_UNSTABLE_SHARE else ""


def overload_reason(load_1m: float | None, cores: int) -> str:
    """Returns a sentence if the load average exceeded MAX_LOAD_PER_CORE; '' if it did not, or is unknown."""
    if load_1m is None or not cores or load_1m <= MAX_LOAD_PER_CORE * cores:
        return ""
    return f"the machine is busy: its load was {load_1m:.1f} on {counted(cores, 'core')} at the start"
