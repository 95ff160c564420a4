"""Finds the message sizes at which the MPI switches protocols, and the jump of the time at each switch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.base.estimates import Estimate, ratio_of_estimates
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Place, one_place_per_distance, place_prefix
from nearfield.profile.schema import ProtocolSwitch
from nearfield.report.derived_metrics import half_round_trip
from nearfield.report.findings.finding import MEASURE_AGAIN_ADVICE, Finding
from nearfield.report.formatting import format_factor, variable_setting

SWITCH_DESCRIPTIONS = {
    "eager-limit": "its eager limit",
    "unattended-limit": "the largest message that it delivers without the receiver's help",
    "single-copy": "where it begins to let the kernel copy",
    "step": "a step in time only",
}
_BEHAVIOR_BEYOND_SWITCH = {
    "eager-limit": "MPI_Send returns only once the receive is posted",
    "unattended-limit": (
        "MPI_Send returns only once the receiver is inside MPI, so a receiver that computes stalls its sender"
    ),
    "single-copy": "the kernel copies the message straight from one rank's memory to the other's (single copy)",
    "step": "no other known change: the sender does not begin to wait, and the kernel does not begin to copy",
}
_MIN_REPORTED_JUMP = 1.3


@dataclass(frozen=True)
class TimeJump:
    """The last measured message size before a protocol switch and the first size after it, with the ratio of their
    times."""

    bytes_before: int
    bytes_after: int
    ratio: Estimate


def find_protocol_steps(profile: Profile) -> Iterator[Finding]:
    """Yields a finding for each message size at which the MPI switches protocols."""
    for place in one_place_per_distance(profile.records, "pingpong") or _switch_places(profile):
        switches = [s for s in profile.run.switch if s.distance == place.distance and s.pair in (place.pair, None)]
        for size in sorted({s.bytes for s in switches}):
            yield _step_finding(profile, place, _without_implied_switches([s for s in switches if s.bytes == size]))


def find_jump(profile: Profile, place: Place, size: int) -> TimeJump | None:
    """Returns the jump of the time at a protocol switch; None unless there are stable times on both sides, at sizes
    within a factor of two."""
    times = half_round_trip(profile.records, place)
    sizes_before = [s for s in times if size / 2 <= s <= size]
    sizes_after = [s for s in times if size < s <= 2 * size]
    if not sizes_before or not sizes_after:
        return None
    ratio = ratio_of_estimates(times[sizes_before[-1]], times[sizes_after[0]])
    return TimeJump(sizes_before[-1], sizes_after[0], ratio) if ratio else None


def _without_implied_switches(switches: list[ProtocolSwitch]) -> list[ProtocolSwitch]:
    """Returns the switches at one message size in display order. An unattended limit is omitted if there is an eager
    limit, which implies it."""
    kinds = {s.kind for s in switches}
    implied = "unattended-limit" if "eager-limit" in kinds else ""
    return sorted((s for s in switches if s.kind != implied), key=lambda s: list(SWITCH_DESCRIPTIONS).index(s.kind))


def _step_finding(profile: Profile, place: Place, switches: list[ProtocolSwitch]) -> Finding:
    size = switches[0].bytes
    jump = find_jump(profile, place, size)
    names = _format_switch_names(switches)
    beyond = join_and([_BEHAVIOR_BEYOND_SWITCH[s.kind] for s in switches])
    factor = jump.ratio.value if jump else 1.0
    numbers: dict[str, float | int | str] = {"bytes": size, "kinds": ",".join(s.kind for s in switches)}
    if jump:
        numbers |= {"factor": factor, "before_bytes": jump.bytes_before, "after_bytes": jump.bytes_after}
    return Finding(
        topic="steps",
        title=f"Step at {format_bytes(size)}",
        statement=capitalize(
            f"{place_prefix(profile, place)}the step at {format_bytes(size)} is {names}. Beyond it {beyond}. "
            f"{_describe_jump(jump)}"
        ).strip(),
        level="loss" if factor >= _MIN_REPORTED_JUMP else "fact",
        action=_advice_on_switch(profile, switches, factor),
        numbers=numbers,
        weight=factor,
    )


def _format_switch_names(switches: list[ProtocolSwitch]) -> str:
    """Returns the names of the switches with their control variables as text. A control variable that all have in
    common is named once."""
    causes = [f" ({s.name} = {s.value})" if s.name else "" for s in switches]
    if len(set(causes)) == 1:
        return join_and([SWITCH_DESCRIPTIONS[s.kind] for s in switches]) + causes[0]
    return join_and([SWITCH_DESCRIPTIONS[s.kind] + cause for s, cause in zip(switches, causes, strict=True)])


def _describe_jump(jump: TimeJump | None) -> str:
    if jump is None:
        return "Its cost is unknown, because the times around it are missing or not stable."
    sentence_start = f"a {format_bytes(jump.bytes_after)} message takes"
    if jump.ratio.low <= 1.05 and jump.ratio.value < 1.1:
        sentence_start = f"The time does not jump there: {sentence_start}"
    return f"{capitalize(sentence_start)} {format_factor(jump.ratio.value)} a {format_bytes(jump.bytes_before)} one."


def _advice_on_switch(profile: Profile, switches: list[ProtocolSwitch], factor: float) -> str:
    eager = next((s for s in switches if s.kind == "eager-limit"), None)
    if eager and eager.name and eager.value and factor >= _MIN_REPORTED_JUMP:
        larger = variable_setting(profile.run.mpi.family, eager.name, 16 * eager.value)
        return f"Worth a try: a larger limit ({larger}). {MEASURE_AGAIN_ADVICE}"
    if any(s.kind == "unattended-limit" for s in switches):
        return "Let a receiver that computes for long call MPI_Test now and then, or post its receives early."
    return ""


def _switch_places(profile: Profile) -> list[Place]:
    return list(dict.fromkeys(Place(s.distance, s.pair) for s in profile.run.switch))
