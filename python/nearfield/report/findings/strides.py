"""Finds the cost of messages with noncontiguous elements, and whether the MPI's datatypes or packing by hand is faster
(claim S3.1 in papers/S3/claims.toml)."""

from __future__ import annotations

from collections.abc import Callable

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes, format_ns
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import (
    Curve,
    Place,
    common_x_values,
    curve,
    distinct_values,
    place_prefix,
    ratios,
    select_records,
)
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_factor

REPORTED_STRIDES = (8, 16, 64)
_MIN_CLEAR_RATIO = 1.15


@finder_at_each_distance("stride")
def find_vector_cost(profile: Profile, place: Place) -> list[Finding]:
    """Returns a finding on strided vectors, for the message size at which the MPI's datatype is slowest compared with
    packing by hand."""
    return _select_finding_of_max_weight(profile, place, _vector_finding)


@finder_at_each_distance("stride")
def find_face_cost(profile: Profile, place: Place) -> list[Finding]:
    """Returns a finding on the three faces of a 3-D array, for the size at which their times differ most."""
    return _select_finding_of_max_weight(profile, place, _faces_finding)


def _select_finding_of_max_weight(
    profile: Profile, place: Place, find_at_size: Callable[[Profile, Place, int], Finding | None]
) -> list[Finding]:
    sizes = sorted(distinct_values(select_records(profile.records, scenario="stride"), "size_bytes"))
    found = [finding for size in sizes if (finding := find_at_size(profile, place, size))]
    return sorted(found, key=lambda finding: -finding.weight)[:1]


def _stride_times(profile: Profile, place: Place, size: int, x: str, method: str) -> Curve:
    return curve(
        profile.records, "stride", "half_round_trip",
        place=place, x=x, size_bytes=size, method=method, mode="standard",
    )  # fmt: skip


def _vector_finding(profile: Profile, place: Place, size: int) -> Finding | None:
    typed, packed, contiguous = (
        _stride_times(profile, place, size, "stride", method) for method in ("datatype", "manual-pack", "contiguous")
    )
    contiguous_time = contiguous.get(1)
    if contiguous_time is None or not typed:
        return None
    factors = {s: typed[s].value / contiguous_time.value for s in REPORTED_STRIDES if s in typed}
    if not factors:
        return None
    datatype_over_pack = {s: r for s, r in ratios(typed, packed).items() if s > 1}
    slowest = max(factors, key=lambda s: factors[s])
    packing_sentence, action = _compare_packing(datatype_over_pack)
    numbers: dict[str, float | int | str] = {"bytes": size, **{f"factor_{s}": f for s, f in factors.items()}}
    if datatype_over_pack:
        numbers["datatype_over_pack"] = _median_ratio(datatype_over_pack)
    steps = [f"stride {s} {format_factor(f)}" for s, f in factors.items()]
    return Finding(
        topic="strides",
        title=f"Stride {slowest} costs {format_factor(factors[slowest])}",
        statement=capitalize(
            f"{place_prefix(profile, place, 'stride')}{format_bytes(size)} of doubles that lie apart, sent as an MPI "
            f"datatype, take longer than in one piece ({format_ns(contiguous_time.value)}): {join_and(steps)}. "
            f"{packing_sentence}"
        ).strip(),
        level="loss" if action else "fact",
        action=action,
        numbers=numbers,
        weight=_median_ratio(datatype_over_pack) if datatype_over_pack else 1,
    )


def _compare_packing(datatype_over_pack: dict[int, Estimate]) -> tuple[str, str]:
    """Returns a sentence on packing by hand and an action. `datatype_over_pack` maps a stride to the time with an MPI
    datatype divided by the time with packing by hand."""
    if not datatype_over_pack:
        return "", ""
    median = _median_ratio(datatype_over_pack)
    if median >= _MIN_CLEAR_RATIO and sum(r.low > 1 for r in datatype_over_pack.values()) * 2 > len(datatype_over_pack):
        return f"Packed by hand they are {format_factor(median)} faster than that.", "Pack such messages by hand."
    if median <= 1 / _MIN_CLEAR_RATIO and sum(r.high < 1 for r in datatype_over_pack.values()) * 2 > len(
        datatype_over_pack
    ):
        return f"Packing by hand is {format_factor(1 / median)} slower: MPI packs well.", ""
    return "Packing by hand makes no clear difference.", ""


def _median_ratio(ratios: dict[int, Estimate]) -> float:
    values = sorted(r.value for r in ratios.values())
    return values[len(values) // 2]


def _faces_finding(profile: Profile, place: Place, size: int) -> Finding | None:
    typed = _stride_times(profile, place, size, "face", "datatype")
    packed = _stride_times(profile, place, size, "face", "manual-pack")
    best = {f: min((c[f] for c in (typed, packed) if f in c), key=lambda p: p.value) for f in {*typed, *packed}}
    if len(best) < 2:
        return None
    parts = [f"{face} {format_ns(best[face].value)}" for face in sorted(best)]
    slowest = max(best, key=lambda face: best[face].value)
    fastest = min(best, key=lambda face: best[face].value)
    factor = best[slowest].value / best[fastest].value
    by_hand = [face for face in common_x_values(typed, packed) if packed[face].high < typed[face].low]
    return Finding(
        topic="strides",
        title=f"Face {slowest} costs {format_factor(factor)} face {fastest}",
        statement=capitalize(
            f"{place_prefix(profile, place, 'stride')}the faces of a 3-D array ({format_bytes(size)} each; x: whole "
            f"rows, y: rows far apart, z: single elements apart), each packed the faster way: {join_and(parts)}."
        ),
        action=f"Pack face {join_and(by_hand)} by hand." if by_hand else "",
        numbers={"bytes": size, "factor": factor, "slowest": slowest},
        weight=factor,
    )
