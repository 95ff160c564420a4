"""Findings describe in words and numbers what a profile shows, from stable records only.

A new finding is one function (Profile -> findings; pure) in a file of this folder, and its name in FINDERS.
"""

from __future__ import annotations

from collections import Counter

from nearfield.profile import Profile
from nearfield.profile.curves import restrict_to_drawn, restrict_to_one_machine, without_sweeps
from nearfield.report.findings import (
    buffer_state,
    collectives,
    copy_routines,
    distances,
    headroom,
    load,
    pages,
    policies,
    pollution,
    quality,
    single_copy,
    steps,
    strides,
    tuned,
)
from nearfield.report.findings.finding import LEVELS, Finder, Finding, Level, select_headlines
from nearfield.rules.schema import Rules

FINDERS: tuple[Finder, ...] = (
    headroom.worst_range,
    steps.steps,
    single_copy.single_copy,
    headroom.by_range,
    strides.vectors,
    strides.faces,
    buffer_state.buffer_state,
    pollution.after_the_call,
    pollution.evicted,
    pages.first_touch,
    pages.reading,
    load.load,
    collectives.against_messages,
    collectives.jump,
    copy_routines.copy_routines,
    distances.distances,
)
# This one sees the records of all policies and memory speeds of a simulated NIC; the ones above only
# those of one.
OF_MACHINES: tuple[Finder, ...] = (policies.policies,)
# These are about the measurement and see the records of all pairs; the ones above only of the pairs that are drawn.
NOTES: tuple[Finder, ...] = (
    quality.disturbed,
    quality.moved,
    quality.unstable,
    quality.refuted,
    quality.counters,
)


def findings(profile: Profile, rules: Rules | None = None, apply: str = "") -> list[Finding]:
    """Returns all findings, most important first: by level, then by weight. The first finding of every topic precedes
    the second one of any, since a machine with five distances has five of most. `rules` are those that `tune` found for
    this MPI; `apply` is the command that runs programs with them."""
    profile = without_sweeps(profile)
    small = restrict_to_one_machine(restrict_to_drawn(profile))
    found = tuned.tuned(rules, apply) if rules else []
    found += [finding for finder in FINDERS for finding in finder(small)]
    found += [finding for finder in OF_MACHINES for finding in finder(restrict_to_drawn(profile))]
    found += [finding for finder in NOTES for finding in finder(profile)]
    found.sort(key=lambda f: (LEVELS.index(f.level), -f.weight))
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for finding in found:
        ranked.append((LEVELS.index(finding.level), seen[finding.level, finding.topic], -finding.weight))
        seen[finding.level, finding.topic] += 1
    return [f for _, f in sorted(zip(ranked, found, strict=True), key=lambda pair: pair[0])]


__all__ = ["FINDERS", "NOTES", "OF_MACHINES", "Finding", "Level", "findings", "select_headlines"]
