"""Proposes the first candidates for a search from the cache sizes and from which caches the two cores share: the model
of paper S2 (papers/S2/README.md; section 4 and table 1), and later additions.

S2's rule for the fragments that sender and receiver copy alternately (its "pipesize"): half of the L1 cache if the two
cores share no L2 cache, otherwise all of the L1 cache, so that a fragment that the sender wrote is still cached when
the receiver reads it. Today a fragment may also stay in a private L2 cache of a megabyte, or in the shared last-level
cache. The search determines which of these is best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nearfield.rules.knobs import Knob, KnobFile, Settings

_KIB = 1024


class _SettingsCandidate(NamedTuple):
    """A candidate, independent of the MPI; sizes in bytes. If `uses_single_copy`, the kernel copies long messages;
    otherwise the two ranks do. If `uses_heap`, the shared heap copies long messages instead of the kernel, and only
    `eager_bytes` is used."""

    fragment_bytes: int
    eager_bytes: int
    uses_single_copy: bool
    uses_heap: bool = False


def candidate_settings(
    knobs: KnobFile, cache_bytes: Sequence[int], distance: str, heap_settings: Settings | None = None
) -> list[Settings]:
    """Returns settings to try, the most promising first. `cache_bytes` are the cache sizes of a core, L1 first.
    `heap_settings` holds the best shared-heap settings, for candidates that use the heap; {} if the heap cannot be
    used."""
    found: list[Settings] = []
    has_heap = heap_settings != {} and any(knob.role == "shared_heap" for knob in knobs.knob)
    for roles in _propose_candidates(cache_bytes, distance):
        if roles.uses_heap and not has_heap:
            continue
        settings = _settings_from_candidate(knobs, roles)
        if roles.uses_heap and settings:
            settings |= heap_settings or {}
        if settings and settings not in found and not knobs.find_problems(settings):
            found.append(settings)
    return found


def heap_only_settings(knobs: KnobFile, sizes_by_role: Mapping[str, str]) -> Settings:
    """Returns settings that change only the shared heap; {} if the MPI cannot use it. `sizes_by_role` maps roles of
    heap knobs ("stream", "stream_when_far", "cooperative_copy") to the message sizes for which the knob is on."""
    roles = {knob.role: knob for knob in knobs.knob if knob.role}
    if "shared_heap" not in roles:
        return {}
    settings: Settings = {roles["shared_heap"].name: "on"}
    settings |= {knob.name: sizes_by_role[role] for role, knob in roles.items() if role in sizes_by_role}
    return {name: value for name, value in settings.items() if value != knobs[name].default}


def _propose_candidates(cache_bytes: Sequence[int], distance: str) -> Iterator[_SettingsCandidate]:
    first, outer = cache_bytes[0], cache_bytes[min(1, len(cache_bytes) - 1)]
    papers = first if distance in ("same-core", "shared-l2") else first // 2
    yield _SettingsCandidate(0, 4 * _KIB, True, uses_heap=True)
    yield _SettingsCandidate(0, 8 * _KIB, True, uses_heap=True)
    yield _SettingsCandidate(0, first // 2, True, uses_heap=True)
    yield _SettingsCandidate(papers, 4 * _KIB, False)  # S2, table 1
    yield _SettingsCandidate(papers, 4 * _KIB, True)
    yield _SettingsCandidate(outer // 4, 2 * first, False)
    yield _SettingsCandidate(outer // 8, first, False)
    yield _SettingsCandidate(outer // 4, outer // 4, False)
    yield _SettingsCandidate(outer // 4, first // 2, True)
    yield _SettingsCandidate(outer // 4, first // 4, True)


def _settings_from_candidate(knobs: KnobFile, candidate: _SettingsCandidate) -> Settings:
    """Translates a candidate to settings of one MPI's knobs. Leaves out roles for which the MPI has no knob."""
    settings: Settings = {}
    for knob in knobs.knob:
        match knob.role:
            case "shared_heap" if candidate.uses_heap:
                settings[knob.name] = _non_default_choice(knob)
            case "single_copy_threshold" | "eager_limit" if candidate.uses_heap:
                settings[knob.name] = _nearest_knob_value(knob, candidate.eager_bytes)
            case _ if candidate.uses_heap:
                continue
            case "fragment":
                settings[knob.name] = _nearest_knob_value(knob, candidate.fragment_bytes)
            case "at_least_fragment":
                settings[knob.name] = max(_nearest_knob_value(knob, candidate.fragment_bytes), int(knob.default))
            case "eager_limit":
                settings[knob.name] = _nearest_knob_value(knob, min(candidate.eager_bytes, candidate.fragment_bytes))
            case "single_copy" if not candidate.uses_single_copy:
                settings[knob.name] = _non_default_choice(knob)
            case "single_copy_threshold" if not candidate.uses_single_copy:
                settings[knob.name] = knob.high
            case "segment":
                settings[knob.name] = max(int(knob.default), _nearest_knob_value(knob, 64 * candidate.fragment_bytes))
    return {name: value for name, value in settings.items() if value != knobs[name].default}


def _nearest_knob_value(knob: Knob, size_bytes: int) -> int:
    return min(knob.power_of_two_values(), key=lambda step: abs(step - size_bytes))


def _non_default_choice(knob: Knob) -> str:
    return next(value for value in knob.values if value != knob.default)
