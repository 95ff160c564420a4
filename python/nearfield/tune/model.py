"""First candidates from the sizes of the caches and who shares them: S2, section 4 and table 1, and what holds since.

S2's rule: the pieces that sender and receiver copy in turn (its "pipesize") are half of the first-level cache where
the two cores share no second-level cache, all of it where they do, so that a piece written by one is still near when
the other reads it. Today a piece may also live in a private second-level cache of a megabyte, or in the shared last
level; what is best among these is for the search to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearfield.tune.knobs import Knob, KnobFile, Settings

_KIB = 1024


def candidates(knobs: KnobFile, cache_bytes: Sequence[int], distance: str) -> list[Settings]:
    """Settings to try first, the most promising first. `cache_bytes`: of a core's caches, nearest first."""
    found: list[Settings] = []
    for fragment, eager, single_copy in _roles(cache_bytes, distance):
        settings = _as_settings(knobs, fragment, eager, single_copy)
        if settings and settings not in found and not knobs.problems(settings):
            found.append(settings)
    return found


def _roles(cache_bytes: Sequence[int], distance: str) -> Iterator[tuple[int, int, bool]]:
    """(fragment, eager limit, whether the kernel copies long messages), in bytes."""
    first, outer = cache_bytes[0], cache_bytes[min(1, len(cache_bytes) - 1)]
    papers = first if distance in ("same-core", "shared-l2") else first // 2
    yield outer // 4, 2 * first, False
    yield papers, 4 * _KIB, False  # S2, table 1
    yield papers, 4 * _KIB, True
    yield outer // 2, outer // 8, False
    yield outer // 4, 2 * first, True
    yield outer // 8, first, False
    yield 2 * first, first // 2, False
    yield outer // 4, first // 2, True
    yield outer // 4, first // 4, True  # where the kernel is faster from a few pages on


def _as_settings(knobs: KnobFile, fragment: int, eager: int, single_copy: bool) -> Settings:
    """What these roles mean for the knobs of one MPI; what it has no knob for is left out."""
    eager = min(eager, fragment)
    settings: Settings = {}
    for knob in knobs.knob:
        match knob.role:
            case "fragment":
                settings[knob.name] = _nearest(knob, fragment)
            case "at_least_fragment":
                settings[knob.name] = max(_nearest(knob, fragment), int(knob.default))
            case "eager_limit" | "rendezvous_eager":
                settings[knob.name] = _nearest(knob, eager)
            case "single_copy" if not single_copy:
                settings[knob.name] = next(value for value in knob.values if value != knob.default)
            case "single_copy_threshold" if not single_copy:
                settings[knob.name] = knob.high
            case "segment":
                settings[knob.name] = max(int(knob.default), _nearest(knob, 64 * fragment))
    return {name: value for name, value in settings.items() if value != knobs[name].default}


def _nearest(knob: Knob, size: int) -> int:
    return min(knob.steps(), key=lambda step: abs(step - size))
