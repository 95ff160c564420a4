"""Findings on the measurement itself: unstable values, disturbances, refuted buffer states, missing counters."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.stability import MAX_UNSTABLE, declared_records, measured_times
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import percent

MANY_UNSTABLE = 0.1
NEARLY_ALL_UNSTABLE = 0.99
MIN_DISTURBED_SHARE = 0.05  # min fraction of disturbed repetitions to report; fewer occur on every system


def unstable(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the fraction of times whose interval is too wide, and the scenario with the most of
    them."""
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
        f"{wide.height} of {times.height} times ({percent(share)}) varied too much to be relied on, most in "
        f"{name} ({percent(worst_share)}); they are drawn hollow, and findings use no more of them than their bounds."
    )
    action = "Measure again on a quiet machine, or longer (without --quick)." if share > MANY_UNSTABLE else ""
    if share > MAX_UNSTABLE:
        statement, action = _useless(profile, wide.height, times.height)
    yield Finding(
        topic="quality",
        title=f"{percent(share)} of the times are unstable",
        statement=statement,
        level="warning" if share > MAX_UNSTABLE else "note",
        action=action,
        numbers={"unstable": wide.height, "times": times.height, "share": share},
        weight=3 if share > MANY_UNSTABLE else 1,
    )


def _useless(profile: Profile, unstable: int, times: int) -> tuple[str, str]:
    """Returns the sentence for a profile whose times are mostly unstable, and the command line that measures it again.
    The sentence names no cause, because the host's load includes the measuring ranks."""
    share = percent(unstable / times)
    useless = (
        "nothing here can be used"
        if unstable >= NEARLY_ALL_UNSTABLE * times
        else f"{share} of the times cannot be used"
    )
    return f"The times varied too much: {useless}.", f"Run again when it is quiet: {profile.measured_by}"


def find_disturbance(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the fraction of repetitions during which other programs used the cores."""
    share = profile.run.disturbed_share
    if share is None or share < MIN_DISTURBED_SHARE:
        return
    yield Finding(
        topic="quality",
        title="This machine is not quiet",
        statement=(
            f"During {percent(share)} of the repetitions something else used one of the cores (a fixed piece of "
            "work beside them took longer than it does undisturbed); they are in no number here."
        ),
        level="note",
        action="Stop what else runs. On a virtual machine it may be a neighbour that shares the physical cores.",
        numbers={"share": share},
        weight=4,
    )


def find_moved_cores(profile: Profile) -> Iterator[Finding]:
    """Yields a finding for each pair of cores that was measured at several core-to-core latencies."""
    for used in (place for place in profile.run.place if place.used):
        others = [place for place in profile.run.place if place.pair == used.pair and not place.used]
        if not others:
            continue
        other_places = join_and([f"{one.c2c_latency_ns:.0f} ns" for one in others])
        yield Finding(
            topic="quality",
            title=f"The cores {used.pair} moved",
            statement=(
                f"The cores {used.pair} were at {len(others) + 1} places, as the CPUs of a virtual machine are moved. "
                f"The times are those at {used.c2c_latency_ns:.0f} ns from core to core, where {percent(used.share)} "
                f"of the measurements were made; those at {other_places} are in no number here."
            ),
            level="note",
            action="",
            numbers={"places": len(others) + 1, "latency_ns": used.c2c_latency_ns, "share": used.share},
            weight=3,
        )


def find_refuted_states(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the number of times whose buffers were verifiably not in the intended cache state."""
    judged = declared_records(profile).filter(pl.col("verdict").is_not_null() & (pl.col("unit") == "ns"))
    wrong = judged.filter(pl.col("verdict") == "refuted")
    if not wrong.height:
        return
    yield Finding(
        topic="quality",
        title="Buffers not in the state asked for",
        statement=(
            f"For {wrong.height} of {judged.height} times the buffers were checked and were not in the state they "
            "were put into (a buffer larger than the caches cannot be in them, and neighbours push data out); no "
            "finding about buffer states uses these."
        ),
        level="note",
        numbers={"refuted": wrong.height, "asked": judged.height},
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
