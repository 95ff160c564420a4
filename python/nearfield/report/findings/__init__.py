"""Computes findings: statements in words and numbers on what the stable records of a profile show.

To add a finding, add a pure function (Profile -> findings) in a module of this folder, and its name to FINDERS."""

from __future__ import annotations

from collections import Counter

from nearfield.profile import Profile
from nearfield.profile.curves import restrict_to_one_machine, restrict_to_plotted_places, without_swept_records
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
from nearfield.report.findings.finding import LEVELS, Finder, Finding, FindingLevel, select_headlines
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
# Finders that get the records of all placement policies and memory speeds of a simulated machine. The finders of
# FINDERS get only those of one policy and one speed.
MACHINE_FINDERS: tuple[Finder, ...] = (policies.find_policy_savings,)
# Finders of notes on the measurement itself, which get the records of all pairs of cores. All other finders get only
# the records of the pairs that the report draws.
NOTE_FINDERS: tuple[Finder, ...] = (
    quality.find_disturbance,
    quality.find_moved_cores,
    quality.find_unstable_times,
    quality.find_refuted_states,
    quality.find_missing_counters,
)


def findings(profile: Profile, rules: Rules | None = None, apply_command: str = "") -> list[Finding]:
    """Returns all findings, most important first: by level, then by weight. Within a level, the first finding of every
    topic precedes the second finding of any topic, because a machine with five core distances has most findings five
    times. `rules` are those that `nearfield tune` found for this MPI, if any; `apply_command` is the command line that
    runs programs with them."""
    profile = without_swept_records(profile)
    drawn_profile = restrict_to_one_machine(restrict_to_plotted_places(profile))
    found = tuned.find_tuned_gains(rules, apply_command) if rules else []
    found += [finding for finder in FINDERS for finding in finder(drawn_profile)]
    found += [finding for finder in MACHINE_FINDERS for finding in finder(restrict_to_plotted_places(profile))]
    found += [finding for finder in NOTE_FINDERS for finding in finder(profile)]
    found.sort(key=lambda f: (LEVELS.index(f.level), -f.weight))
    num_by_level_and_topic: Counter[tuple[str, str]] = Counter()
    ranked = []
    for finding in found:
        ranked.append(
            (LEVELS.index(finding.level), num_by_level_and_topic[finding.level, finding.topic], -finding.weight)
        )
        num_by_level_and_topic[finding.level, finding.topic] += 1
    return [f for _, f in sorted(zip(ranked, found, strict=True), key=lambda pair: pair[0])]


__all__ = ["FINDERS", "NOTE_FINDERS", "MACHINE_FINDERS", "Finding", "FindingLevel", "findings", "select_headlines"]
