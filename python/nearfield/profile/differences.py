"""Describes in human-readable text how the machines, MPIs and runs of two profiles differ, and how many of their times
agree. The terminal output and the HTML pages use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nearfield.base.units import format_bytes
from nearfield.profile.compare import (
    RecordChange,
    UnmatchedValues,
    count_agreeing_times,
    largest_changes,
    overall_verdict,
)
from nearfield.profile.places import find_moved_pairs
from nearfield.profile.records import PLACE_COLUMNS

if TYPE_CHECKING:
    from nearfield.profile.store import Profile

MAX_SHOWN_VALUES = 8
MACHINE_FACTS = ("machine", "processor", "cores", "caches")
MPI_FACTS = ("MPI", "transport")
UNPAIRED_NOTE = "A and B were measured at different times: a ratio shows a change, not its cause."


def profile_differences(a: Profile, b: Profile) -> list[tuple[str, str, str]]:
    """Returns (name of the fact, value in A, value in B) for every fact about machine, MPI and run that differs and may
    explain a ratio."""
    return setup_differences(a, b) + variable_differences(a, b)


def setup_differences(a: Profile, b: Profile) -> list[tuple[str, str, str]]:
    """Returns the same as `profile_differences`, without the MPIs' control variables."""
    moved = [
        (f"latency of {one.pair}", f"{one.a_latency_ns:.0f} ns", f"{one.b_latency_ns:.0f} ns")
        for one in find_moved_pairs(a.run, b.run)
    ]
    return _unequal_facts(_profile_facts(a), _profile_facts(b)) + moved


def variable_differences(a: Profile, b: Profile) -> list[tuple[str, str, str]]:
    """Returns (name, value in A, value in B) for the MPIs' control variables that differ."""
    in_a, in_b = ({name: str(value) for name, value in p.run.mpi.variables.items()} for p in (a, b))
    return _unequal_facts(in_a, in_b)


def _unequal_facts(*facts: dict[str, str]) -> list[tuple[str, str, str]]:
    names = list(dict.fromkeys([*facts[0], *facts[1]]))
    pairs = [(name, facts[0].get(name, "-"), facts[1].get(name, "-")) for name in names]
    return [(name, in_a, in_b) for name, in_a, in_b in pairs if in_a != in_b]


def _profile_facts(profile: Profile) -> dict[str, str]:
    machine, run = profile.machine, profile.run
    return {
        "machine": machine.name,
        "processor": machine.cpu_model,
        "cores": str(machine.cores),
        "caches": ", ".join(f"L{c.level} {format_bytes(c.size_bytes)} x{c.count}" for c in machine.data_caches),
        "MPI": f"{run.mpi.family} {run.mpi.version}",
        "transport": run.mpi.transport or "unknown",
        "kernel": run.host.kernel,
        "governor": run.host.governor or "unknown",
        "nearfield": run.nearfield,
        "tier": run.tier,
        "source": ", ".join(profile.records["source"].unique().sort()),
    }


def same_setup_line(a: Profile, b: Profile) -> str:
    """Returns whether machine and MPI are the same, for example 'the same machine, different MPIs'."""
    different = {what for what, _, _ in setup_differences(a, b)}
    machine = "different machines" if different & set(MACHINE_FACTS) else "the same machine"
    return f"{machine}, {'different MPIs' if different & set(MPI_FACTS) else 'the same MPI'}"


def agreement_line(counts: dict[str, Any]) -> str:
    """Returns the result of `count_agreeing_times` as a sentence."""
    if counts["share"] is None:
        return f"no time is stable in both ({counts['unstable']} unstable)"
    return (
        f"{counts['share'] * 100:.1f} % agree: {counts['agreeing']} of {counts['stable']} times "
        f"that are stable in both ({counts['unstable']} unstable)"
    )


def verdict_sentence(changes: Sequence[RecordChange]) -> str:
    """Returns the verdict on all changes as a phrase with counts, for example 'significantly different: 12 faster, 3
    slower'; or the reason why there is no verdict."""
    agreement = count_agreeing_times(changes)
    times = agreement["stable"] + agreement["unstable"]
    if overall_verdict(changes) == "cannot tell":
        few = f"only {agreement['stable']}" if agreement["stable"] else "none"
        verb = "is" if agreement["stable"] < 2 else "are"
        return f"cannot tell what changed: {few} of {times} times {verb} stable in both"
    counts = Counter(change.verdict for change in largest_changes(changes))
    phrases = [f"{counts[word]} {word}" for word in ("faster", "slower", "changed") if counts[word]]
    return f"significantly different: {', '.join(phrases)}" if phrases else "nothing changed by more than the threshold"


def record_location_text(key: dict[str, Any]) -> str:
    """Returns place and parameters of a record, for example 'shared-l3, 0-1, size 64 KiB', from the columns that
    identify the record."""
    place = [str(key[name]) for name in PLACE_COLUMNS if name in key]
    rest = [(name, value) for name, value in key.items() if name not in (*PLACE_COLUMNS, "scenario", "metric")]
    return ", ".join(place + [_format_parameter(name, value) for name, value in rest])


def _format_parameter(name: str, value: Any) -> str:
    return f"{name.removesuffix('_bytes')} {format_bytes(value) if name.endswith('_bytes') else value}"


def unmatched_values_line(unmatched_values: UnmatchedValues) -> str:
    """Returns a line with the parameter values that only one of the two profiles has."""
    if unmatched_values.column == "scenario":
        return f"only in {unmatched_values.profile}: the scenario {unmatched_values.scenario}"
    bytes_ = unmatched_values.column.endswith("_bytes")
    values = [format_bytes(value) if bytes_ else str(value) for value in unmatched_values.values[:MAX_SHOWN_VALUES]]
    more = (
        f" and {len(unmatched_values.values) - MAX_SHOWN_VALUES} more"
        if len(unmatched_values.values) > MAX_SHOWN_VALUES
        else ""
    )
    name = unmatched_values.column.removesuffix("_bytes")
    return f"only in {unmatched_values.profile}: {unmatched_values.scenario} {name} {', '.join(values)}{more}"
