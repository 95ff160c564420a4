"""First candidates from the sizes of the caches and who shares them: S2, section 4 and table 1, and what holds since.

S2's rule: the pieces that sender and receiver copy in turn (its "pipesize") are half of the first-level cache where
the two cores share no second-level cache, all of it where they do, so that a piece written by one is still near when
the other reads it. Today a piece may also live in a private second-level cache of a megabyte, or in the shared last
level; what is best among these is for the search to find.

Beyond S2: where the same piece is used again at once, every line of it is still in the cache of the receiver, who just
read it, and the sender must take it from there before it may write, at a quarter of the speed on a Zen 4
(bench/come_round.py). So pieces should come round only after the second-level cache has lost them, but before the last
level has: the memory they go through in turn (the ring) is one or two second-level caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nearfield.tune.knobs import Knob, KnobFile, Settings

_KIB = 1024


class _Roles(NamedTuple):
    """What a candidate is, in bytes. `ring`: the memory that messages go through in turn; 0: as it is. `again`: from
    there on the kernel copies no more (it has one core copy, ranks that copy have two); 0: it goes on. `heap`: in place
    of the kernel, the receiver copies from the sender's memory; `eager` is then 0 if it stays."""

    fragment: int
    eager: int
    single_copy: bool
    ring: int = 0
    again: int = 0
    heap: bool = False


def candidates(
    knobs: KnobFile, cache_bytes: Sequence[int], distance: str, heap: Settings | None = None
) -> list[Settings]:
    """Settings to try first, the most promising first. `cache_bytes`: of a core's caches, nearest first.
    `heap`: how the shared heap is best used, for those that use it; empty: it cannot be used."""
    found: list[Settings] = []
    has_heap = heap != {} and any(knob.role == "shared_heap" for knob in knobs.knob)
    for roles in _roles(cache_bytes, distance):
        if roles.heap and not has_heap:
            continue
        settings = _as_settings(knobs, roles)
        if roles.heap and settings:
            settings |= heap or {}
        if settings and settings not in found and not knobs.problems(settings):
            found.append(settings)
    return found


def heap_alone(knobs: KnobFile, stream: str, *, far: bool = False) -> Settings:
    """The shared heap, and nothing else; these sizes are copied past the caches, while the cores are far apart if `far`
    is true, otherwise while they are not. Nothing where there is no heap."""
    roles = {knob.role: knob for knob in knobs.knob}
    if "shared_heap" not in roles:
        return {}
    settings: Settings = {roles["shared_heap"].name: "on", roles["far_stream" if far else "stream"].name: stream}
    return {name: value for name, value in settings.items() if value != knobs[name].default}


def _roles(cache_bytes: Sequence[int], distance: str) -> Iterator[_Roles]:
    first, outer = cache_bytes[0], cache_bytes[min(1, len(cache_bytes) - 1)]
    papers = first if distance in ("same-core", "shared-l2") else first // 2
    yield _Roles(0, 4 * _KIB, True, heap=True)
    yield _Roles(0, 8 * _KIB, True, heap=True)
    yield _Roles(0, first // 2, True, heap=True)
    yield _Roles(outer // 4, outer // 8, True, ring=outer, again=outer)
    yield _Roles(outer // 4, outer // 4, False, ring=outer)
    yield _Roles(outer // 4, outer // 16, True, ring=outer)
    yield _Roles(outer // 16, outer // 16, False, ring=2 * outer)
    yield _Roles(outer // 4, first // 4, True, ring=2 * outer)  # where the kernel is faster from a few pages on
    yield _Roles(papers, 4 * _KIB, False)  # S2, table 1
    yield _Roles(papers, 4 * _KIB, True)
    yield _Roles(outer // 4, 2 * first, False)
    yield _Roles(outer // 8, first, False)
    yield _Roles(outer // 4, first // 2, True)
    yield _Roles(outer // 4, first // 4, True)


def _as_settings(knobs: KnobFile, roles: _Roles) -> Settings:
    """What these roles mean for the knobs of one MPI; what it has no knob for is left out."""
    fragment, ring = roles.fragment, roles.ring
    eager = roles.eager if roles.heap else min(roles.eager, fragment)
    of_fragments = any(knob.role == "fragment_ring" for knob in knobs.knob)  # leaves short messages as they are
    settings: Settings = {}
    for knob in knobs.knob:
        match knob.role:
            case "shared_heap" if roles.heap:
                settings[knob.name] = _other(knob)
            case "single_copy_threshold" if roles.heap and eager:
                settings[knob.name] = _nearest(knob, eager)
            case "eager_limit" if roles.heap:
                if eager:
                    settings[knob.name] = _nearest(knob, eager)
            case "fragment" | "at_least_fragment" | "segment" | "rendezvous_eager" if roles.heap:
                continue
            case "fragment":
                settings[knob.name] = _nearest(knob, fragment)
            case "at_least_fragment":
                settings[knob.name] = max(_nearest(knob, fragment), int(knob.default))
            case "eager_limit" | "rendezvous_eager":
                settings[knob.name] = _nearest(knob, eager)
            case "single_copy" if not roles.single_copy:
                settings[knob.name] = _other(knob)
            case "single_copy_threshold" if not roles.single_copy:
                settings[knob.name] = knob.high
            case "segment":
                settings[knob.name] = max(int(knob.default), _nearest(knob, max(64 * fragment, 32 * ring)))
            case "fragment_ring" if ring:
                settings[knob.name] = _nearest(knob, ring)
            case "single_copy_upto" if roles.again:
                settings[knob.name] = _nearest(knob, roles.again // 2)
            case "ring" if ring and not of_fragments:
                settings[knob.name] = _nearest(knob, ring)
            case "ring_pieces" if ring:
                settings[knob.name] = _nearest(knob, ring // fragment)
            case "through_ring" if ring and not of_fragments:
                settings[knob.name] = _other(knob)
    return {name: value for name, value in settings.items() if value != knobs[name].default}


def _nearest(knob: Knob, size: int) -> int:
    return min(knob.steps(), key=lambda step: abs(step - size))


def _other(knob: Knob) -> str:
    return next(value for value in knob.values if value != knob.default)
