"""Findings describe in words and numbers what a profile shows, from stable records only.

To add a finding, add a pure function (Profile -> findings) in a module of this folder, and its name to FINDERS.
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
    headroom.find_worst_range,
    steps.find_protocol_steps,
    single_copy.find_single_copy_cost,
    headroom.find_share_by_range,
    strides.find_vector_cost,
    strides.find_face_cost,
    buffer_state.find_buffer_state_gain,
    pollution.find_size_cached_after_call,
    pollution.find_evictions,
    pages.find_first_touch_cost,
    pages.find_reread_cost,
    load.find_load_slowdown,
    collectives.find_cost_in_messages,
    collectives.find_time_jump,
    copy_routines.find_fastest_copies,
    distances.find_distance_cost,
)
# Finders that get the records of all policies and memory speeds of a simulated NIC. FINDERS get only those of one
# policy and speed.
OF_MACHINES: tuple[Finder, ...] = (policies.find_policy_savings,)
# Finders of notes on the measurement, which get the records of all pairs of cores. The other finders get only those of
# pairs that are drawn.
NOTES: tuple[Finder, ...] = (
    quality.find_disturbance,
    quality.find_moved_cores,
    quality.unstable,
    quality.find_refuted_states,
    quality.find_missing_counters,
)


def findings(profile: Profile, rules: Rules | None = None, apply: str = "") -> list[Finding]:
    """Returns all findings, most important first: by level, then by weight. Within a level, the first finding of every
    topic precedes the second of any topic, because a machine with five core distances has most findings five times.
    `rules` are those that `tune` found for this MPI; `apply` is the command line that runs programs under them."""
    profile = without_sweeps(profile)
    small = restrict_to_one_machine(restrict_to_drawn(profile))
    found = tuned.find_tuned_gains(rules, apply) if rules else []
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
