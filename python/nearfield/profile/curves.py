"""Extracts curves from records. By default, `curve` returns only points on which findings and guidelines may be based:
stable values whose buffer state was not refuted. Plots request all values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nearfield.base.estimates import Estimate, ratio_of_estimates
from nearfield.base.frames import pl
from nearfield.base.topology import CORE_DISTANCES
from nearfield.profile.records import estimate_of_record, select_reliable_records, swept_parameters, where
from nearfield.profile.store import Profile

MAX_PLOTTED_PLACES = 12
SIMULATED_MACHINE_PARAMETERS = ("policy", "memory_slowdown")  # parameters of a simulated machine
CLUSTER_SCENARIOS = ("application", "collective", "program")  # scenarios that run on all ranks of a simulated cluster

_DISTANCE_PHRASES = {
    "same-core": "between the hardware threads of one core",
    "shared-l2": "between cores that share an L2 cache",
    "shared-l3": "between cores that share an L3 cache",
    "same-numa": "between cores of one NUMA node",
    "same-package": "between cores of one package",
    "same-node": "between packages",
}


@dataclass(frozen=True)
class Place:
    """A pair of ranks and its distance; both are None for records of all ranks."""

    distance: str | None
    pair: str | None

    @property
    def label(self) -> str:
        """Returns the place as a label, for example 'shared-l3, 0-1'."""
        return ", ".join(part for part in (self.distance, self.pair) if part) or "all ranks"

    @property
    def phrase(self) -> str:
        """Returns the place as a phrase, for example 'between cores that share an L3 cache'."""
        phrase = _DISTANCE_PHRASES.get(self.distance or "")
        return phrase or ("between nodes" if is_network_distance(self.distance) else f"at distance {self.distance}")


@dataclass(frozen=True)
class Point(Estimate):
    """The value and interval of one record, in the record's unit (ns for times)."""

    n: int
    is_stable: bool
    verdict: str | None = None
    note: str | None = None
    unit: str = "ns"

    @property
    def is_reliable(self) -> bool:
        """Returns whether a decision may be based on the point: it is stable, and its buffer state was not refuted."""
        return self.is_stable and self.verdict != "refuted"

    def scale_by(self, factor: float, unit: str) -> Point:
        return Point(
            self.value * factor, self.low * factor, self.high * factor,
            self.n, self.is_stable, self.verdict, self.note, unit,
        )  # fmt: skip


Curve = dict[Any, Point]


def is_network_distance(distance: str | None) -> bool:
    """Returns whether the distance is between nodes."""
    return (distance or "").startswith("network")


def places_of_scenario(records: pl.DataFrame, scenario: str) -> list[Place]:
    """Returns the pairs of ranks for which a scenario has records, nearest first; within one distance in the order of
    the records."""
    pairs = records.filter(pl.col("scenario") == scenario).select("distance", "pair").unique(maintain_order=True)
    order = {name: rank for rank, name in enumerate(CORE_DISTANCES)}
    places = [Place(*row) for row in pairs.iter_rows() if row[1] is not None]
    # By length first: network-10 comes after network-9.
    return sorted(
        places, key=lambda p: (order.get(p.distance or "", len(order)), len(p.distance or ""), p.distance or "")
    )


def one_place_per_distance(records: pl.DataFrame, scenario: str) -> list[Place]:
    """Returns the first pair of each distance of a scenario."""
    return first_place_per_distance(places_of_scenario(records, scenario))


def first_place_per_distance(places: list[Place]) -> list[Place]:
    """Returns the first of the given pairs at each distance."""
    return list({place.distance: place for place in reversed(places)}.values())[::-1]


def plotted_places(records: pl.DataFrame, scenario: str) -> list[Place]:
    """Returns the pairs that get a plot of their own: all pairs, or one per distance if there are more than
    MAX_PLOTTED_PLACES."""
    places = places_of_scenario(records, scenario)
    return places if len(places) <= MAX_PLOTTED_PLACES else one_place_per_distance(records, scenario)


def restrict_to_plotted_places(profile: Profile) -> Profile:
    """Returns the profile without the records of pairs that get no plot, of which there may be thousands."""
    scenarios = profile.records["scenario"].unique(maintain_order=True)
    drawn = {place.pair for name in scenarios for place in plotted_places(profile.records, name)}
    rows = profile.records.filter(pl.col("pair").is_null() | pl.col("pair").is_in(drawn))
    return replace(profile, records=rows)


