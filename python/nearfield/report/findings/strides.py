"""Finds the cost of messages with noncontiguous elements, and whether the MPI's datatypes or packing by hand is faster
(S3.1)."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes, format_ns
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, common_keys, curve, distinct_values, pick, place_prefix, ratios
from nearfield.report.findings.finding import Finding, at_each_distance
from nearfield.report.formatting import ratio_text

REPORTED_STRIDES = (8, 16, 64)
_CLEAR = 1.15


@at_each_distance("stride")
def find_vector_cost(profile: Profile, place: Place) -> list[Finding]:
    """Returns a finding on strided vectors, for the message size at which MPI's datatype loses most."""
    return _select_heaviest(profile, place, _vector)


@at_each_distance("stride")
def find_face_cost(profile: Profile, place: Place) -> list[Finding]:
    """Returns a finding on the three faces of a 3-D array, for the size at which their times differ most."""
    return _select_heaviest(profile, place, _faces)


def _select_heaviest(
    profile: Profile, place: Place, at_size: Callable[[Profile, Place, int], Finding | None]
) -> list[Finding]:
    sizes = sorted(distinct_values(pick(profile.records, scenario="stride"), "size_bytes"))
    found = [finding for size in sizes if (finding := at_size(profile, place, size))]
    return sorted(found, key=lambda finding: -finding.weight)[:1]


def _times(profile: Profile, place: Place, size: int, x: str, method: str) -> Curve:
    return curve(
        profile.records, "stride", "half_round_trip",
        place=place, x=x, size_bytes=size, method=method, mode="standard",
    )  # fmt: skip


def _vector(profile: Profile, place: Place, size: int) -> Finding | None:
    typed, packed, contiguous = (
        _times(profile, place, size, "stride", method) for method in ("datatype", "manual-pack", "contiguous")
    )
    plain = contiguous.get(1)
    if plain is None or not typed:
        return None
    factors = {s: typed[s].value / plain.value for s in REPORTED_STRIDES if s in typed}
    if not factors:
        return None
    against = {s: r for s, r in ratios(typed, packed).items() if s > 1}
    slowest = max(factors, key=lambda s: factors[s])
    by_hand, action = _who_packs_better(against)
    numbers: dict[str, float | int | str] = {"bytes": size, **{f"factor_{s}": f for s, f in factors.items()}}
    if against:
        numbers["datatype_over_pack"] = _middle(against)
    steps = [f"stride {s} {ratio_text(f)}" for s, f in factors.items()]
    return Finding(
        topic="strides",
        title=f"Stride {slowest} costs {ratio_text(factors[slowest])}",
        statement=capitalize(
            f"{place_prefix(profile, place, 'stride')}{format_bytes(size)} of doubles that lie apart, sent as an MPI "
            f"datatype, take longer than in one piece ({format_ns(plain.value)}): {join_and(steps)}. {by_hand}"
        ).strip(),
        level="loss" if action else "fact",
        action=action,
        numbers=numbers,
        weight=_middle(against) if against else 1,
    )


def _who_packs_better(against: dict[int, Estimate]) -> tuple[str, str]:
    """Returns a sentence and an action. `against` maps a stride to time with an MPI datatype / time with packing by
    hand."""
    if not against:
        return "", ""
    middle = _middle(against)
    if middle >= _CLEAR and sum(r.low > 1 for r in against.values()) * 2 > len(against):
        return f"Packed by hand they are {ratio_text(middle)} faster than that.", "Pack such messages by hand."
    if middle <= 1 / _CLEAR and sum(r.high < 1 for r in against.values()) * 2 > len(against):
        return f"Packing by hand is {ratio_text(1 / middle)} slower: MPI packs well.", ""
    return "Packing by hand makes no clear difference.", ""


def _middle(against: dict[int, Estimate]) -> float:
    values = sorted(r.value for r in against.values())
    return values[len(values) // 2]


def _faces(profile: Profile, place: Place, size: int) -> Finding | None:
    typed = _times(profile, place, size, "face", "datatype")
    packed = _times(profile, place, size, "face", "manual-pack")
    best = {f: min((c[f] for c in (typed, packed) if f in c), key=lambda p: p.value) for f in {*typed, *packed}}
    if len(best) < 2:
        return None
    parts = [f"{face} {format_ns(best[face].value)}" for face in sorted(best)]
    slowest = max(best, key=lambda face: best[face].value)
    fastest = min(best, key=lambda face: best[face].value)
    factor = best[slowest].value / best[fastest].value
    by_hand = [face for face in common_keys(typed, packed) if packed[face].high < typed[face].low]
    return Finding(
        topic="strides",
        title=f"Face {slowest} costs {ratio_text(factor)} face {fastest}",
        statement=capitalize(
            f"{place_prefix(profile, place, 'stride')}the faces of a 3-D array ({format_bytes(size)} each; x: whole "
            f"rows, y: rows far apart, z: single elements apart), each packed the faster way: {join_and(parts)}."
        ),
        action=f"Pack face {join_and(by_hand)} by hand." if by_hand else "",
        numbers={"bytes": size, "factor": factor, "slowest": slowest},
        weight=factor,
    )
