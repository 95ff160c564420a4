"""Findings on the measurement itself: unstable values, disturbances, refuted buffer states, missing counters."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE_SHARE, declared_records, measured_times
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import format_percent

MIN_SHARE_MANY_UNSTABLE = 0.1
MIN_SHARE_NEARLY_ALL_UNSTABLE = 0.99
# Minimum fraction of disturbed repetitions that is reported; smaller fractions occur on every system.
MIN_DISTURBED_SHARE = 0.05


def find_unstable_times(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the fraction of times that are unstable (their interval is too wide), and the scenario with
    the largest such fraction."""
    times = measured_times(profile)
    wide = times.filter(~pl.col("stable"))
    if not wide.height:
        return
    share = wide.height / times.height
    worst = (
        times.group_by("scenario")
        .agg((~pl.col("stable")).mean().alias("share"))
        .sort("share", "scenario", descending=[True, False])
    )
    name, worst_share = worst.row(0)
    statement = (
        f"{wide.height} of {times.height} times ({format_percent(share)}) varied too much to be relied on, most in "
        f"{name} ({format_percent(worst_share)}); they are drawn hollow, and findings use no more of them than their "
        "bounds."
    )
    action = "Measure again on a quiet machine, or longer (without --quick)." if share > MIN_SHARE_MANY_UNSTABLE else ""
    if share > MAX_UNSTABLE_SHARE:
        statement, action = _describe_unusable_times(profile, wide.height, times.height)
    yield Finding(
        topic="quality",
        title=f"{format_percent(share)} of the times are unstable",
        statement=statement,
        level="warning" if share > MAX_UNSTABLE_SHARE else "note",
        action=action,
        numbers={"unstable": wide.height, "times": times.height, "share": share},
        weight=3 if share > MIN_SHARE_MANY_UNSTABLE else 1,
    )


def _describe_unusable_times(profile: Profile, num_unstable: int, num_times: int) -> tuple[str, str]:
    """Returns a sentence on a profile whose times are mostly unstable, and an action with the command line that
    measures it again. The sentence names no cause, because the ranks of the measurement are part of the host's load."""
    share = format_percent(num_unstable / num_times)
    consequence = (
        "no record can be used"
        if num_unstable >= MIN_SHARE_NEARLY_ALL_UNSTABLE * num_times
        else f"{share} of the times cannot be used"
    )
    return f"The times varied too much: {consequence}.", f"Run again when it is quiet: {profile.measured_by}"


def find_disturbance(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the fraction of repetitions during which other programs used the cores."""
    share = profile.run.disturbed_share
    if share is None or share < MIN_DISTURBED_SHARE:
        return
    yield Finding(
        topic="quality",
        title="This machine is not quiet",
        statement=(
            f"During {format_percent(share)} of the repetitions something else used one of the cores (a fixed piece of "
            "work beside them took longer than it does undisturbed); they are in no number here."
        ),
        level="note",
        action="Stop other programs. On a virtual machine, the cause may be a neighbour that shares the physical "
        "cores.",
        numbers={"share": share},
        weight=4,
    )


def find_moved_cores(profile: Profile) -> Iterator[Finding]:
    """Yields a finding for each pair of cores that was measured at several core-to-core latencies."""
    for used_place in (place for place in profile.run.place if place.used):
        other_places = [place for place in profile.run.place if place.pair == used_place.pair and not place.used]
        if not other_places:
            continue
        latencies_text = join_and([f"{one.c2c_latency_ns:.0f} ns" for one in other_places])
        yield Finding(
            topic="quality",
            title=f"The cores {used_place.pair} moved",
            statement=(
                f"The cores {used_place.pair} were at {len(other_places) + 1} places, as the CPUs of a virtual "
                "machine are moved. "
                f"The times are those at {used_place.c2c_latency_ns:.0f} ns from core to core, where "
                f"{format_percent(used_place.share)} "
                f"of the measurements were made; those at {latencies_text} are in no number here."
            ),
            level="note",
            action="",
            numbers={
                "places": len(other_places) + 1,
                "latency_ns": used_place.c2c_latency_ns,
                "share": used_place.share,
            },
            weight=3,
        )


def find_refuted_states(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the number of times for which a check refuted that the buffers were in the intended cache
    state."""
    judged = declared_records(profile).filter(pl.col("verdict").is_not_null() & (pl.col("unit") == "ns"))
    refuted = judged.filter(pl.col("verdict") == "refuted")
    if not refuted.height:
        return
    yield Finding(
        topic="quality",
        title="Buffers not in the requested state",
        statement=(
            f"For {refuted.height} of {judged.height} times the buffers were checked and were not in the state they "
            "were put into (a buffer larger than the caches cannot be in them, and neighbours push data out); no "
            "finding about buffer states uses these."
        ),
        level="note",
        numbers={"refuted": refuted.height, "asked": judged.height},
        weight=2,
    )


def find_missing_counters(profile: Profile) -> Iterator[Finding]:
    """Yields a finding for each reason why counters are unavailable, with their names."""
    by_reason: dict[str, list[str]] = {}
    for name, state in profile.run.counters.items():
        if state != "available":
            by_reason.setdefault(state, []).append(name)
    for reason, names in by_reason.items():
        yield Finding(
            topic="quality",
            title="Counters that are not there",
            statement=f"No count of {join_and(names)}: {reason}.",
            level="note",
            numbers={"missing": len(names)},
            weight=0.5,
        )
