"""Decides whether a launch can judge statements: it must be complete, and measured on a quiet machine."""

from __future__ import annotations

from nearfield.base.cpu_load import BUSY_SHARE
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE, unstable_share


def disturbance(launch: Profile) -> str:
    """Returns why a launch cannot judge statements; '' if it can. It cannot if a part of it was stopped or failed, if
    other work used its cores during more than BUSY_SHARE of the repetitions, or if more than half of its times are
    unstable."""
    states = [one for one in launch.run.launch if one.state != "complete"]
    if not launch.run.complete or states:
        reason = next((one.reason for one in states if one.reason), None)
        return f"it is incomplete{f' ({reason})' if reason else ''}"
    disturbed = launch.run.disturbed_share or 0.0
    if disturbed > BUSY_SHARE:
        return f"the machine is busy: something else used its cores during {disturbed:.0%} of the repetitions"
    unstable = unstable_share(launch)
    return f"{unstable:.0%} of its times are unstable" if unstable > MAX_UNSTABLE else ""
