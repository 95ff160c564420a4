"""Says whether measurements are fit for a comparison with a simulation: they must not contradict themselves, no other
work must have used the cores, and the core-to-core latency must be that of the description."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.calibrate import simulated as sim
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.profile import Profile
from nearfield.profile.contradictions import MAX_SAME_PLACE_RATIO, contradictions, core_to_core_ns_of
from nearfield.profile.stability import unstable_share

MAX_DISTURBED, MAX_UNSTABLE = 0.5, 0.6  # maximum share of disturbed repetitions, and of unstable times


def find_doubts(profile: Profile, machine: DescribedMachine | None = None) -> Iterator[str]:
    """Yields each reason why scores of the machine against this profile are meaningless."""
    yield from contradictions(profile)
    disturbed = profile.run.disturbed_share
    if disturbed is not None and disturbed > MAX_DISTURBED:
        yield f"something else used a core during {disturbed:.0%} of the repetitions"
    if (unstable := unstable_share(profile)) > MAX_UNSTABLE:
        yield f"{unstable:.0%} of its times are not stable"
    measured = core_to_core_ns_of(profile)
    if machine and measured and machine.cores and machine.cores.value > 1 and profile.machine.cores == 2:
        described = sim.flag_ns(sim.in_huge_pages(to_native(machine)))
        if not 1 / MAX_SAME_PLACE_RATIO <= described / measured <= MAX_SAME_PLACE_RATIO:
            yield (
                f"its cores were {measured:.0f} ns apart, and those of {machine.name} are {described:.0f} ns apart: "
                "the cores of a virtual machine move, and each place has a description of its own"
            )