def without_swept_records(profile: Profile) -> Profile:
    """Returns the profile without records of swept machines and without the columns of swept keys: only records of the
    machine as its file describes it remain."""
    names = swept_parameters(profile.records)
    rows = profile.records.filter(*(pl.col(name).is_null() for name in names))
    return replace(profile, records=rows.drop(names))


def restrict_to_one_machine(profile: Profile) -> Profile:
    """Returns the profile in which records of pairs are restricted to the first simulated NIC policy and the first
    memory slowdown, since a curve must be of one machine. Records of collectives and applications are unchanged."""
    records = profile.records
    is_selected = pl.lit(value=True)
    for axis in SIMULATED_MACHINE_PARAMETERS:
        if axis in records.columns:
            of_pairs = ~pl.col("scenario").is_in(CLUSTER_SCENARIOS)
            first = records.filter(of_pairs)[axis].drop_nulls().unique(maintain_order=True)[:1]
            is_selected = is_selected & (~of_pairs | pl.col(axis).is_null() | pl.col(axis).is_in(first.implode()))
    return replace(profile, records=records.filter(is_selected))


def select_records(records: pl.DataFrame, place: Place | None = None, **conditions: Any) -> pl.DataFrame:
    """Returns the records of a pair (None: of all pairs) whose columns have these values, as `where` does. Returns no
    records if a column is missing, unless its value is to be None."""
    if place is not None:
        conditions = {**conditions, "distance": place.distance, "pair": place.pair}
    missing_columns = [name for name in conditions if name not in records.columns]
    if any(conditions[name] is not None for name in missing_columns):
        return records.clear()
    return where(records, **{name: value for name, value in conditions.items() if name not in missing_columns})


def distinct_values(records: pl.DataFrame, name: str) -> list[Any]:
    """Returns the distinct values of a parameter in the order of the records; [] if the column is missing."""
    return [value for (value,) in distinct_combinations(records, name)]


def distinct_combinations(records: pl.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Returns the distinct combinations of these parameters in the order of the records, without combinations that
    contain null; [] if a column is missing."""
    if not {*names} <= {*records.columns}:
        return []
    return records.select(names).drop_nulls().unique(maintain_order=True).rows()


def curve(
    records: pl.DataFrame,
    scenario: str,
    metric: str,
    *,
    place: Place | None = None,
    x: str = "size_bytes",
    only_reliable: bool = True,
    **fixed: Any,
) -> Curve:
    """Returns x -> point, in ascending order of x, without nulls. `only_reliable` excludes points on which no decision
    may be based. Of several records at the same x, the last one counts."""
    rows = select_records(records, place, scenario=scenario, metric=metric, **fixed)
    if x not in rows.columns:
        return {}
    rows = rows.drop_nulls([x, "value"]).unique(x, keep="last").sort(x)
    rows = select_reliable_records(rows) if only_reliable else rows
    return {row[x]: point_of(row) for row in rows.iter_rows(named=True)}


def point_of(row: Mapping[str, Any]) -> Point:
    """Returns the point of a record that has a value."""
    estimate = estimate_of_record(row)
    assert estimate
    facts = {name: row[name] for name in ("n", "verdict", "note", "unit")}
    return Point(**vars(estimate), is_stable=row["stable"], **facts)


def common_x_values(*curves: Mapping[Any, Any]) -> list[Any]:
    """Returns the x values that all curves have, in ascending order."""
    return sorted(set.intersection(*(set(curve) for curve in curves)))


def ratios(numerators: Curve, denominators: Curve) -> dict[Any, Estimate]:
    """Returns x -> numerator / denominator with its interval, where both values are positive or both are 0."""
    ratio_by_x = {
        x: ratio_of_estimates(denominators[x], numerators[x]) for x in common_x_values(numerators, denominators)
    }
    return {x: ratio for x, ratio in ratio_by_x.items() if ratio is not None}


def place_prefix(profile: Profile, place: Place, scenario: str = "pingpong") -> str:
    """Returns the place as the beginning of a sentence, for example 'between packages: '; '' if the scenario has only
    one distance."""
    return f"{place.phrase}: " if len(one_place_per_distance(profile.records, scenario)) > 1 else ""
