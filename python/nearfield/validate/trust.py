"""Checks whether measurements are reliable enough for a comparison with a simulation: they must not contradict each
other, other processes must not have used the cores, and the core-to-core latency must be near that of the machine's
description."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.calibrate import simulated as sim
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.profile import Profile
from nearfield.profile.contradictions import (
    MAX_SAME_PLACE_LATENCY_RATIO,
    core_to_core_latency_ns_of,
    describe_contradictions,
)
from nearfield.profile.stability import unstable_share

MAX_DISTURBED_SHARE, MAX_UNSTABLE_SHARE = 0.5, 0.6  # maximum fraction of disturbed repetitions, and of unstable times


def find_doubts(profile: Profile, machine: DescribedMachine | None = None) -> Iterator[str]:
    """Yields each reason why comparing the machine's description with this profile gives no meaningful scores."""
    yield from describe_contradictions(profile)
    disturbed = profile.run.disturbed_share
    if disturbed is not None and disturbed > MAX_DISTURBED_SHARE:
        yield f"something else used a core during {disturbed:.0%} of the repetitions"
    if (unstable := unstable_share(profile)) > MAX_UNSTABLE_SHARE:
        yield f"{unstable:.0%} of its times are not stable"
    measured = core_to_core_latency_ns_of(profile)
    if machine and measured and machine.cores and machine.cores.value > 1 and profile.machine.cores == 2:
        described = sim.flag_ns(sim.with_huge_pages(to_native(machine)))
        if not 1 / MAX_SAME_PLACE_LATENCY_RATIO <= described / measured <= MAX_SAME_PLACE_LATENCY_RATIO:
            yield (
                f"its cores were {measured:.0f} ns apart, and those of {machine.name} are {described:.0f} ns apart: "
                "the cores of a virtual machine move, and each place has a description of its own"
            )
